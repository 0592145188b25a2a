"""The distribution of a real number rounded to the nearest count."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from likely.tabular._levels import LEVELS, level_quantiles

MISSED = 0.5 / len(LEVELS)  # largest variance that quantiles at LEVELS can miss: of a count that rarely differs by one
PRECISE = 1e-9  # smallest probability that the difference of two CDFs gives with enough digits


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
