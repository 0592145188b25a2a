"""Estimators with a calibrator: cross-fitting and weights, for classifiers and regressors."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, assert_all_finite, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, check_is_fitted, column_or_1d, has_fit_parameter

from likely._rows.checks import all_or_nothing, check_sample_weight
from likely._rows.contents import Split, deals_itself, split_by_content
from likely._rows.sources import by_blocks, is_source
from likely._typing import Array

Outputs = tuple[Any, ...]  # an estimator's outputs for some rows: arrays, and values that hold for all of them
Weight = Array | None


by_blocks_or_texts = functools.partial(by_blocks, texts=True)


class CalibratedEstimator(MetaEstimatorMixin, BaseEstimator):
    """An estimator with a calibrator, fitted on rows that the estimator was not trained on.

    Subclasses write ``_outputs`` and ``_fit_calibrator``.
    """

    estimator: Any
    method: Any
    cv: Any
    features: Any
    n_jobs: int | None

    @all_or_nothing  # type: ignore[arg-type]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the calibrator and, unless it is fitted already, the estimator.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes.
            y: targets or labels of shape (n,).
            sample_weight: weights of shape (n,), for the calibrator and, if its ``fit`` takes weights, the estimator;
                None for equal weights.
            **fit_params: further arguments of the estimator's ``fit``.

        Returns:
            The fitted estimator itself.

        Raises:
            ValueError: targets are not valid for the estimator, or a fold lacks a class.
            TypeError: X is not in memory.
        """
        if is_source(X) and not isinstance(X, list | tuple):  # these are rows, of a classifier of texts
            raise TypeError(
                "rows are fitted in memory here: for a table in blocks, give a calibrator such as GlobalTemperature or "
                "GlobalScale the outputs of a fitted estimator"
            )
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        if is_classifier(self):
            check_classification_targets(y)
        X, y = indexable(X, y if is_classifier(self) else y.astype(np.float64))
        weight = check_sample_weight(sample_weight, X)
        if weight is not None and not weight.all() and deals_itself(self.cv):  # rows of weight zero are left out
            counted = np.flatnonzero(weight)
            fit_params = _check_method_params(X, fit_params, counted)
            X, y, weight = _safe_indexing(X, counted), y[counted], weight[counted]
        if self.cv == "prefit" or isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            targets = self._targets(y, self.estimator)
            outputs, features = self._outputs(self.estimator, X), self._features(X, fit=True)
        else:
            outputs, targets, features, weight = self._cross_fit(X, y, weight, fit_params)
        self.calibrator_ = self._fit_calibrator(outputs, targets, features, weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _targets(self, y: NDArray[Any], fitted: Any = None) -> NDArray[Any]:
        """Return the targets of the calibrator; ``fitted`` is the estimator, where it is fitted already."""
        return y

    def _outputs(self, estimator: Any, X: Any) -> Outputs:
        """Return the predictions of a fitted estimator that the calibrator needs."""
        raise TypeError("use CalibratedClassifier or CalibratedRegressor")

    def _fit_calibrator(self, outputs: Outputs, targets: NDArray[Any], features: Any, weight: Weight) -> Any:
        """Return a calibrator fitted to the estimator's outputs for rows that were new to it."""
        raise TypeError("use CalibratedClassifier or CalibratedRegressor")

    def _check_folds(self, targets: NDArray[Any], weight: Weight, folds: list[Split]) -> None:
        """Raise an error for folds whose training rows lack what the estimator needs."""

    def _features(self, X: Any, fit: bool = False) -> Any:
        features: Callable[[Any], Any] | None = self.features
        return None if features is None else features(X)

    def _cross_fit(self, X: Any, y: NDArray[Any], weight: Weight, fit_params: dict[str, Any]) -> tuple[Any, ...]:
        """Fit the estimator to all rows; return out-of-fold outputs, with the targets, features and weights there."""
        targets, params = self._targets(y), self._fit_params(weight, fit_params)
        cv = check_cv(self.cv, y, classifier=is_classifier(self))
        folds = list(cv.split(X, y))
        if deals_itself(self.cv):  # scikit-learn has checked for classes of too few rows
            folds = split_by_content(X, cv.get_n_splits(), targets if is_classifier(self) else None)
        self._check_folds(targets, weight, folds)
        features = self._features(X, fit=True)
        fitted = Parallel(n_jobs=self.n_jobs)(delayed(_fit)(self.estimator, X, y, train, params) for train, _ in folds)
        parts = [self._outputs(one, _safe_indexing(X, rows)) for one, (_, rows) in zip(fitted, folds, strict=True)]
        self.estimator_ = clone(self.estimator).fit(X, y, **_check_method_params(X, params))
        held_out = np.concatenate([rows for _, rows in folds])
        return _joined(parts), targets[held_out], _taken(features, held_out), _taken(weight, held_out)

    def _fit_params(self, weight: Weight, fit_params: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the estimator's fit, with the weights if it takes any."""
        if weight is None:
            return fit_params
        if has_fit_parameter(self.estimator, "sample_weight"):
            return {**fit_params, "sample_weight": weight}
        kind = type(self.estimator).__name__
        warnings.warn(f"{kind} takes no sample_weight: weights are used by the calibrator only", stacklevel=5)
        return fit_params


def _fit(estimator: Any, X: Any, y: NDArray[Any], rows: Any, params: dict[str, Any]) -> Any:
    arguments = _check_method_params(X, params, rows)
    return clone(estimator).fit(_safe_indexing(X, rows), _safe_indexing(y, rows), **arguments)


def _joined(parts: list[Outputs]) -> Outputs:
    columns = zip(*parts, strict=True)
    return tuple(np.concatenate(column) if isinstance(column[0], np.ndarray) else column[0] for column in columns)


def _taken(array: Any, rows: Any) -> Any:
    return None if array is None else _safe_indexing(array, rows)
