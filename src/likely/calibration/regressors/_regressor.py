"""Any scikit-learn regressor with calibrated distributions."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, assert_all_finite, get_tags, indexable
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter
from torch.distributions import Distribution

from likely._validation import all_or_nothing, check_sample_weight
from likely.calibration._content_folds import deals_itself, split_by_content
from likely.calibration.regressors._compose import SCALE_METHODS


class CalibratedRegressor(RegressorMixin, MetaEstimatorMixin, BaseEstimator):
    """A regressor that says how sure it is, calibrated on rows it was not trained on.

    An unfitted estimator is cross-fitted: its out-of-fold predictions train the calibrator, then it is fitted on all
    rows. A fitted one, wrapped in scikit-learn's ``FrozenEstimator`` or declared by ``cv="prefit"``, stays as it is,
    and all rows given to ``fit`` train the calibrator: they should be rows it has not seen. Estimators whose
    ``predict`` takes ``return_std`` bring their own scale; for all others the residuals give one. ``predict`` is the
    estimator's own, unchanged.

    Args:
        estimator: the regressor.
        method: ``"linear"``, ``"global"``, ``"deep"``, ``"isotonic"``, ``"auto"``, or a scale calibrator.
        cv: folds of the cross-fitting, as in scikit-learn, or ``"prefit"``. A number deals the rows by what they hold,
            so that neither their order matters nor whether a row is there twice or has a weight of two.
        features: what a scale that differs by row is read off: ``"input"``, that is X; a function of X; or None, for
            the estimator's mean and scale.

    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from likely.calibration import CalibratedRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 4, size=(2000, 1))
    >>> y = X[:, 0] + (0.5 + X[:, 0]) * rng.normal(size=2000)
    >>> model = CalibratedRegressor(Ridge()).fit(X, y)
    >>> model.predict([[0.0], [4.0]], return_std=True)[1].round()
    array([1., 5.])
    >>> lower, upper = model.predict_interval(X, coverage=0.8)
    >>> round(float(((lower < y) & (y < upper)).mean()), 1)
    0.8
    """

    def __init__(
        self,
        estimator: Any,
        method: Any = "linear",
        *,
        cv: Any = 5,
        features: str | Callable[[Any], Any] | None = "input",
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.features = features

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the calibrator and, unless it is fitted already, the estimator; both see ``sample_weight``."""
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        X, y = indexable(X, y)
        y = y.astype(np.float64)
        weight = check_sample_weight(sample_weight, X)
        if weight is not None and not weight.all() and deals_itself(self.cv):  # a row of no weight is no row
            counted = np.flatnonzero(weight)
            X, y, weight = _safe_indexing(X, counted), y[counted], weight[counted]
        calibrator = _make_calibrator(self.method)
        if self.cv == "prefit" or isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            mean, scale = mean_and_scale(self.estimator, X)
            rows = np.arange(len(y))
        else:
            mean, scale, rows = self._cross_fit(X, y, weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self.calibrator_ = calibrator.fit(
            mean,
            scale,
            y[rows],
            self._features(_safe_indexing(X, rows), fit=True),
            None if weight is None else weight[rows],
        )
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The estimator's prediction; with ``return_std`` also the standard deviation of each row's distribution."""
        check_is_fitted(self)
        if not return_std:
            return self.estimator_.predict(X)
        mean, scale = mean_and_scale(self.estimator_, X)
        return mean, self.calibrator_.distribution(mean, scale, self._features(X)).stddev.numpy()

    def predict_dist(self, X: Any) -> Distribution:
        """Each row's distribution, as torch's: log_prob, cdf, icdf, sample."""
        check_is_fitted(self)
        mean, scale = mean_and_scale(self.estimator_, X)
        answer: Distribution = self.calibrator_.distribution(mean, scale, self._features(X))
        return answer

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The lower and upper ends of the central interval that holds ``coverage`` of each row's distribution."""
        check_is_fitted(self)
        mean, scale = mean_and_scale(self.estimator_, X)
        lower, upper = self.calibrator_.predict_interval(mean, scale, self._features(X), coverage)
        return lower, upper

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _cross_fit(
        self, X: Any, y: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.intp]]:
        weighted = weight is not None and has_fit_parameter(self.estimator, "sample_weight")
        if weight is not None and not weighted:
            kind = type(self.estimator).__name__
            warnings.warn(f"{kind} takes no sample_weight: it goes to the calibrator only", stacklevel=3)

        def fitted(rows: NDArray[np.intp]) -> Any:
            extra = {"sample_weight": weight[rows]} if weighted and weight is not None else {}
            return clone(self.estimator).fit(_safe_indexing(X, rows), y[rows], **extra)

        parts, order = [], []
        cv = check_cv(self.cv)
        splits = list(cv.split(X, y))
        for kept, out in split_by_content(X, cv.get_n_splits()) if deals_itself(self.cv) else splits:
            parts.append(mean_and_scale(fitted(kept), _safe_indexing(X, out)))
            order.append(out)
        self.estimator_ = fitted(np.arange(len(y)))
        mean = np.concatenate([mean for mean, _ in parts])
        scales = [scale for _, scale in parts if scale is not None]
        return mean, np.concatenate(scales) if scales else None, np.concatenate(order)

    def _features(self, X: Any, fit: bool = False) -> Any:
        if self.features is None:
            return None
        if callable(self.features):
            return self.features(X)
        if self.features != "input":
            raise ValueError(f"features must be 'input', None or a function of X, got {self.features!r}")
        inputs = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        if fit:
            known = ~np.isnan(inputs)
            self.fill_ = np.where(known, inputs, 0).sum(0) / known.sum(0).clip(min=1)
        # A missing input says nothing of the scale, and the mean is the value that says nothing.
        return np.where(np.isnan(inputs), self.fill_, inputs)


def mean_and_scale(estimator: Any, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """The estimator's predictions, and their scales where its ``predict`` can return them."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if "return_std" not in inspect.signature(last.predict).parameters:
        return np.asarray(estimator.predict(X), dtype=np.float64), None
    mean, scale = (np.asarray(part, dtype=np.float64) for part in estimator.predict(X, return_std=True))
    # A Gaussian process says zero at a row it was trained on; no calibrator can stretch that.
    return mean, np.maximum(scale, max(1e-6 * scale.max(initial=0.0), np.finfo(np.float32).tiny))


def _make_calibrator(method: Any) -> Any:
    if isinstance(method, str):
        if method not in SCALE_METHODS:
            raise ValueError(f"method must be a scale calibrator or one of {', '.join(SCALE_METHODS)}; got {method!r}")
        return SCALE_METHODS[method]()
    if not hasattr(method, "predict_interval"):
        raise TypeError(f"method must be a scale calibrator or its name, got {type(method).__name__}")
    return clone(method)
