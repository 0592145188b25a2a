"""The whole number, zero or more, that a real one is nearest to."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from likely.tabular._levels import LEVELS, reached

MISSED = 0.5 / len(LEVELS)  # the variance of a number that is one off too seldom for any of them
SURE = 1e-9  # a probability from which the difference of two has digits enough


class Rounded(Distribution):
    """``max(0, round(x))`` of a real x: counts that vary less than a Poisson's.

    Args:
        base: the distribution of x.
        validate_args: as torch's distributions have it; values are not checked.

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
        """The logarithm of the probability of a whole number."""
        below = torch.where(value > 0, self.base.cdf(value - 0.5), 0.0)
        share = self.base.cdf(value + 0.5) - below
        return torch.where(share > SURE, share.clamp(min=SURE).log(), self.base.log_prob(value))

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value)."""
        return torch.where(value < 0, 0.0, self.base.cdf(value.floor() + 0.5))

    def icdf(self, value: Tensor) -> Tensor:
        """The smallest number that is reached with a probability."""
        return (self.base.icdf(value) - 0.5).ceil().clamp(min=0)

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Draw numbers."""
        return self.base.sample(sample_shape).round().clamp(min=0)

    @property
    def mean(self) -> Tensor:
        """Of the number, by its quantiles."""
        return reached(self).mean(0)

    @property
    def variance(self) -> Tensor:
        """Of the number, by its quantiles; where these are all one number, no more than they may miss."""
        return torch.maximum(reached(self).var(0), self.base.variance.clamp(max=MISSED))
