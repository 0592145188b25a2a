"""Scores of standardised rows, each a log-likelihood: tails and densities of columns, and the nearest rows."""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from likely._rows.blocks import row_blocks
from likely._typing import Array, Floats, Index
from likely.outliers._columns import RowGroups

_BINS = 50
_ASIDE = 1e-6  # of the span, how far the edges of bins are from its fiftieths at least
_KNOTS = 64  # on each side of the median
_DRAWS = 10
_MIN_CENTRES, _MAX_CENTRES = 64, 256  # of a draw
_MAX_PAIRS = 500_000  # of a row and a centre, which decides in between
_SAME_ROW = 1e-6  # relative to its squared length, the square of a row's distance to itself as rounded
_MAX_DOUBLE_ROWS = 4_096  # rows up to which distances are told in double precision
_CLIP_DEVIATIONS, _TINY = 1e12, 1e-30
_BLAS_ROWS = 16  # rows at least, or BLAS would add up in another order
_MAX_PRODUCTS = 1 << 18  # distances, or multiplications of a draw: few enough for the cache and one thread of BLAS
_SAME_VALUE = 1e-6  # deviations: values that differ by less are one value, rounded
NEAR = 1e-3  # the mean square distance in a column below which rows are alike


@dataclass(frozen=True)
class Tails:
    """How far out in its column each value is: minus the log of the share of values that are as far or further."""

    knots: tuple[Array, ...]
    nats: tuple[Array, ...]
    total: Array  # weight of the rows in which each column has a value
    usual: Array

    @classmethod
    def learn(cls, z: Array, weight: Array) -> Self:
        """From rows that may miss values."""
        curves = [_tail_curve(column, weight) for column in z.T]
        knots, nats = tuple(curve[0] for curve in curves), tuple(curve[1] for curve in curves)
        total, usual = np.array([curve[2:] for curve in curves]).reshape(-1, 2).T
        return cls(knots, nats, np.maximum(total, 1.0), usual)

    def each(self, z: Array, left_out: Array | None = None) -> Array:
        """Of every value, in nats; what is usual where it is missing.

        Of a value of a training row without so much of the row's weight, where ``left_out`` is given.
        """
        surprises = np.empty_like(z)
        for j, (knots, nats) in enumerate(zip(self.knots, self.nats, strict=True)):
            surprises[:, j] = np.interp(z[:, j], knots, nats)
        if left_out is not None:
            less = left_out[:, None]
            share = (np.exp(-surprises) * self.total - less).clip(min=0.5) / np.maximum(self.total - less, 0.5)
            surprises = -np.log(np.minimum(share, 1.0))
        return _usual_where_missing(surprises, z, self.usual)


def _tail_curve(column: Array, weight: Array) -> tuple[Array, Array, float, float]:
    """Values and what they have in nats, the weight of the rows that have one, and the mean of their nats."""
    seen = np.isfinite(column) & (weight > 0)
    order = np.argsort(column[seen])
    value, mass = column[seen][order], weight[seen][order]
    if not len(value):
        return np.zeros(1), np.zeros(1), 0.0, 0.0
    below, level = np.cumsum(mass), np.linspace(0, 1, _KNOTS) ** 3 / 2  # dense in the tails
    at = np.searchsorted(below, np.concatenate([level, 1 - level]) * below[-1] * (1 - 1e-12)).clip(max=len(value) - 1)
    knots = np.unique(value[at])
    no_more = np.append(0.0, below)[np.searchsorted(value, knots, "right")] / below[-1]
    no_less = 1 - np.append(0.0, below)[np.searchsorted(value, knots, "left")] / below[-1]
    half = min(0.5 / below[-1], 0.5)
    nats = -np.log(np.minimum(no_more, no_less).clip(min=half))
    # Beyond the last value seen there is half a row.
    margin = max(1e-5, 0.01 * float(np.ptp(knots)))
    end = -math.log(half)
    knots = np.concatenate([[knots[0] - margin], knots, [knots[-1] + margin]])
    nats = np.concatenate([[end], nats, [end]])
    total = float(below[-1])
    return knots, nats, total, float(mass @ np.interp(value, knots, nats)) / total


@dataclass(frozen=True)
class Histograms:
    """How rare the values around each value are in its column: minus the log of its bin's share of rows."""

    low: Array
    width: Array
    count: Array  # columns × bins, and one beyond either end
    total: Array
    usual: Array

    @classmethod
    def learn(cls, z: Array, weight: Array) -> Self:
        """From rows that may miss values."""
        weighed = np.where(weight[:, None] > 0, z, np.nan)
        weighed[:, np.isnan(weighed).all(0)] = 0.0
        low = np.nanmin(weighed, axis=0)
        span = np.nanmax(weighed, axis=0) - low
        varies = span > _SAME_VALUE
        # Values at whole fiftieths, the ends among them, are a little off the edges, so that rounding to single
        # precision moves none across; to the other side where the column is reversed.
        aside = np.where(2 * low + span > 0, 1, 2 * _BINS - 1) * _ASIDE
        low = np.where(varies, low - aside * span, low - 0.5)
        width = np.where(varies, span, 1.0) * (1 / _BINS + 2 * _ASIDE)
        shape = (z.shape[1], _BINS + 2)
        plain = cls(low, width, np.zeros(shape), np.zeros(len(low)), np.zeros(len(low)))
        mass = np.where(np.isnan(z), 0.0, weight[:, None])
        count = np.bincount(plain._place(z).ravel(), mass.ravel(), minlength=math.prod(shape)).reshape(shape)
        counted = replace(plain, count=count.astype(np.float64), total=np.maximum(mass.sum(0), 1.0))
        return replace(counted, usual=(count * counted.nats).sum(1) / np.maximum(count.sum(1), _TINY))

    @property
    def nats(self) -> Array:
        """What a value of each bin has, columns × bins."""
        return -np.log((self.count + 0.5) / self.total[:, None])

    def each(self, z: Array, left_out: Array | None = None, moved: Array | None = None) -> Array:
        """Of every value, in nats; what is usual where it is missing.

        Of a value of a training row without so much of the row's weight, where ``left_out`` is given; of the value
        ``moved`` in its place, if that is given too.
        """
        place = self._place(z)
        if left_out is None:
            return _usual_where_missing(self.nats.ravel()[place], z, self.usual)
        less = left_out[:, None]
        if moved is not None:
            old, place = place, self._place(moved)
            less = less * (old == place)
        count = (self.count.ravel()[place] - less).clip(min=0)
        share = (count + 0.5) / np.maximum(self.total - less, 1.0)
        return _usual_where_missing(-np.log(share), z, self.usual)

    def _place(self, z: Array) -> Index:
        """Which of the bins of all columns each value is in; a missing value is in none, and said to be in the first.

        Arrays are changed in place: this is read for every value of a table.
        """
        place = z - self.low
        place *= 1 / self.width
        place += 1
        np.fmax(place, 0, out=place)  # not a number is no number at all
        np.fmin(place, _BINS + 1, out=place)
        bins = place.astype(np.intp)
        bins += np.arange(z.shape[1]) * (_BINS + 2)
        return bins


@dataclass(frozen=True)
class Nearest:
    r"""A scale around the nearest of a few rows: with centre c the best is :math:`\sigma^2 = |x - c|^2 / d`.

    The mean of its log over several draws of rows is, but for a constant, an estimate of minus the log density. A row
    is not its own neighbour: of rows at no distance one is passed over.
    """

    centres: Floats  # draws × rows × columns

    @classmethod
    def learn(cls, w: Array, rows: RowGroups, random: np.random.RandomState) -> Self:
        """Draw the centres, regularly from the different rows in random order: a heavy row may be drawn twice."""
        different = len(rows.first)
        count = max(2, min(_MAX_CENTRES, max(_MIN_CENTRES, _MAX_PAIRS // different), different // 2))
        drawn = []
        for _ in range(_DRAWS):
            order = random.permutation(len(rows.first))
            below = np.cumsum(rows.mass[order])
            at = np.searchsorted(below, (np.arange(count) + random.uniform()) / count * below[-1], "right")
            drawn.append(rows.first[order[at.clip(max=len(order) - 1)]])
        return cls(_narrow(w, np.float64 if different <= _MAX_DOUBLE_ROWS else np.float32)[np.array(drawn)])

    def log_scale(self, w: Array, stretch: Array | None = None) -> Array:
        """The mean of log σ² over the draws; of a row left out, whose distances are longer in its own direction."""
        narrow, size = self._padded(w)
        draws, count, width = self.centres.shape
        facing = _with_squares(self.centres)
        products = np.empty(len(w))
        step = max(4, _MAX_PRODUCTS // (count * max(draws, width + 1)) // _BLAS_ROWS) * _BLAS_ROWS
        for rows in row_blocks(len(w), numbers=step):
            squares = (facing @ narrow[:, rows.start : rows.start + step])[..., : len(size[rows])]
            longer = None if stretch is None else stretch[rows]
            nearest = _nearest(squares, size[rows], facing[..., -1], longer)
            # The product of so few is finite in double precision, and one logarithm does for all.
            products[rows] = np.prod(np.maximum(nearest, 0) / max(1, width) + NEAR, axis=0, dtype=np.float64)
        return np.log(products) / draws

    def each(self, w: Array) -> Array:
        """The mean square distance in each column, to the nearest row that is not the same."""
        narrow, size = self._padded(w)
        total = np.zeros_like(w)
        for centres in self.centres:
            squares = (_with_squares(centres) @ narrow)[:, : len(w)]
            squares[squares + size <= _SAME_ROW * (1 + size)] = np.inf
            total += np.square(w - centres[squares.argmin(0)])
        return total / len(self.centres)

    def _padded(self, w: Array) -> tuple[Floats, Floats]:
        """Rows in the precision of the centres, as columns over a one, and their squared lengths; padded for BLAS."""
        narrow = _narrow(w, self.centres.dtype)
        columns = np.zeros((w.shape[1] + 1, len(w) + -len(w) % _BLAS_ROWS), narrow.dtype)
        columns[:-1, : len(w)], columns[-1] = narrow.T, 1
        return columns, np.square(narrow).sum(1)


def _narrow(w: Array, dtype: Any) -> Floats:
    """Rows within reach. Single precision is twice as fast, and enough to tell which of many rows is nearest."""
    return np.asarray(w.clip(-_CLIP_DEVIATIONS, _CLIP_DEVIATIONS), dtype)


def _with_squares(centres: Floats) -> Floats:
    """Centres whose products with rows over a one are squared distances, but for the squared lengths of the rows."""
    return np.concatenate([-2 * centres, np.square(centres).sum(-1, keepdims=True)], axis=-1)


def _nearest(squares: Floats, size: Floats, squared: Floats, stretch: Array | None) -> Array:
    """The square of each row's distance to the nearest centre of each draw that is not the row itself."""
    nearest = squares.min(1) + size
    draw, row = np.nonzero(nearest <= _SAME_ROW * (1 + size))
    if len(row):
        squares[draw, squares[draw, :, row].argmin(1), row] = np.inf
        nearest[draw, row] = squares[draw, :, row].min(1) + size[row]
    if stretch is None:
        return nearest
    product = (np.take_along_axis(squared, squares.argmin(1), 1) - nearest + size) / 2
    along = np.square((size - product).astype(np.float64)) / np.maximum(size, _TINY)
    return nearest + (stretch - 1) * along


def _usual_where_missing(nats: Array, z: Array, usual: Array) -> Array:
    missing = np.isnan(z)
    return np.where(missing, usual, nats) if missing.any() else nats
