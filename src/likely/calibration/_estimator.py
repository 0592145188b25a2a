"""Meta-estimators with a calibrator: cross-fitting, weights and metadata routing, for classifiers and regressors."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, _safe_indexing, assert_all_finite, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, check_is_fitted, column_or_1d, has_fit_parameter

from likely._rows.checks import all_or_nothing, check_sample_weight
from likely._rows.folds import Split, deals_itself, split_by_content
from likely._rows.sources import by_blocks, is_source
from likely._typing import Array

Outputs = tuple[Any, ...]  # an estimator's outputs for some rows: arrays, and values that hold for all of them
Weight = Array | None


def refuse_to_fit(X: Any) -> None:
    """Raise an error for a table that is not in memory."""
    if is_source(X) and not isinstance(X, list | tuple):  # these are rows, of a classifier of texts
        raise TypeError(
            "rows are fitted in memory here: for a table in blocks, give a calibrator such as GlobalTemperature or "
            "GlobalScale the outputs of a fitted estimator"
        )


by_blocks_or_texts = functools.partial(by_blocks, texts=True)


@dataclass
class Member:
    """A fitted estimator with the calibrator of its outputs."""

    estimator: Any
    calibrator: Any


class CalibratedEstimator(MetaEstimatorMixin, BaseEstimator):
    """An estimator with a calibrator, fitted on rows that the estimator was not trained on.

    Subclasses write ``_outputs`` and ``_member``.
    """

    estimator: Any
    method: Any
    cv: Any
    features: Any
    n_jobs: int | None
    ensemble: bool = False
    members_: list[Any]  # of Member

    @all_or_nothing  # type: ignore[arg-type]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the calibrator and, unless it is fitted already, the estimator.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes.
            y: targets or labels of shape (n,).
            sample_weight: weights of shape (n,), for the calibrator and, if its ``fit`` takes weights, the estimator;
                None for equal weights.
            **fit_params: further arguments of the estimator's ``fit``, or metadata to be routed.

        Returns:
            The fitted estimator itself.

        Raises:
            ValueError: targets are not valid for the estimator, or a fold lacks a class.
            TypeError: X is not in memory.
        """
        refuse_to_fit(X)
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
            targets = self._targets(y, self.estimator)
            outputs, features = self._outputs(self.estimator, X), self._features(X, fit=True)
            self.members_ = [self._member(self.estimator, outputs, targets, features, weight)]
        else:
            self._cross_fit(X, y, weight, fit_params)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first := self.members_[0].estimator, name):
                setattr(self, name, getattr(first, name))
        return self

    @property
    def estimator_(self) -> Any:
        """The fitted estimator, unless there is an ensemble of several."""
        return self._only().estimator

    @property
    def calibrator_(self) -> Any:
        """The fitted calibrator, unless there is an ensemble of several."""
        return self._only().calibrator

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which metadata passed to ``fit`` go to the estimator and to the splitter.

        Returns:
            A :class:`sklearn.utils.metadata_routing.MetadataRouter`.
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        if self.cv != "prefit":
            mapping = MethodMapping().add(caller="fit", callee="split")
            router.add(splitter=check_cv(self.cv, classifier=is_classifier(self)), method_mapping=mapping)
        return router

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

    def _member(self, estimator: Any, outputs: Outputs, targets: NDArray[Any], features: Any, weight: Weight) -> Member:
        """Return a fitted estimator with a calibrator fitted to its outputs for rows that were new to it."""
        raise TypeError("use CalibratedClassifier or CalibratedRegressor")

    def _check_folds(self, targets: NDArray[Any], weight: Weight, folds: list[Split]) -> None:
        """Raise an error for folds whose training rows lack what the estimator needs."""

    def _features(self, X: Any, fit: bool = False) -> Any:
        features: Callable[[Any], Any] | None = self.features
        return None if features is None else features(X)

    def _cross_fit(self, X: Any, y: NDArray[Any], weight: Weight, fit_params: dict[str, Any]) -> None:
        targets = self._targets(y)
        routed = self._routed(weight, fit_params)
        cv = check_cv(self.cv, y, classifier=is_classifier(self))
        folds = list(cv.split(X, y, **routed.splitter.split))
        if deals_itself(self.cv):  # scikit-learn has checked for classes of too few rows
            folds = split_by_content(X, cv.get_n_splits(), targets if is_classifier(self) else None)
        self._check_folds(targets, weight, folds)
        params, features = routed.estimator.fit, self._features(X, fit=True)
        fitted = Parallel(n_jobs=self.n_jobs)(delayed(_fit)(self.estimator, X, y, train, params) for train, _ in folds)
        held_out = [rows for _, rows in folds]
        outputs = [self._outputs(estimator, _taken(X, rows)) for estimator, rows in zip(fitted, held_out, strict=True)]
        if not self.ensemble:
            held_out, outputs = [np.concatenate(held_out)], [_joined(outputs)]
            fitted = [clone(self.estimator).fit(X, y, **_check_method_params(X, params))]
        self.members_ = [
            self._member(estimator, output, targets[rows], _taken(features, rows), _taken(weight, rows))
            for estimator, output, rows in zip(fitted, outputs, held_out, strict=True)
        ]

    def _routed(self, weight: Weight, fit_params: dict[str, Any]) -> Bunch:
        """Return the arguments of the estimator's fit and of the splitter."""
        arguments = fit_params if weight is None else {**fit_params, "sample_weight": weight}
        if _routing_enabled():
            return process_routing(self, "fit", **arguments)
        if weight is not None and not has_fit_parameter(self.estimator, "sample_weight"):
            kind = type(self.estimator).__name__
            warnings.warn(f"{kind} takes no sample_weight: weights are used by the calibrator only", stacklevel=5)
            arguments = fit_params
        return Bunch(estimator=Bunch(fit=arguments), splitter=Bunch(split={}))

    def _only(self) -> Any:
        check_is_fitted(self, "members_")
        if len(self.members_) > 1:
            raise AttributeError("an ensemble has several estimators and calibrators: see members_")
        return self.members_[0]


def _fit(estimator: Any, X: Any, y: NDArray[Any], rows: Any, params: dict[str, Any]) -> Any:
    arguments = _check_method_params(X, params, rows)
    return clone(estimator).fit(_safe_indexing(X, rows), _safe_indexing(y, rows), **arguments)


def _joined(parts: list[Outputs]) -> Outputs:
    columns = zip(*parts, strict=True)
    return tuple(np.concatenate(column) if isinstance(column[0], np.ndarray) else column[0] for column in columns)


def _taken(array: Any, rows: Any) -> Any:
    return None if array is None else _safe_indexing(array, rows)
