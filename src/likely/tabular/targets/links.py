"""Links: a target, its logarithm or its log odds, in standard units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit, logit
from torch import Tensor
from torch.distributions import Distribution, TransformedDistribution
from torch.distributions.transforms import ExpTransform, SigmoidTransform, Transform

from likely._typing import Array
from likely.tabular.targets.distributions import level_quantiles

TRANSFORMS: dict[str, type[Transform]] = {"log": ExpTransform, "logit": SigmoidTransform}
RATIO = 4.0  # of the largest to the smallest target, above which the logarithm is tried


class Curved(TransformedDistribution):
    """A transformed distribution whose mean and variance are computed from its quantiles."""

    @property
    def mean(self) -> Tensor:
        """The mean of the target."""
        return level_quantiles(self).mean(0)

    @property
    def variance(self) -> Tensor:
        """The variance of the target."""
        return level_quantiles(self).var(0)


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
