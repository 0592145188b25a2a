"""The losses as a user would write them in ten lines of torch, with the same parameters learned.

They are what ours is timed against, so they are written to be fast: no checks, no options, one linear layer for all
predicted parameters, scales kept as columns that broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from experiments.benchmarks import _textbook

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
Constraint = Callable[[Tensor], Tensor]


def three_sigmoids(raw: Tensor) -> Tensor:
    """A shape α between 0 and 3."""
    return 3 * torch.sigmoid(raw)


class ByHand(nn.Module):
    """A loss whose raw parameters are read off in one of three ways, which ``kind`` names.

    Args:
        kind: ``"Global"``, one value each; ``"Predicted"``, by a linear layer from features; ``"Data"``, one value per
            training row.
        raws: where each parameter starts, before its constraint.
        constraints: function from the raw value to the parameter, one for each.
        width: number of features.
        rows: number of training rows.
    """

    def __init__(
        self, kind: str, raws: Sequence[float], constraints: Sequence[Constraint], *, width: int = 1, rows: int = 1
    ) -> None:
        super().__init__()
        self.kind, self.constraints = kind, tuple(constraints)
        if kind == "Predicted":
            self.linear = nn.Linear(width, len(raws))
            nn.init.zeros_(self.linear.weight)
            self.linear.bias.data.copy_(torch.tensor(raws))
        else:
            shape = () if kind == "Global" else (rows,)
            self.raws = nn.ParameterList(nn.Parameter(torch.full(shape, raw)) for raw in raws)

    def parameter_values(self, features: Tensor | None, index: Tensor | None) -> tuple[Tensor, ...]:
        """Every parameter: a scalar, or a column with one value per row."""
        if self.kind == "Global":
            return tuple(f(raw) for f, raw in zip(self.constraints, self.raws, strict=True))
        if self.kind == "Data":
            return tuple(f(raw[index].unsqueeze(1)) for f, raw in zip(self.constraints, self.raws, strict=True))
        columns = self.linear(features)
        if len(self.constraints) == 1:
            return (self.constraints[0](columns),)
        return tuple(f(raw) for f, raw in zip(self.constraints, columns.split(1, 1), strict=True))


class NormalByHand(ByHand):
    """Squared error with a scale."""

    def forward(
        self, prediction: Tensor, target: Tensor, features: Tensor | None = None, index: Tensor | None = None
    ) -> Tensor:
        """The mean NLL."""
        (scale,) = self.parameter_values(features, index)
        return (0.5 * ((target - prediction) / scale).square() + scale.log()).mean() + HALF_LOG_2PI


class LaplaceByHand(ByHand):
    """Absolute error with a scale."""

    def forward(
        self, prediction: Tensor, target: Tensor, features: Tensor | None = None, index: Tensor | None = None
    ) -> Tensor:
        """The mean NLL."""
        (scale,) = self.parameter_values(features, index)
        return ((target - prediction).abs() / scale + scale.log()).mean() + math.log(2)


class StudentTByHand(ByHand):
    """Student's t with degrees of freedom and a scale."""

    def forward(
        self, prediction: Tensor, target: Tensor, features: Tensor | None = None, index: Tensor | None = None
    ) -> Tensor:
        """The mean NLL."""
        df, scale = self.parameter_values(features, index)
        z = (target - prediction) / scale
        half = 0.5 * (df + 1)
        log_z = torch.lgamma(0.5 * df) - torch.lgamma(half) + 0.5 * (math.pi * df).log() + scale.log()
        return (half * torch.log1p(z.square() / df) + log_z).mean()


class RobustByHand(ByHand):
    """Barron's ρ with a shape and a scale; log Z from a table, by a spline."""

    log_z: Tensor

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.register_buffer("log_z", _textbook.log_z_table(torch.device("cpu")))

    def forward(
        self, prediction: Tensor, target: Tensor, features: Tensor | None = None, index: Tensor | None = None
    ) -> Tensor:
        """The mean NLL."""
        alpha, scale = self.parameter_values(features, index)
        return _textbook.robust_nll(prediction, target, alpha, scale, self.log_z)


class SoftmaxByHand(ByHand):
    """Cross-entropy with a temperature."""

    def forward(
        self, prediction: Tensor, target: Tensor, features: Tensor | None = None, index: Tensor | None = None
    ) -> Tensor:
        """The mean NLL."""
        (temperature,) = self.parameter_values(features, index)
        return F.cross_entropy(prediction / temperature, target)


class BernoulliByHand(ByHand):
    """Binary cross-entropy with a temperature."""

    def forward(
        self, prediction: Tensor, target: Tensor, features: Tensor | None = None, index: Tensor | None = None
    ) -> Tensor:
        """The mean NLL."""
        (temperature,) = self.parameter_values(features, index)
        return F.binary_cross_entropy_with_logits(prediction / temperature, target)


class GaussianNLLByHand(ByHand):
    """torch's own normal NLL, with a variance that learns."""

    def forward(
        self, prediction: Tensor, target: Tensor, features: Tensor | None = None, index: Tensor | None = None
    ) -> Tensor:
        """The mean NLL."""
        (scale,) = self.parameter_values(features, index)
        return F.gaussian_nll_loss(prediction, target, scale.square().expand_as(prediction), full=True)


class PublishedRobust(ByHand):
    """Barron's ρ as he published it."""

    def forward(
        self, prediction: Tensor, target: Tensor, features: Tensor | None = None, index: Tensor | None = None
    ) -> Tensor:
        """The mean NLL."""
        alpha, scale = self.parameter_values(features, index)
        return _textbook.published_nll(prediction, target, alpha, scale)
