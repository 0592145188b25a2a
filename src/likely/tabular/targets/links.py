"""Links (a target, its logarithm or its log odds, in standard units), and distributions that torch does not have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.special import expit, logit
from torch import Tensor
from torch.distributions import Distribution, TransformedDistribution, constraints
from torch.distributions.transforms import ExpTransform, SigmoidTransform, Transform

from likely._typing import Array
from likely.metrics._predictive import quantile

LEVELS = (np.arange(200) + 0.5) / 200  # the mean and variance of these quantiles approximate the distribution's
MISSED = 0.5 / len(LEVELS)  # largest variance that quantiles at LEVELS can miss: of a count that rarely differs by one
PRECISE = 1e-9  # smallest probability that the difference of two CDFs gives with enough digits


def level_quantiles(distribution: Distribution) -> Tensor:
    """Return the quantiles at ``LEVELS``, of shape (levels, *batch)."""
    levels = torch.as_tensor(LEVELS).view(-1, *[1] * len(distribution.batch_shape))
    return distribution.icdf(levels.expand(-1, *distribution.batch_shape))


class Rounded(Distribution):
    """``max(0, round(x))`` of a real x: counts that vary less than a Poisson's.

    >>> import torch
    >>> from torch.distributions import Normal
    >>> d = Rounded(Normal(torch.tensor(1.0), 1.0))
    >>> d.log_prob(torch.arange(4.0)).exp()
    tensor([0.3085, 0.3829, 0.2417, 0.0606])
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.nonnegative_integer

    def __init__(self, base: Distribution, validate_args: bool | None = None) -> None:
        self.base = base
        super().__init__(base.batch_shape, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of a count."""
        below = torch.where(value > 0, self.base.cdf(value - 0.5), 0.0)
        share = self.base.cdf(value + 0.5) - below
        return torch.where(share > PRECISE, share.clamp(min=PRECISE).log(), self.base.log_prob(value))

    def cdf(self, value: Tensor) -> Tensor:
        """Return P(X ≤ value)."""
        return torch.where(value < 0, 0.0, self.base.cdf(value.floor() + 0.5))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile: the smallest count whose CDF is at least ``value``."""
        return (self.base.icdf(value) - 0.5).ceil().clamp(min=0)

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Draw counts."""
        return self.base.sample(sample_shape).round().clamp(min=0)

    @property
    def mean(self) -> Tensor:
        """The mean, computed from quantiles."""
        return level_quantiles(self).mean(0)

    @property
    def variance(self) -> Tensor:
        """The variance, computed from quantiles; where these are all equal, at most what they can miss."""
        return torch.maximum(level_quantiles(self).var(0), self.base.variance.clamp(max=MISSED))


class ByLevel:
    """A model of a target whose mean and intervals follow from its distribution alone."""

    distribution: Callable[..., Distribution]  # of each row's target, from its parameters

    def mean(self, **parameters: Array) -> Array:
        """Return the mean of each row's target."""
        return np.asarray(self.distribution(**parameters).mean)

    def conformity(self, y: Array, **parameters: Array) -> Array:
        """Return the distance of each target's level from ½."""
        return np.abs(np.asarray(self.distribution(**parameters).cdf(torch.as_tensor(y))) - 0.5)

    def interval(self, reach: float, **parameters: Array) -> tuple[Array, Array]:
        """Return the ends of the interval of levels ½ ± ``reach``."""
        distribution = self.distribution(**parameters)
        if reach >= 0.5:
            return np.full(distribution.batch_shape, -np.inf), np.full(distribution.batch_shape, np.inf)
        return quantile(distribution, 0.5 - reach), quantile(distribution, 0.5 + reach)


TRANSFORMS: dict[str, type[Transform]] = {"log": ExpTransform, "logit": SigmoidTransform}
RATIO = 4.0  # of the largest to the smallest target, above which the logarithm is tried


class Curved(TransformedDistribution):
    """A function of a location and scale family of one shape, whose mean and variance are computed from quantiles."""

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density, −∞ outside the link's range."""
        inside: Any = self.support.check(value)
        return torch.where(inside, super().log_prob(torch.where(inside, value, 0.5)), -torch.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Return P(X ≤ value)."""
        inside: Any = self.support.check(value)
        return torch.where(inside, super().cdf(torch.where(inside, value, 0.5)), (value > 0).to(value))

    @property
    def mean(self) -> Tensor:
        """The mean of the target."""
        return self._quantiles().mean(0)

    @property
    def variance(self) -> Tensor:
        """The variance of the target."""
        return self._quantiles().var(0)

    def _quantiles(self) -> Tensor:
        """The quantiles at ``LEVELS``, from those of one standard distribution: all rows have the same shape."""
        base: Any = self.base_dist
        shape = {name: getattr(base, name).reshape(-1)[:1] for name in base.arg_constraints}
        ones = torch.ones_like(shape["loc"])
        standard = type(base)(**{**shape, "loc": 0 * ones, "scale": ones}, validate_args=False)
        return self.transforms[0](base.loc + base.scale * level_quantiles(standard).view(-1, *[1] * base.loc.ndim))


@dataclass(frozen=True)
class Link:
    """z = (f(y) − centre) / spread."""

    name: str
    centre: float
    spread: float

    @classmethod
    def learn(cls, name: str, y: Array, weight: Array) -> Self:
        """Learn mean and deviation from the rows of positive weight."""
        u = _forward(name, y)[weight > 0]
        weight = weight[weight > 0]
        size = max(float(np.abs(u).max(initial=0.0)), np.finfo(np.float64).tiny)  # squares may overflow
        centre = float(np.average(u / size, weights=weight))
        spread = float(np.sqrt(np.average(np.square(u / size - centre), weights=weight)))
        if not spread > 1e-12 * abs(centre):
            spread = abs(centre) or 1 / size
        return cls(name, centre * size, max(spread * size, 1e-300))

    def forward(self, y: Array) -> Array:
        """Convert targets to standard units."""
        return (_forward(self.name, y) - self.centre) / self.spread

    def back(self, z: Array) -> Array:
        """Convert standard units to targets."""
        u = self.centre + self.spread * z
        with np.errstate(over="ignore"):
            return np.exp(u) if self.name == "log" else np.asarray(expit(u)) if self.name == "logit" else u

    def log_slope(self, y: Array) -> Array:
        """Return log |dz/dy|."""
        flat = np.full(len(y), -np.log(self.spread))
        if self.name == "identity":
            return flat
        return flat - np.log(y) - (np.log1p(-y) if self.name == "logit" else 0.0)

    def distribution(self, base: Distribution) -> Distribution:
        """Return the distribution of y, where ``base`` is that of f(y)."""
        if self.name == "identity":
            return base
        return Curved(base, [TRANSFORMS[self.name]()], validate_args=False)


def _forward(name: str, y: Array) -> Array:
    return np.log(y) if name == "log" else np.asarray(logit(y)) if name == "logit" else y


def possible_links(y: Array) -> tuple[str, ...]:
    """Return the links that the range of the targets allows."""
    links = ["identity"]
    if y.min() > 0 and y.max() > RATIO * y.min():
        links.append("log")
    if y.min() > 0 and y.max() < 1:
        links.append("logit")
    return tuple(links)
