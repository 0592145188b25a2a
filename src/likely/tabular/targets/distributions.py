"""Distributions that torch does not have: several independent targets, and real numbers rounded to counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

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


class Several(Distribution):
    """Independent distributions, one per element of the last axis.

    >>> import torch
    >>> from torch.distributions import Laplace, Normal
    >>> both = Several([Normal(torch.zeros(3), 1.0), Laplace(torch.ones(3), 2.0)])
    >>> both.batch_shape, both.mean[0]
    (torch.Size([3, 2]), tensor([0., 1.]))
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}

    def __init__(self, parts: Sequence[Distribution], validate_args: bool | None = None) -> None:
        self.parts = tuple(parts)
        super().__init__(torch.Size([*self.parts[0].batch_shape, len(self.parts)]), validate_args=False)

    @property
    def support(self) -> constraints.Constraint:
        """The support of each distribution."""
        return constraints.stack([part.support for part in self.parts], -1)

    @property
    def mean(self) -> Tensor:
        """The mean of each distribution."""
        return torch.stack([part.mean for part in self.parts], -1)

    @property
    def variance(self) -> Tensor:
        """The variance of each distribution."""
        return torch.stack([part.variance for part in self.parts], -1)

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Draw from each distribution."""
        return torch.stack([part.sample(sample_shape) for part in self.parts], -1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of each density."""
        return self._map(lambda part, x: part.log_prob(x), value)

    def cdf(self, value: Tensor) -> Tensor:
        """Return P(X ≤ value) of each distribution."""
        return self._map(lambda part, x: part.cdf(x), value)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles of each distribution."""
        return self._map(lambda part, x: part.icdf(x), value)

    def _map(self, function: Callable[[Distribution, Tensor], Tensor], value: Tensor) -> Tensor:
        value = torch.as_tensor(value).expand(*value.shape[:-1], len(self.parts)) if value.ndim else value
        columns = value.unbind(-1) if value.ndim else (value,) * len(self.parts)
        return torch.stack([function(part, x) for part, x in zip(self.parts, columns, strict=True)], -1)
