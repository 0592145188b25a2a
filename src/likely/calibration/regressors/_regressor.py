"""Any scikit-learn regressor with calibrated distributions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from torch.distributions import Distribution

from likely._rows.sources import refuse_blocks
from likely._typing import Array
from likely.calibration._choice import make_scale_calibrator
from likely.calibration._estimator import CalibratedEstimator, Outputs, Weight, by_blocks_or_texts
from likely.calibration.regressors._scale import ScaleCalibrator


@dataclass(eq=False, repr=False)
class CalibratedRegressor(RegressorMixin, CalibratedEstimator):
    """A scikit-learn regressor with calibrated predictive distributions, fitted on rows it was not trained on.

    An unfitted estimator is cross-fitted: its out-of-fold predictions train the calibrator, then it is fitted on all
    rows. A fitted one, wrapped in scikit-learn's ``FrozenEstimator`` or declared by ``cv="prefit"``, is not changed,
    and all rows given to ``fit`` train the calibrator: they should be new to it. The scale comes from the estimator
    where its ``predict`` takes ``return_std``, otherwise from the residuals. ``predict`` is that of the estimator,
    unchanged.

    Args:
        estimator: the regressor.
        method: ``"linear"``, ``"global"``, ``"deep"``, ``"isotonic"``, ``"auto"``, or a :class:`ScaleCalibrator`.
        cv: folds of the cross-fitting, as in scikit-learn, or ``"prefit"``. A number deals the rows into folds by their
            contents: the order of rows does not matter, and a row of weight two counts as the row twice.
        features: what a scale per row depends on: ``"input"`` for X, a function of X, or None for the estimator's mean
            and scale.
        n_jobs: number of folds that are fitted in parallel; None for one.

    Attributes:
        estimator_: the regressor, fitted on all rows.
        calibrator_: the fitted calibrator.
        fill_: mean of each column, in place of missing values in the features, shape (d,).

    Example:
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

    See Also:
        :class:`CalibratedClassifier`; :class:`likely.integrations.mapie.ScaledScore`, for intervals of guaranteed
        coverage.
    """

    estimator: Any
    method: str | ScaleCalibrator = "linear"
    _: KW_ONLY
    cv: Any = 5
    features: str | Callable[[Any], Any] | None = "input"
    n_jobs: int | None = None

    @by_blocks_or_texts(arrays=lambda return_std: 1 + return_std)
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the estimator's prediction, on request with the calibrated standard deviation.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes, or in blocks: the path of files, or a Dask
                table.
            return_std: whether to return the standard deviation of each row's distribution too.

        Returns:
            Array of shape (n,), or with ``return_std`` a pair of such arrays.
        """
        check_is_fitted(self)
        if not return_std:
            return self.estimator_.predict(X)
        mean, scale, features = self._forecast(X)
        return mean, self.calibrator_.distribution(mean, scale, features).stddev.numpy()

    def predict_dist(self, X: Any) -> Distribution:
        """Return the calibrated distribution of each row.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes.

        Returns:
            A torch distribution of batch shape (n,), with ``log_prob``, ``cdf``, ``icdf`` and ``sample``.
        """
        if not isinstance(X, list | tuple):
            refuse_blocks(X, "predict_dist", "predict or predict_interval")
        return self.calibrator_.distribution(*self._forecast(X))

    @by_blocks_or_texts(arrays=lambda **_: 2)
    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return the central interval of each row's calibrated distribution.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes, or in blocks: the path of files, or a Dask
                table.
            coverage: probability of the interval, in (0, 1).

        Returns:
            Lower and upper ends, arrays of shape (n,).
        """
        lower, upper = self.calibrator_.predict_interval(*self._forecast(X), coverage)
        return lower, upper

    def _forecast(self, X: Any) -> tuple[Array, Array | None, Any]:
        check_is_fitted(self)
        return *mean_and_scale(self.estimator_, X), self._features(X)

    def _outputs(self, estimator: Any, X: Any) -> Outputs:
        return mean_and_scale(estimator, X)

    def _fit_calibrator(
        self, outputs: Outputs, targets: NDArray[Any], features: Any, weight: Weight
    ) -> ScaleCalibrator:
        mean, scale = outputs
        return make_scale_calibrator(self.method).fit(mean, scale, targets, features, weight)

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
        # A missing input has no effect on the scale: it is replaced by the mean.
        return np.where(np.isnan(inputs), self.fill_, inputs)


def mean_and_scale(estimator: Any, X: Any) -> tuple[Array, Array | None]:
    """Return the estimator's predictions, and their scales where its ``predict`` can return them."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if "return_std" not in inspect.signature(last.predict).parameters:
        return np.asarray(estimator.predict(X), dtype=np.float64), None
    mean, scale = (np.asarray(part, dtype=np.float64) for part in estimator.predict(X, return_std=True))
    # A Gaussian process returns zero at a row it was trained on, which no factor can change.
    return mean, np.maximum(scale, max(1e-6 * scale.max(initial=0.0), np.finfo(np.float32).tiny))
