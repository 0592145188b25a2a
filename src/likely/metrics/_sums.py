"""Metrics as functions of sums over rows: the sums of two blocks add up to those of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor
from torch.distributions import Distribution

from likely.metrics._input import Array, relative

# Arguments that hold one entry per row; all others are options.
PER_ROW = (
    "y_true",
    "y_prob",
    "y_pred",
    "logits",
    "distribution",
    "mean",
    "scale",
    "interval",
    "samples",
    "quantiles",
    "sample_weight",
)


@dataclass(frozen=True)
class Sums:
    """Sums over rows, whose weights are divided by a power of two: only ratios count, and sums must not overflow."""

    weight: float
    linear: Array  # sums of something times the weight
    exponent: int  # of that power
    square: Array = field(default_factory=lambda: np.zeros(0))  # sums of squared weights
    alike: tuple[Any, ...] = ()  # what blocks must have in common

    @classmethod
    def of_mean(cls, mean: Any, weight: Array) -> Sums:
        """Return the sums of rows that have this mean and these weights."""
        total = float(relative(weight).sum())
        mean = np.asarray(mean, dtype=np.float64)
        return cls(total, mean * total, exponent_of(weight), alike=(("numbers per row", mean.shape),))

    def __add__(self, other: Sums) -> Sums:
        for left, right in zip(self.alike, other.alike, strict=True):
            if left != right:
                raise ValueError(f"blocks differ in their {left[0]}: {left[1]} and {right[1]}")
        exponent = max(self.exponent, other.exponent)
        first, second = (sums._over(exponent) for sums in (self, other))
        linear, square = first.linear + second.linear, first.square + second.square
        return Sums(first.weight + second.weight, linear, exponent, square, self.alike)

    def _over(self, exponent: int) -> Sums:
        shift = self.exponent - exponent
        return Sums(
            float(np.ldexp(self.weight, shift)),
            np.ldexp(self.linear, shift),
            exponent,
            np.ldexp(self.square, 2 * shift),
            self.alike,
        )

    @property
    def mean(self) -> Any:
        """The mean over all rows."""
        mean = self.linear / self.weight
        return mean if mean.ndim else float(mean)


def exponent_of(weight: Array) -> int:
    """Return the power of two that :func:`~likely.metrics._input.relative` divides weights by."""
    return int(np.frexp(weight.max())[1])


@dataclass(frozen=True)
class Recipe:
    """How a metric is computed from sums."""

    sums: Callable[..., Sums]
    result: Callable[..., Any]

    def of_block(self, rows: Mapping[str, Any], options: Mapping[str, Any]) -> Sums | None:
        """Return the sums of one block; None where it has no rows, or none of positive weight."""
        count, weight = row_count(rows), rows.get("sample_weight")
        if count == 0:
            return None
        if weight is not None and not isinstance(weight, Tensor):
            weight = np.asarray(weight)
        if weight is not None and tuple(weight.shape) == (count,) and not bool((weight != 0).any()):
            return None
        return self.sums(**rows, **options)


def added(first: Sums | None, second: Sums | None) -> Sums | None:
    """Return the sums of two blocks together."""
    return second if first is None else first if second is None else first + second


def row_count(rows: Mapping[str, Any]) -> int:
    """Return the number of rows in the arguments of a metric."""
    for name in PER_ROW:
        value = rows.get(name)
        if value is not None:
            value = value[0] if name == "interval" else value
            shape = value.batch_shape if isinstance(value, Distribution) else np.shape(value)
            return int(shape[0]) if shape else 1
    raise ValueError("give y_true and a prediction")
