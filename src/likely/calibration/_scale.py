"""Scales for regressors: one factor for all rows, or one a row that is linear in its features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.distributions import Distribution, Laplace, Normal

from likely import functional
from likely._rows.blocks import Rows
from likely._solvers.evidence import Solution, fit_linear
from likely._solvers.ridge import RATE
from likely._validation import all_or_nothing
from likely.calibration._base import check_features, check_weight, like
from likely.calibration._held_out import contents, deal_by_content, sure, take
from likely.constraints import ShiftedSoftplus

LINK = ShiftedSoftplus(0.2)
_FOLDS = 5


@dataclass(frozen=True)
class Family:
    """A location-scale likelihood: -log p = log σ + ρ(r/σ) + constant."""

    distribution: type[Normal] | type[Laplace]
    nll: Callable[..., Tensor]
    pull: Callable[[Tensor], Tensor]  # z ρ'(z), whose mean is one at the best common scale
    power: int  # pull(z) is |z| to this power
    information: float  # Fisher's, in log σ

    def relative(self, z: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The NLL of residuals in units of the base scale at f(u) times that scale, its slope in u and curvature."""
        factor = LINK(u)
        slope = LINK.slope(u) / factor  # of log f
        nll = self.nll(torch.zeros_like(z), z, scale=factor, reduction="none", validate_args=False)
        return nll, slope * (1 - self.pull(z / factor)), self.information * slope.square()


FAMILIES = {
    "normal": Family(Normal, functional.normal_nll, torch.square, 2, 2.0),
    "laplace": Family(Laplace, functional.laplace_nll, torch.abs, 1, 1.0),
}


@dataclass
class Forecast:
    """What a regressor says of some rows."""

    mean: Tensor
    scale: Tensor
    features: Rows | None
    has_scale: bool

    def __len__(self) -> int:
        return len(self.mean)

    def taken(self, index: NDArray[np.intp]) -> Forecast:
        """Some of the rows."""
        rows = torch.as_tensor(index, device=self.mean.device)
        features = None if self.features is None else self.features.taken(index)
        return Forecast(self.mean[rows], self.scale[rows], features, self.has_scale)


class ScaleCalibrator(BaseEstimator):
    """Turns a regressor's means and scales into distributions that fit. Subclasses write ``_fit`` and ``_factor``.

    ``mean``, ``scale`` and ``y`` hold one number a row, in NumPy or torch; answers come back in kind, distributions
    as torch's. ``scale=None`` is for a regressor that gives none: every row then starts from the same one.
    ``likelihood`` is ``"normal"`` or ``"laplace"``, and ``scale`` its parameter: σ, or b.

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

    n_features_: int = 0  # a model that was loaded and reads no features does not know

    def __init__(self, *, likelihood: str = "normal") -> None:
        self.likelihood = likelihood

    @all_or_nothing
    def fit(self, mean: Any, scale: Any, y: Any, features: Any = None, sample_weight: Any = None) -> Self:
        """Learn from held-out rows: their predicted means and scales, their targets and, for some, features."""
        forecast = self._forecast(mean, scale, features)
        target = _column("y", y, like=forecast.mean)
        weight = check_weight(sample_weight, len(forecast))
        if weight is not None and not weight.all():  # a row of no weight is no row
            counted = np.flatnonzero(weight)
            forecast, target, weight = forecast.taken(counted), target[torch.as_tensor(counted)], weight[counted]
        z = (target - forecast.mean) / forecast.scale
        self.has_scale_ = forecast.has_scale
        self.n_features_ = _width(forecast)
        self.global_scale_ = _common_scale(z, weight, self._family.power)
        self._fit(z / self.global_scale_, forecast, weight)
        return self

    def distribution(self, mean: Any, scale: Any, features: Any = None) -> Distribution:
        """The calibrated distribution of every row: log_prob, cdf, icdf, sample."""
        forecast = self._checked(mean, scale, features)
        return self._family.distribution(forecast.mean, self._scale(forecast))

    def predict_scale(self, mean: Any, scale: Any, features: Any = None) -> Any:
        """The calibrated scale of every row."""
        return like(self._scale(self._checked(mean, scale, features)), mean)

    def predict_interval(self, mean: Any, scale: Any, features: Any = None, coverage: float = 0.9) -> tuple[Any, Any]:
        """The lower and upper ends of the central interval that holds ``coverage`` of each row's distribution."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1, got {coverage}")
        distribution = self.distribution(mean, scale, features)
        tail = torch.tensor((1 - coverage) / 2, dtype=torch.float64).to(distribution.mean)
        return like(distribution.icdf(tail), mean), like(distribution.icdf(1 - tail), mean)

    @property
    def _family(self) -> Family:
        if self.likelihood not in FAMILIES:
            raise ValueError(f"likelihood must be one of {', '.join(map(repr, FAMILIES))}, got {self.likelihood!r}")
        return FAMILIES[self.likelihood]

    def _forecast(self, mean: Any, scale: Any, features: Any) -> Forecast:
        centre = _column("mean", mean)
        spread = torch.ones_like(centre) if scale is None else _column("scale", scale, like=centre)
        if not bool((spread > 0).all()):
            raise ValueError("scale must be positive in every row")
        return Forecast(centre, spread, check_features(features, len(centre)), scale is not None)

    def _checked(self, mean: Any, scale: Any, features: Any) -> Forecast:
        check_is_fitted(self)
        forecast = self._forecast(mean, scale, features)
        if forecast.has_scale != self.has_scale_:
            raise ValueError(f"fitted with{'' if self.has_scale_ else 'out'} scales, so give scale here likewise")
        if forecast.features is not None and self.n_features_ and _width(forecast) != self.n_features_:
            raise ValueError(f"features have {_width(forecast)} columns, the fit had {self.n_features_} columns")
        return forecast

    def _scale(self, forecast: Forecast) -> Tensor:
        return forecast.scale * self.global_scale_ * self._factor(forecast)

    def _source(self, forecast: Forecast) -> Rows:
        """The columns a scale is read off, the same as in the fit."""
        if _width(forecast) != self.n_features_:
            found, fitted = (f"{width or 'no'} columns" for width in (_width(forecast), self.n_features_))
            raise ValueError(f"features have {found}, the fit had {fitted}")
        return default_features(forecast)

    def _fit(self, z: Tensor, forecast: Forecast, weight: NDArray[np.float64] | None) -> None:
        """Learn from the residuals in units of the globally scaled forecast."""

    def _factor(self, forecast: Forecast) -> Tensor | float:
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


class LinearScale(ScaleCalibrator):
    r"""Linear Scaling (LS): a scale a row, linear in its features, that falls back to Global Scaling.

    :math:`\sigma_i' = c\,\sigma_i\,f(b + w \cdot \tilde x_i)` with the fitted global factor c, standardised features
    and the shifted softplus f at .2. Without features it reads the row's mean and log scale. The ridge on w is learned
    by evidence. Evidence trusts the likelihood, and residuals may have tails it does not
    know; so b and w are multiplied by the share, from 0 to 1, of greatest gain on rows held out in five folds, less
    ``margin`` standard errors of it. Where no gain is sure, this *is* Global Scaling. New rows have their features, and
    their scales, taken within the ranges met in the fit. ``penalty=None`` is the unregularised method, whose NLL blows
    up on small sets.

    >>> import numpy as np
    >>> from likely.calibration import LinearScale
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 3))
    >>> noise = np.log1p(np.exp(2 * x[:, 0]))                    # from .1 to 4
    >>> mean, y = np.zeros(4000), noise * rng.normal(size=4000)
    >>> ls = LinearScale().fit(mean, None, y, features=x)
    >>> round(float(np.corrcoef(ls.predict_scale(mean, None, features=x), noise)[0, 1]), 2)
    0.97
    """

    def __init__(
        self, *, penalty: str | float | None = "evidence", margin: float = 1.0, likelihood: str = "normal"
    ) -> None:
        super().__init__(likelihood=likelihood)
        self.penalty = penalty
        self.margin = margin

    def _fit(self, z: Tensor, forecast: Forecast, weight: NDArray[np.float64] | None) -> None:
        source = default_features(forecast)
        solution = self._solve(source, z, weight)
        self.share_ = 1.0
        if self.penalty == "evidence" and solution.coef.any():
            self.share_ = self._sure_share(source, z, weight)
        self.solution_ = replace(solution, coef=self.share_ * solution.coef, intercept=self.share_ * solution.intercept)
        self.precision_, self.n_iter_ = solution.precision, solution.n_iter
        self.met_ = _Met.by(self.solution_, source)

    def _solve(self, source: Rows, z: Tensor, weight: NDArray[np.float64] | None) -> Solution:
        family = self._family

        def evaluate(rows: slice, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return family.relative(z[rows].to(u), u)

        return fit_linear(source, evaluate, rate=RATE, quasi=False, penalty=self.penalty, sample_weight=weight)

    def _sure_share(self, source: Rows, z: Tensor, weight: NDArray[np.float64] | None) -> float:
        """The share of u that rows held out speak for."""
        n = len(z)
        if (n if weight is None else weight.sum()) < 2 * _FOLDS:
            return 0.0
        shares = torch.linspace(0, 1, 11)
        gains = torch.zeros(len(shares), n, dtype=torch.float64)
        for fold in deal_by_content(contents(source), _FOLDS, 0, z.double().cpu().numpy()):
            kept = np.setdiff1d(np.arange(n), fold)
            part = None if weight is None else weight[kept]
            if part is not None and not part.any():
                continue
            base = _common_scale(z[kept], part, self._family.power)
            known = take(source, kept)
            u = _Met.by(self._solve(known, z[kept] / base, part), known)(take(source, fold)[slice(None)])
            own = (z[fold] / base).to(u)
            losses = torch.stack([self._family.relative(own, share * u)[0] for share in shares.to(u)])
            gains[:, fold] = (losses[0] - losses).double().cpu()
        count = None if weight is None else torch.as_tensor(weight)
        return float(shares[int(torch.tensor([sure(gain, self.margin, count) for gain in gains]).argmax())])

    def _factor(self, forecast: Forecast) -> Tensor | float:
        source = self._source(forecast)
        if not self.solution_.coef.any():
            return 1.0
        factor: Tensor = LINK(torch.cat([self.met_(source[rows]) for rows in source.blocks()]).to(forecast.mean))
        return factor


@dataclass(frozen=True)
class _Met:
    """A linear u, with the ranges met in its fit: its own, and those of the features."""

    solution: Solution
    low: Tensor
    high: Tensor
    range: tuple[float, float]

    @classmethod
    def by(cls, solution: Solution, source: Rows) -> _Met:
        lows, highs, us = [], [], []
        for rows in source.blocks():
            x = source[rows]
            lows.append(x.amin(0))
            highs.append(x.amax(0))
            us.append(solution(x))
        u = torch.cat(us)
        return cls(solution, torch.stack(lows).amin(0), torch.stack(highs).amax(0), (float(u.min()), float(u.max())))

    def __call__(self, x: Tensor) -> Tensor:
        """u within its range, of features within theirs: a line is no guide beyond the rows it was drawn through."""
        inside = torch.minimum(torch.maximum(x, self.low.to(x)), self.high.to(x))
        return self.solution(inside).clamp(*self.range)


def _width(forecast: Forecast) -> int:
    return 0 if forecast.features is None else forecast.features.shape[1]


def default_features(forecast: Forecast) -> Rows:
    """The features given, else the mean and, where the regressor has one, the log scale."""
    if forecast.features is not None:
        return forecast.features
    columns = [forecast.mean, forecast.scale.log()] if forecast.has_scale else [forecast.mean]
    return Rows(torch.stack(columns, dim=1))


def _column(name: str, values: Any, like: Tensor | None = None) -> Tensor:
    given = values.detach() if isinstance(values, Tensor) else torch.from_numpy(np.array(values, dtype=np.float64))
    if given.ndim != 1 or (like is not None and given.shape != like.shape):
        rows = "(rows,)" if like is None else f"({len(like)},)"
        raise ValueError(f"{name} must hold one number per row, shape {rows}; got {tuple(given.shape)}")
    if len(given) == 0:
        raise ValueError(f"{name} has no rows")
    if not bool(given.isfinite().all()):
        raise ValueError(f"{name} holds NaN or infinities: clean it first")
    return given.to(like) if like is not None else given.to(torch.promote_types(given.dtype, torch.float32))


def _common_scale(z: Tensor, weight: NDArray[np.float64] | None, power: int) -> float:
    sizes = z.double().abs()
    weights = torch.ones_like(sizes) if weight is None else torch.as_tensor(weight).to(sizes)
    factor = float((weights @ sizes.pow(power) / weights.sum()) ** (1 / power))
    # Residuals of zero throughout would ask for a scale of zero.
    return max(factor, math.sqrt(torch.finfo(torch.float32).tiny))
