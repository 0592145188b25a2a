"""What calibrators of regressors share: likelihoods, checks and distributions; and one factor for all scales."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.distributions import Distribution

from likely._rows.blocks import Rows, column, like
from likely._rows.checks import all_or_nothing
from likely._rows.sources import source_of
from likely._typing import Array
from likely.calibration._by_rows import by_rows, remember_columns
from likely.calibration._row_factor import LINK
from likely.calibration.regressors._rows import Forecasts
from likely.likelihoods import LIKELIHOODS, Likelihood


@dataclass(frozen=True)
class Family:
    """A likelihood -log p = log σ + |r/σ|ᵖ / p + constant, whose common scale has a closed form.

    At the best common scale the mean of |z|ᵖ = z ρ'(z) is one, and Fisher's information of log σ is p.
    """

    likelihood: Likelihood
    power: int

    def distribution(self, mean: Tensor, scale: Tensor) -> Distribution:
        """The forecast."""
        return self.likelihood.loss(validate_args=False)._distribution(mean, {"scale": scale})

    def relative(self, z: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The NLL of residuals in units of the base scale at f(u) times that scale, its slope in u and curvature."""
        factor = LINK(u)
        slope = LINK.slope(u) / factor  # of log f
        nll = self.likelihood.nll(torch.zeros_like(z), z, scale=factor, reduction="none", validate_args=False)
        pull = (z / factor).abs() ** self.power
        return nll, slope * (1 - pull), self.power * slope.square()


FAMILIES = {name: Family(LIKELIHOODS[name], power) for name, power in (("normal", 2), ("laplace", 1))}


@dataclass(kw_only=True, eq=False, repr=False)
class ScaleCalibrator(BaseEstimator):
    """Turns a regressor's means and scales into distributions that fit. Subclasses write ``_fit`` and ``_factor``.

    ``mean``, ``scale`` and ``y`` hold one number per row, in NumPy or torch; answers come back in kind, distributions
    as torch's. ``scale=None`` is for a regressor that gives none: every row then starts from the same one.
    ``likelihood`` is ``"normal"`` or ``"laplace"``, and ``scale`` its parameter: σ, or b.

    Dask's arrays, and tables of columns in files or in Dask's frames, are read by blocks, and answers are of the same
    kind. Of a table all columns but the mean are named: ``fit("held_out/", "scale", "y", features=["x1", "x2"])``.

    >>> import numpy as np
    >>> from likely.calibration import GlobalScale
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=4000)
    >>> y = mean + 0.5 * rng.normal(size=4000)
    >>> gs = GlobalScale().fit(mean, None, y)
    >>> gs.predict_scale(mean[:2], None).round(2)
    array([0.5, 0.5])
    >>> lower, upper = gs.predict_interval(mean, None, coverage=0.9)
    >>> round(float(((lower < y) & (y < upper)).mean()), 2)
    0.9
    """

    n_features_ = 0  # a model that was loaded and reads no features does not know
    _reads_features = False  # whether the scale of a row depends on its features

    likelihood: str = "normal"

    @all_or_nothing
    def fit(self, mean: Any, scale: Any, y: Any, features: Any = None, sample_weight: Any = None) -> Self:
        """Learn from held-out rows: their predicted means and scales, their targets and, for some, features."""
        if y is None:
            raise ValueError("y must hold one number per row: a scale is learned from targets")
        rows = Forecasts.checked(mean, scale, features, y, sample_weight)
        remember_columns(self, rows)
        return self._fit_rows(rows)

    def distribution(self, mean: Any, scale: Any, features: Any = None) -> Distribution:
        """Return the calibrated distribution of every row: log_prob, cdf, icdf, sample."""
        check_is_fitted(self)
        if source_of(mean) is not None:
            raise TypeError(
                "distributions are of rows in memory: ask predict_scale or predict_interval, which take blocks"
            )
        return self._distribution(Forecasts.checked(mean, scale, features))

    @by_rows("scale", "features")
    def predict_scale(self, mean: Any, scale: Any, features: Any = None) -> Any:
        """Return the calibrated scale of every row; the standard deviation after an isotonic map."""
        check_is_fitted(self)
        return like(self._scales(Forecasts.checked(mean, scale, features)), mean)

    def predict_interval(self, mean: Any, scale: Any, features: Any = None, coverage: float = 0.9) -> tuple[Any, Any]:
        """The lower and upper ends of the central interval that holds ``coverage`` of each row's distribution."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1, got {coverage}")
        tail = (1 - coverage) / 2
        if source_of(mean) is not None:
            lower, upper = (self._quantile(mean, scale, features, level=level) for level in (tail, 1 - tail))
            return lower, upper
        distribution = self.distribution(mean, scale, features)
        level = torch.tensor(tail, dtype=torch.float64).to(distribution.mean)
        return like(distribution.icdf(level), mean), like(distribution.icdf(1 - level), mean)

    @by_rows("scale", "features")
    def _quantile(self, mean: Any, scale: Any, features: Any, *, level: float) -> Any:
        distribution = self.distribution(mean, scale, features)
        return like(distribution.icdf(torch.tensor(level, dtype=torch.float64).to(distribution.mean)), mean)

    @property
    def _family(self) -> Family:
        if self.likelihood not in FAMILIES:
            raise ValueError(f"likelihood must be one of {', '.join(map(repr, FAMILIES))}, got {self.likelihood!r}")
        return FAMILIES[self.likelihood]

    def _fit_rows(self, rows: Forecasts) -> Self:
        """Fit to rows that have been checked already, as the steps of a pipeline are."""
        z, weight = rows.residuals, rows.weight
        self.has_scale_, self.n_features_ = rows.answers is not None, rows.width
        self.global_scale_ = factor = common_scale(z, weight, self._family.power)
        self._fit(z.mapped(lambda _, own: own / factor) if rows.elsewhere else z / factor, rows)
        return self

    def _distribution(self, rows: Forecasts) -> Distribution:
        return self._family.distribution(rows.mean, self._scales(rows))

    def _scales(self, rows: Forecasts) -> Tensor:
        if (rows.answers is not None) != self.has_scale_:
            raise ValueError(f"fitted with{'' if self.has_scale_ else 'out'} scales, so give scale here likewise")
        width, fitted = rows.width, self.n_features_
        if width != fitted and (self._reads_features or (width and fitted)):
            raise ValueError(f"features have {width or 'no'} columns, the fit had {fitted or 'no'} columns")
        return rows.scale * self.global_scale_ * self._factor(rows)

    def _fit(self, z: Tensor, rows: Forecasts) -> None:
        """Learn from the residuals in units of the globally scaled forecasts."""

    def _factor(self, rows: Forecasts) -> Tensor | float:
        """What each row's globally calibrated scale is multiplied by."""
        return 1.0


class GlobalScale(ScaleCalibrator):
    r"""Global Scaling (GS): every scale times one factor, the one of highest likelihood, in closed form.

    For the normal it is the root mean square of :math:`r_i / \sigma_i`, for the Laplace their mean size.

    >>> import numpy as np
    >>> from likely.calibration import GlobalScale
    >>> rng = np.random.default_rng(0)
    >>> mean, scale = np.zeros(4000), np.exp(rng.normal(size=4000))
    >>> y = 3 * scale * rng.normal(size=4000)                    # three times as far off as the regressor says
    >>> round(GlobalScale().fit(mean, scale, y).global_scale_, 1)
    3.0
    """


def common_scale(z: Any, weight: Array, power: int) -> float:
    """Return the factor of highest likelihood for all scales, in closed form, of residuals anywhere."""
    weights = column(weight)

    def sums(rows: Any) -> Tensor:
        sizes = z[rows].double().abs()
        return weights[rows].to(sizes) @ sizes.pow(power)

    rows = z if isinstance(z, Rows) else Rows(z)
    factor = float((rows.total(sums) / float(weight.sum())) ** (1 / power))
    # Residuals of zero throughout would ask for a scale of zero.
    return max(factor, math.sqrt(torch.finfo(torch.float32).tiny))
