"""Ways to look at standardised rows, each a log-likelihood: tails and densities of columns, and the nearest rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from likely.outliers._columns import Array

_BINS = 50
_KNOTS = 64  # on each side of the median
_DRAWS, _ROWS = 10, 64
_SAME = 1e-6  # relative to its squared length, the square of a row's distance to itself as rounded
_LARGE, _FEW = 1e12, 2**13
_NEAR = 1e-3  # the mean square distance in a column below which rows are alike


@dataclass(frozen=True)
class Tails:
    """How far out in its column each value is: minus the log of the share of values that are as far or further."""

    knots: tuple[Array, ...]
    nats: tuple[Array, ...]
    usual: Array

    @classmethod
    def learn(cls, z: Array, weight: Array) -> Self:
        """From rows that may miss values."""
        curves = [_tail_curve(column, weight) for column in z.T]
        knots, nats = zip(*curves, strict=True)
        plain = cls(knots, nats, np.zeros(z.shape[1]))
        return cls(knots, nats, _usual(plain.each(z), weight))

    def each(self, z: Array) -> Array:
        """Of every value, in nats; what is usual where it is missing."""
        found = np.empty_like(z)
        for j, (knots, nats) in enumerate(zip(self.knots, self.nats, strict=True)):
            found[:, j] = np.interp(z[:, j], knots, nats)
        return np.where(np.isnan(found), self.usual, found)


def _tail_curve(column: Array, weight: Array) -> tuple[Array, Array]:
    seen = np.isfinite(column) & (weight > 0)
    order = np.argsort(column[seen])
    value, mass = column[seen][order], weight[seen][order]
    if not len(value):
        return np.zeros(1), np.zeros(1)
    below, level = np.cumsum(mass), np.linspace(0, 1, _KNOTS) ** 3 / 2  # dense in the tails
    at = np.searchsorted(below, np.concatenate([level, 1 - level]) * below[-1]).clip(max=len(value) - 1)
    knots = np.unique(value[at])
    no_more = np.append(0.0, below)[np.searchsorted(value, knots, "right")] / below[-1]
    no_less = 1 - np.append(0.0, below)[np.searchsorted(value, knots, "left")] / below[-1]
    nats = -np.log(np.minimum(no_more, no_less).clip(min=mass.min() / below[-1] / 2))
    # Beyond the last value seen there is half a row.
    margin = max(1e-9, 0.01 * float(np.ptp(knots)))
    end = -math.log(mass.min() / below[-1] / 2)
    return np.concatenate([[knots[0] - margin], knots, [knots[-1] + margin]]), np.concatenate([[end], nats, [end]])


@dataclass(frozen=True)
class Histograms:
    """How rare the values around each value are in its column: minus the log of its bin's share of rows."""

    low: Array
    width: Array
    nats: Array  # columns × bins, and one beyond either end
    usual: Array

    @classmethod
    def learn(cls, z: Array, weight: Array) -> Self:
        """From rows that may miss values."""
        counted = np.where(weight[:, None] > 0, z, np.nan)
        empty = np.isnan(counted).all(0)
        counted[:, empty] = 0.0
        low, high = np.nanmin(counted, axis=0), np.nanmax(counted, axis=0)
        # A hair wider, so that the largest value is in the last bin and not beyond it.
        width = np.where(high > low, high - low, 1.0) / _BINS * (1 + 1e-9)
        plain = cls(low, width, np.zeros((z.shape[1], _BINS + 2)), np.zeros(z.shape[1]))
        mass = np.where(np.isnan(z), 0.0, weight[:, None])
        count = np.bincount(plain._place(z).ravel(), mass.ravel(), minlength=plain.nats.size).reshape(plain.nats.shape)
        nats = -np.log((count + 0.5) / np.maximum(mass.sum(0), 1.0)[:, None])
        plain = cls(low, width, nats, plain.usual)
        return cls(low, width, nats, _usual(plain.each(z), weight))

    def each(self, z: Array) -> Array:
        """Of every value, in nats; what is usual where it is missing."""
        found = self.nats.ravel()[self._place(z)]
        return np.where(np.isnan(z), self.usual, found)

    def _place(self, z: Array) -> NDArray[np.intp]:
        place = np.clip((z - self.low) / self.width + 1, 0, _BINS + 1)
        place[np.isnan(place)] = 0
        return place.astype(np.intp) + np.arange(z.shape[1]) * (_BINS + 2)


@dataclass(frozen=True)
class Nearest:
    r"""A scale around the nearest of a few rows: with centre c the best is :math:`\sigma^2 = |x - c|^2 / d`.

    The mean of its log over several draws of rows is, but for a constant, an estimate of minus the log density. A row
    is not its own neighbour: of rows at no distance one is passed over.
    """

    centres: NDArray[np.float32]  # draws × rows × columns

    @classmethod
    def learn(cls, w: Array, weight: Array, random: np.random.RandomState) -> Self:
        """Draw the centres."""
        there = np.flatnonzero(weight > 0)
        rows = max(2, min(_ROWS, len(there) // 2))
        share = weight[there] / weight[there].sum()
        drawn = [random.choice(there, rows, replace=len(there) < rows, p=share) for _ in range(_DRAWS)]
        return cls(_narrow(w)[np.array(drawn)])

    def log_scale(self, w: Array) -> Array:
        """The mean of log σ² over the draws."""
        narrow = _enough(w)
        size = np.square(narrow).sum(1)
        mean = np.ones(len(w))
        for centres in self.centres:
            squares = _less_size(narrow, centres)
            nearest = squares.min(0) + size
            itself = np.flatnonzero(nearest <= _SAME * (1 + size))
            nearest[itself] = np.partition(squares[:, itself], 1, axis=0)[1] + size[itself]
            # The product of so few is finite in double precision, and one logarithm does for all.
            mean *= np.maximum(nearest, 0) / w.shape[1] + _NEAR
        found: Array = np.log(mean) / len(self.centres)
        return found

    def each(self, w: Array) -> Array:
        """The mean square distance in each column, to the nearest row that is not the same."""
        narrow = _enough(w)
        size = np.square(narrow).sum(1)
        total = np.zeros_like(w)
        for centres in self.centres:
            squares = _less_size(narrow, centres)
            squares[squares + size <= _SAME * (1 + size)] = np.inf
            total += np.square(w - centres[squares.argmin(0)])
        return total / len(self.centres)


def _narrow(w: Array) -> NDArray[np.float32]:
    """Single precision, twice as fast and enough to tell which row is nearest."""
    return w.clip(-_LARGE, _LARGE).astype(np.float32)


def _enough(w: Array) -> NDArray[np.floating]:
    """Many rows in single precision; few in double, in which they do not depend on the rows beside them."""
    return w.clip(-_LARGE, _LARGE) if len(w) <= _FEW else _narrow(w)


def _less_size(w: NDArray[np.floating], centres: NDArray[np.float32]) -> NDArray[np.floating]:
    """Squared distances (centres × rows), but for the squared lengths of w."""
    squares: NDArray[np.floating] = (-2 * centres).astype(w.dtype) @ w.T
    squares += np.square(centres).sum(1)[:, None]
    return squares


def _usual(nats: Array, weight: Array) -> Array:
    usual: Array = weight @ nats / weight.sum()
    return usual
