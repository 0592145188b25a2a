"""The joint distribution of several independent targets of different kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints


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
