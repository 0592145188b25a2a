"""Linear regression with a learned scale per row, so that outliers weigh little."""

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch.distributions import Categorical, Distribution, MixtureSameFamily

from likely._rows.sources import by_blocks
from likely._solvers.design import wider_by
from likely._typing import Array
from likely.linear._base import LinearRegressor, in_memory
from likely.linear._ridge import DynamicRidge
from likely.linear._robust_density import Density
from likely.linear._robust_mixture import Mixture, fit_mixture
from likely.linear._robust_rows import RobustRows
from likely.linear._robust_scales import DataScales, PredictedScales, fit_data, fit_predicted

_Fit: TypeAlias = Mixture | DataScales | PredictedScales
_LEVERAGE = 0.15  # above which a row is fitted closely whatever its scale, which tells nothing of new rows
# Rows per coefficient below which outliers cannot be told; a predicted scale has as many slopes again.
SCALES = {"mixture": 2, "predicted": 8, "predicted_xy": 2, "data": 2}


@dataclass(eq=False, repr=False)
class RobustLinearRegression(LinearRegressor):
    """Linear regression that is robust to outliers: the scale of each row is learned (MPLS-X, MPLS-XY, DPLS, mixture).

    A row of large scale has little influence on the line. What the scale depends on is set by ``scale``:

    - ``"mixture"``: each row has the small or the large scale, with a learned probability. It withstands outliers in
      the target up to nearly half of the rows, and in the inputs unless another line fits a majority about as well.
      Where the inliers' noise varies with the inputs, the small scale is predicted.
    - ``"predicted"`` (MPLS-X): log σ is linear in the inputs, for noise that varies with them and for outliers that can
      be recognised by them.
    - ``"predicted_xy"`` (MPLS-XY): log σ is linear in inputs and target. This weights rows and is no density of y given
      x, so that new rows have no scale. It does not handle outliers on both sides of the line.
    - ``"data"`` (DPLS): a scale per row under an inverse-gamma hyperprior, which is Student's t, for outliers in the
      target only.

    Around a line of fewer than two rows per coefficient, or eight where a scale is predicted, outliers cannot be told
    from other rows: a warning says so, and line and noise are those of :class:`DynamicRidge`.

    Args:
        scale: what the scale of a row depends on, as above.
        likelihood: density of a residual at its scale: ``"normal"``, ``"laplace"``, ``"student_t"`` or ``"robust"``
            (Barron's).
        shape: Student's degrees of freedom, or Barron's α from 0 to 2; None to learn it.
        df: degrees of freedom of the hyperprior of ``scale="data"``; None to learn them.
        fit_intercept: whether to fit an intercept.
        max_iter: maximum number of iterations.
        tol: iterations stop when no prediction changes by more than this share of the scale.
        random_state: seed for choosing the rows of those starts.

    Attributes:
        coef_: weights, shape (d,).
        intercept_: intercept.
        scale_: scale of a trusted row: the small one of the mixture, the common one of data scales, the median of
            predicted ones.
        weights_: weight of each training row, from 0 to 1, shape (n,): its probability of being an inlier, or its
            precision relative to that of ``scale_``, at most one.
        n_iter_: iterations made.
        outlier_scale_: large scale of the mixture.
        inlier_share_: share of inliers of the mixture.
        df_: degrees of freedom of the hyperprior of data scales.
        scale_coef_: slopes of log σ in the inputs (and the target), for predicted scales and for a mixture whose small
            scale varies with the inputs.
        scale_intercept_: intercept of log σ in those cases.

    Example:
        >>> import numpy as np
        >>> from likely.linear import RobustLinearRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 1))
        >>> y = 3 * X[:, 0] + 1 + 0.1 * rng.normal(size=200)
        >>> X[:60] += 10                                                 # a third of the inputs are far off
        >>> model = RobustLinearRegression(random_state=0).fit(X, y)
        >>> model.coef_.round(1), round(model.intercept_, 1), round(model.scale_, 1)
        (array([3.]), 1.0, 0.1)
        >>> bool(model.weights_[:60].max() < 0.01 < model.weights_[60:].mean())
        True

    See Also:
        :class:`RobustLogisticRegression`, :class:`RobustPCA`; :class:`sklearn.linear_model.HuberRegressor`, which does
        not withstand outliers in the inputs.
    """

    _least = 2

    scale: str = "mixture"
    likelihood: str = "normal"
    _: KW_ONLY
    shape: float | None = None
    df: float | None = None
    fit_intercept: bool = True
    max_iter: int = 100
    tol: float = 1e-3
    random_state: Any = None

    def _learn(self, X: Any, y: Array, weight: Array | None) -> None:
        density = self._checked()
        rows = RobustRows.of(X, y, weight, self.fit_intercept)
        count, columns = rows.weight.sum(), rows.x.shape[1]
        self._ridge: DynamicRidge | None = None
        if count < SCALES[self.scale] * columns and (count <= columns or rows.perfect_fit() is None):
            warnings.warn(
                f"{count:g} rows are too few to tell outliers from other rows around a line of {columns} coefficients: "
                "the line is that of DynamicRidge",
                stacklevel=5,
            )
            self._ridge = DynamicRidge(fit_intercept=self.fit_intercept).fit(X, y, weight)
            self.coef_, self.intercept_, self.scale_ = self._ridge.coef_, self._ridge.intercept_, self._ridge.sigma_
            self.density_, self.n_iter_, self.weights_ = density, self._ridge.n_iter_, np.ones(len(y))
            return
        fitted = self._fitted(rows, density)
        self._keep(rows, fitted)
        self.weights_ = self._trust(rows, fitted, X, y)
        self._wider = math.sqrt(count / rows.left) * wider_by(rows.left, count)

    def _fitted(self, rows: RobustRows, density: Density) -> _Fit:
        if self.scale == "mixture":
            random = check_random_state(self.random_state)
            return fit_mixture(rows, density, self.max_iter, self.tol, random)
        if self.scale == "data":
            return fit_data(rows, density, self.df, self.max_iter, self.tol)
        return fit_predicted(rows, self._features(rows.table), density, self.max_iter, self.tol)

    def _keep(self, rows: RobustRows, fitted: _Fit) -> None:
        """Store the learned attributes, in the units of the table."""
        unit = rows.spread[-1]
        for name in ("scale_coef_", "scale_intercept_"):
            self.__dict__.pop(name, None)
        if isinstance(fitted, Mixture):
            self.outlier_scale_, self.inlier_share_ = float(fitted.outer[0] * unit), float(fitted.share[0])
            if fitted.tilt is not None:
                self._learned_line(fitted.tilt, rows, fitted.scale)
        elif isinstance(fitted, DataScales):
            self.df_ = fitted.df
        else:
            self._learned_line(fitted, rows, fitted.scale)
        self.coef_, self.intercept_ = rows.restored(fitted.beta)
        self.scale_, self.density_, self.n_iter_ = float(fitted.scale * unit), fitted.density, fitted.n_iter

    def _trust(self, rows: RobustRows, fitted: _Fit, X: Array, y: Array) -> Array:
        """Return the trust in each row, rows of weight zero included."""
        residuals = (y - X @ self.coef_ - self.intercept_) / rows.spread[-1]
        return fitted.trust(residuals, self._features(rows.prepared(X, y)))

    def _deviation(self, X: Any) -> Array:
        """Return the standard deviation of a trusted row around the line."""
        if self._ridge is not None:
            return self._ridge.predict(X, return_std=True)[1]
        return self._scales(X) * self._wider * self.density_.deviation

    def predict_dist(self, X: Any) -> Distribution:
        """Return the predictive distribution of each row under the fitted scales.

        Args:
            X: table of shape (n, d), in memory.

        Returns:
            A torch distribution of batch shape (n,) in float64. It is the likelihood at each row's scale; for the
            mixture that of both scales, outliers included (:class:`torch.distributions.MixtureSameFamily`); for data
            scales under the normal likelihood, Student's t with ``df_`` degrees of freedom. Under another likelihood
            data scales have no closed form, and this is the distribution of a trusted row.

        Raises:
            ValueError: ``scale="predicted_xy"``, whose scales depend on the target.

        Example:
            >>> import numpy as np
            >>> from likely.linear import RobustLinearRegression
            >>> rng = np.random.default_rng(0)
            >>> X = rng.normal(size=(100, 1))
            >>> model = RobustLinearRegression("data").fit(X, 3 * X[:, 0] + rng.standard_t(2, size=100))
            >>> type(model.predict_dist(X)).__name__
            'StudentT'
        """
        mean = torch.from_numpy(in_memory(self.predict(X)))
        if self._ridge is not None:
            return self._ridge.predict_dist(X)
        scale = torch.from_numpy(in_memory(self._scales_of(X)))
        if self.scale == "data" and self.density_.likelihood == "normal":
            return Density.of("student_t", self.df_).distribution(mean, scale)
        if self.scale != "mixture":
            return self.density_.distribution(mean, scale)
        share = scale.new_tensor([self.inlier_share_, 1 - self.inlier_share_])
        both = scale[:, None] * scale.new_tensor([1.0, self.outlier_scale_ / self.scale_])
        parts = self.density_.distribution(mean[:, None].expand_as(both), both)
        return MixtureSameFamily(Categorical(share.expand(len(mean), 2)), parts)

    @by_blocks()
    def _scales_of(self, X: Any) -> Any:
        return self._scales(self._checked_rows(X)) * self._wider

    @by_blocks(per_row="y")
    def outlier_score(self, X: Any, y: Any) -> Any:
        """Return the negative log-likelihood of each row at the scale of a trusted row; outliers have high values.

        Where the small scale of the mixture varies with the inputs, it is that of a trusted row with the same inputs.

        Args:
            X: table of shape (n, d), in memory or in blocks.
            y: targets, shape (n,).

        Returns:
            Array of shape (n,).
        """
        check_is_fitted(self)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=False)
        scale = self._scales(X) if self.scale == "mixture" and self._ridge is None else self.scale_
        return self.density_.nll(y - X @ self.coef_ - self.intercept_, scale)

    def _scales(self, X: Array) -> Array:
        """Return the scale of each row, given its inputs."""
        if self.scale == "predicted_xy":
            raise ValueError(
                "scale='predicted_xy' depends on the target, so new rows have no scale: use 'predicted' or 'mixture'"
            )
        if not hasattr(self, "scale_coef_"):
            return np.full(len(X), self.scale_)
        return np.exp(np.clip(X @ self.scale_coef_ + self.scale_intercept_, *self._log_scales))

    def _checked(self) -> Density:
        if self.scale not in SCALES:
            raise ValueError(f"scale must be one of {', '.join(SCALES)}; got {self.scale!r}")
        if self.df is not None and not self.df > 0:
            raise ValueError(f"df must be positive, got {self.df}")
        return Density.of(self.likelihood, self.shape)

    def _features(self, table: Array) -> Array:
        """Return the columns that predicted scales are linear in, of a table whose last column is the target."""
        return table if self.scale == "predicted_xy" else table[:, :-1]

    def _learned_line(self, fitted: PredictedScales, rows: RobustRows, scale: float) -> None:
        """Store log σ as a line in the units of the table, where ``scale`` is the median scale."""
        spread, middle = (self._features(part[None])[0] for part in (rows.spread, rows.middle))
        self.scale_coef_ = fitted.slopes / spread
        unit = math.log(scale / fitted.scale) + math.log(rows.spread[-1])
        self.scale_intercept_ = float(unit + fitted.offset - middle @ self.scale_coef_)
        # An exponential is not extrapolated: at extreme inputs it would be certain of what no row has shown.
        seen = fitted.log_scale(self._features(rows.table)) + unit
        self._log_scales = seen[rows.leverage < _LEVERAGE].min(initial=seen.max()), seen.max()
