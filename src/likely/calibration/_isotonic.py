"""Isotonic recalibration of regressors, as a distribution with a density.

Kuleshov's isotonic map takes a forecast's CDF value F(y) to the share of held-out rows below it: the empirical CDF of
the probability integral transform. It has steps, so no density. Here the same map is the posterior mean of a Pólya
tree: the unit interval is halved ten times, the share of each half has a Beta prior centred at one half, and the
concentration of that prior is learned by evidence. With many rows it is Kuleshov's map; a calibrated forecast is left
unchanged.

Few rows cannot determine a map of both tails and middle. So residuals with heavy tails are first fitted by a Student t,
and the map corrects the rest.
"""

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor
from torch.distributions import Distribution, Laplace, Normal, constraints

from likely._rows.blocks import Rows
from likely._solvers.reweighting import settled_variance
from likely._typing import Array
from likely.calibration._scale import Forecasts, ScaleCalibrator
from likely.distributions import StudentT
from likely.functional import student_t_nll


class Recalibrated(Distribution):
    r"""A location-scale distribution whose CDF F is transformed by a monotone map R: its CDF is :math:`R(F(y))`.

    R is linear between its ``levels`` at even knots of [0, 1], so the density :math:`R'(F(y))\,f(y)` is positive
    wherever f is, tails included, and quantiles are exact.

    Args:
        base: the distribution of CDF F.
        levels: values of R at even knots, rising from 0 to 1, shape (k,).
        validate_args: whether torch checks values; None for torch's default.

    Example:
        >>> import torch
        >>> from likely.calibration import Recalibrated
        >>> skewed = Recalibrated(torch.distributions.Normal(0.0, 1.0), torch.tensor([0.0, 0.2, 1.0]))
        >>> skewed.cdf(torch.tensor(0.0))                            # a fifth below the old median
        tensor(0.2000)
        >>> skewed.icdf(torch.tensor(0.2)).abs() < 1e-6
        tensor(True)
        >>> skewed.mean
        tensor(0.4787)

    See Also:
        :class:`IsotonicScale`, which learns the levels.
    """

    arg_constraints: dict[str, constraints.Constraint] = {}  # noqa: RUF012 (torch's own spelling)
    support = constraints.real

    def __init__(self, base: Normal | Laplace | StudentT, levels: Tensor, validate_args: bool | None = None) -> None:
        self.base, self.levels = base, levels
        super().__init__(base.batch_shape, validate_args=validate_args)

    def cdf(self, value: Tensor) -> Tensor:
        """Return :math:`R(F(y))`.

        Args:
            value: numbers y that broadcast with the batch shape.

        Returns:
            Tensor of probabilities.
        """
        position, bin = self._locate(self.base.cdf(value))
        return torch.lerp(self.levels[bin], self.levels[bin + 1], position - bin)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile at each probability.

        Args:
            value: probabilities that broadcast with the batch shape.

        Returns:
            Tensor of quantiles.
        """
        return self.base.icdf(self._inverse_map(torch.as_tensor(value).to(self.levels)))

    def log_prob(self, value: Tensor) -> Tensor:
        r"""Return the log density, :math:`\log f(y) + \log R'(F(y))`.

        Args:
            value: numbers y that broadcast with the batch shape.

        Returns:
            Tensor of log densities.
        """
        _, bin = self._locate(self.base.cdf(value))
        slope = self.levels.diff() * (len(self.levels) - 1)
        base: Tensor = self.base.log_prob(value)
        return base + slope.log()[bin]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw samples by the inverse CDF.

        Args:
            sample_shape: shape of the samples per distribution.

        Returns:
            Tensor of shape ``sample_shape`` + batch shape.
        """
        shape = self._extended_shape(torch.Size(sample_shape))
        draws = self._inverse_map(torch.rand(shape, dtype=self.levels.dtype, device=self.levels.device))
        # Away from 0 and 1, whose quantiles are infinite.
        tiny = torch.finfo(draws.dtype).eps
        return self.base.icdf(draws.clamp(tiny, 1 - tiny))

    def expand(self, batch_shape: Any, _instance: Any = None) -> "Recalibrated":
        """Return the same distribution over a larger batch.

        Args:
            batch_shape: the new batch shape.
            _instance: not used.

        Returns:
            The expanded distribution.
        """
        return Recalibrated(self.base.expand(torch.Size(batch_shape)), self.levels)

    @property
    def mean(self) -> Tensor:
        """The mean, location plus scale times that of the standardised distribution."""
        return self.base.loc + self.base.scale * self._moments[0]

    @property
    def variance(self) -> Tensor:
        """The variance, squared scale times that of the standardised distribution."""
        return self.base.scale.square() * self._moments[1]

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """Mean and variance of z = (y - loc) / scale, by quadrature between the knots, finer towards the tails."""
        kind = next((own for own in _STANDARD if isinstance(self.base, own)), None)
        if kind is None:
            raise NotImplementedError(f"moments are known for Normal, Laplace and likely's StudentT, not {self.base}")
        df = [float(self.base.df.flatten()[0])] if isinstance(self.base, StudentT) else []
        standard = _STANDARD[kind](*df)
        levels = self.levels.double().cpu().numpy()
        slope = np.diff(levels) / (levels[-1] - levels[0]) * (len(levels) - 1)
        # The base is symmetric: what is left of its median serves for the right too.
        knots = np.linspace(0, 1, len(levels))
        edges = np.concatenate([[0.0], knots[1] * 2.0 ** np.arange(-200, 0), knots[(knots > 0) & (knots < 0.5)], [0.5]])
        nodes, weight = np.polynomial.legendre.leggauss(5)
        width = np.diff(edges)[:, None] / 2
        share = edges[:-1, None] + width * (1 + nodes)
        z, bin = standard.ppf(share), (share * len(slope)).astype(np.intp)
        left, right = weight * width * slope[bin], weight * width * slope[::-1][bin]
        mean = float(((left - right) * z).sum())
        return mean, float(((left + right) * z**2).sum()) - mean**2 if np.isfinite(standard.var()) else math.inf

    def _inverse_map(self, level: Tensor) -> Tensor:
        """Return the inverse of R."""
        bin = torch.searchsorted(self.levels, level.contiguous(), right=True).sub(1).clamp(0, len(self.levels) - 2)
        below, mass = self.levels[bin], self.levels[bin + 1] - self.levels[bin]
        inside = torch.where(mass > 0, (level - below) / mass, 0.5)
        return (bin + inside) / (len(self.levels) - 1)

    def _locate(self, probability: Tensor) -> tuple[Tensor, Tensor]:
        position = probability * (len(self.levels) - 1)
        return position, position.floor().long().clamp(0, len(self.levels) - 2)


_DEPTH = 10
_STANDARD = {Normal: stats.norm, Laplace: stats.laplace, StudentT: stats.t}
_TAILS = (2.5, 3.0, 4.0, 6.0, 10.0, 20.0)  # degrees of freedom that are tried: all have a variance
_FIRMNESS = np.geomspace(0.01, 1e4, 61)


class IsotonicScale(ScaleCalibrator):
    """Isotonic recalibration: one monotone map of the forecasts' CDFs, smoothed by evidence so that it has a density.

    The scales are fitted globally first, with a Student t where it improves the log-likelihood by more than ½ log n
    nats; then the map corrects the common shape: skew, a sharp peak, bias. Where the shape is right the map is the
    identity and this *is* Global Scaling. ``distribution`` returns a :class:`Recalibrated`, and ``predict_scale`` its
    standard deviation.

    Args:
        likelihood: ``"normal"`` or ``"laplace"``, the shape before the map.

    Attributes:
        global_scale_: the factor for all scales.
        tails_: degrees of freedom ``df`` and ``scale`` of the Student t; None without.
        levels_: the map at 1,025 even knots of [0, 1].
        firmness_: concentration of the tree's prior; ∞ where the map is the identity.
        has_scale_: whether ``fit`` was given scales.

    Example:
        >>> import numpy as np, torch
        >>> from likely.calibration import GlobalScale, IsotonicScale
        >>> rng = np.random.default_rng(0)
        >>> mean = rng.normal(size=4000)
        >>> y = mean + rng.exponential(size=4000)                    # skewed: no row lies below its mean
        >>> iso = IsotonicScale().fit(mean, None, y)
        >>> lower, upper = iso.predict_interval(mean, None, coverage=0.8)
        >>> round(float((y < lower).mean()), 2), round(float((y > upper).mean()), 2)
        (0.1, 0.1)
        >>> better = iso.distribution(mean, None).log_prob(torch.as_tensor(y)).mean()
        >>> bool(better > GlobalScale().fit(mean, None, y).distribution(mean, None).log_prob(torch.as_tensor(y)).mean())
        True

    See Also:
        :class:`GlobalScale`; :func:`compose`, to apply it after :class:`LinearScale`;
        :class:`IsotonicCalibration` for classifiers.
    """

    def _fit(self, z: Rows, rows: Forecasts) -> None:
        residuals, thinned = self._thinned(rows)
        has_shape = self.global_scale_ > rows.rounding  # else residuals are rounding errors, which have no shape
        self.tails_ = heavy_tails(residuals, thinned.weight, self._family.likelihood.nll) if has_shape else None

        def masses(part: Any) -> Array:
            residuals = z[part]
            pit = self._base(residuals.new_zeros(()), residuals.new_ones(())).cdf(residuals)
            return leaf_masses(pit.double().cpu().numpy(), has_shape * np.asarray(rows.weight[part]))

        self.levels_, self.firmness_ = polya_tree(z.total(masses))

    def _distribution(self, rows: Forecasts) -> Distribution:
        base = self._base(rows.mean, super()._scales(rows))
        return Recalibrated(base, torch.as_tensor(self.levels_).to(rows.mean))

    def _scales(self, rows: Forecasts) -> Tensor:
        return self._distribution(rows).stddev

    def _base(self, mean: Tensor, scale: Tensor) -> Any:
        if self.tails_ is None:
            return self._family.distribution(mean, scale)
        return StudentT(torch.full_like(mean, self.tails_.df), mean, scale * self.tails_.scale)


class Tails(NamedTuple):
    """A Student t in units of the fitted scale."""

    df: float
    scale: float


def heavy_tails(z: Tensor, weight: Array, base_nll: Any) -> Tails | None:
    """Return degrees of freedom and scale of the likeliest Student t; None if it is not worth a further parameter."""
    z = z.double().cpu()
    squares, total = z.square().numpy(), float(weight.sum())
    if total < 10 or not z.any():
        return None

    def cost(nll: Any, **parameters: float) -> float:
        losses = nll(torch.zeros_like(z), z, reduction="none", validate_args=False, **parameters)
        return float((losses * torch.as_tensor(weight)).sum())

    best, tails = cost(base_nll, scale=1.0) - 0.5 * math.log(max(total, 2.0)), None
    for df in _TAILS:
        start = max(float(weight @ squares) / total * (df - 2) / df, 1e-12)
        scale = math.sqrt(settled_variance(squares, weight, start, df, steps=30))
        if scale < 1e-3:  # rows that are predicted exactly have no tails
            continue
        now = cost(student_t_nll, df=df, scale=scale)
        if now < best:
            best, tails = now, Tails(df, scale)
    return tails


def leaf_masses(pit: Array, weight: Array) -> Array:
    """Return the weight of the values in each of 2¹⁰ even parts of [0, 1]."""
    return np.histogram(pit, bins=2**_DEPTH, range=(0, 1), weights=weight)[0].astype(np.float64)


def polya_tree(leaves: Array) -> tuple[Array, float]:
    """Return a CDF on [0, 1] at 2¹⁰ + 1 even knots, and the firmness of highest evidence (∞: uniform).

    ``leaves`` are the weights of the rows in each of the 2¹⁰ parts.
    """
    counts = [leaves.reshape(2**depth, -1).sum(1).reshape(-1, 2) for depth in range(1, _DEPTH + 1)]

    def evidence(firmness: float) -> float:
        """The log of the Bayes factor against the uniform."""
        total = 0.0
        for depth, pairs in enumerate(counts, start=1):
            centre = firmness * depth**2  # firmer with depth, which makes the limit a density
            total += float((special.betaln(*(pairs + centre).T) - special.betaln(centre, centre)).sum())
            total += float(pairs.sum()) * np.log(2)
        return total

    scores = [evidence(firmness) for firmness in _FIRMNESS]
    best = int(np.argmax(scores))
    if scores[best] <= 0:
        return np.linspace(0, 1, 2**_DEPTH + 1), np.inf
    mass = np.ones(1)
    for depth, pairs in enumerate(counts, start=1):
        share = pairs + _FIRMNESS[best] * depth**2
        mass = (mass[:, None] * share / share.sum(1, keepdims=True)).reshape(-1)
    return np.concatenate([[0.0], mass.cumsum() / mass.sum()]), float(_FIRMNESS[best])
