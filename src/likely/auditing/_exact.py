"""Columns that follow exactly from one another, such as a wage and its logarithm: which values keep to that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from likely._typing import Array

Numbers = Sequence[NDArray[np.floating] | None]  # columns of numbers, of shape (rows,); None for other columns

_SAMPLE = 2_000  # rows by which it is decided whether two columns follow from one another
_RELATED = 0.9  # the least rank correlation of two columns that are tried
_EXACT = 0.95  # of the rows lie between their neighbours if one column is a function of the other
_AT_ONCE = 1_000  # columns held against all others at once, so that very many do not fill the memory
_FEWEST = 20  # different values of a column of which another can be a function
_BESIDE = 2  # neighbours on either side
_STEEPER = 4.0  # times the slope of the steps before it, that of a step to, or beyond, the first or the last value
_STEPS = 3  # steps before it
_INNER, _OUTER = 8_000, 1_000  # points of a curve that is kept: spread over its middle, and at either end
_PARTNERS = 3  # columns by which a column is judged, of those that are kept


class Curve(NamedTuple):
    """One column as a function of another, by the values of some rows: where the values of any row should lie."""

    at: Array
    medians: Array
    low: Array
    high: Array
    slopes: tuple[float, float]

    @classmethod
    def of(cls, values: Array, by: Array) -> Self | None:
        """Read the curve from rows.

        Where rows share a value of the other column, their median counts. The first and the last value may lie beyond
        their neighbours, as far as the slope there allows.
        """
        seen = np.flatnonzero(~np.isnan(values) & ~np.isnan(by))
        order = seen[np.lexsort((values[seen], by[seen]))]
        starts = np.flatnonzero(np.append(True, np.diff(by[order]) != 0)) if len(order) else order
        if len(starts) < 2 * _BESIDE + 1:
            return None
        counts = np.diff(np.append(starts, len(order)))
        at, medians = by[order][starts], values[order][starts + (counts - 1) // 2]
        steps = [step for step in range(2 * _BESIDE + 1) if step != _BESIDE]
        low, high = _range(medians, np.arange(len(medians)), steps)
        with np.errstate(over="ignore"):
            gaps = np.diff(at)
            slopes = np.abs(np.diff(medians)) / gaps
        for end, beside, gap, before in (
            (0, 1, gaps[0], slopes[1 : 1 + _STEPS]),
            (-1, -2, gaps[-1], slopes[-1 - _STEPS : -1]),
        ):
            reach = _STEEPER * before.max() * gap
            low[end], high[end] = medians[beside] - reach, medians[beside] + reach
        return cls(at, medians, low, high, (float(slopes[:_STEPS].max()), float(slopes[-_STEPS:].max())))

    def thinned(self) -> Self:
        """The curve with fewer points: all at its ends, where rows are few, and some of its middle."""
        points = len(self.at)
        if points <= _INNER + 2 * _OUTER:
            return self
        inner = np.linspace(_OUTER, points - _OUTER, _INNER, endpoint=False).astype(np.int64)
        kept = np.concatenate([np.arange(_OUTER), inner, np.arange(points - _OUTER, points)])
        return self._replace(**{name: getattr(self, name)[kept] for name in ("at", "medians", "low", "high")})

    def holds(self, values: Array, by: Array) -> NDArray[np.bool_]:
        """Whether the values of rows lie on the curve, as closely as its points tell."""
        on_curve = np.zeros(len(values), bool)
        seen = np.flatnonzero(~np.isnan(values) & ~np.isnan(by))
        values, by = values[seen], by[seen]
        place = np.searchsorted(self.at, by)
        nearest = np.minimum(place, len(self.at) - 1)
        low, high = self.low[nearest], self.high[nearest]
        new = np.flatnonzero(self.at[nearest] != by)
        low[new], high[new] = _range(self.medians, place[new], range(2 * _BESIDE))
        with np.errstate(over="ignore"):
            for end, beyond in ((0, np.flatnonzero(by < self.at[0])), (-1, np.flatnonzero(by > self.at[-1]))):
                reach = _STEEPER * self.slopes[end] * np.abs(by[beyond] - self.at[end])
                low[beyond], high[beyond] = self.medians[end] - reach, self.medians[end] + reach
        on_curve[seen] = (values >= low) & (values <= high)
        return on_curve


@dataclass(frozen=True)
class ExactRelations:
    """The columns of a sample that are functions of one another, to judge further rows by.

    >>> x = np.random.default_rng(0).lognormal(size=500)
    >>> relations = ExactRelations.of([x, np.log(x)])
    >>> relations([np.array([0.5, 2.0]), np.log([0.5, 20.0])], 2).tolist()
    [[True, True], [False, False]]
    """

    curves: tuple[tuple[int, int, Curve], ...]

    @classmethod
    def of(cls, columns: Numbers, wanted: Sequence[int] | None = None) -> Self:
        """Find them in a sample."""
        curves = list[tuple[int, int, Curve]]()
        partners = dict[int, int]()
        for j, k in _pairs(columns, wanted):
            values, by = columns[j], columns[k]
            assert values is not None
            assert by is not None
            curve = Curve.of(_finite(values), _finite(by)) if partners.get(j, 0) < _PARTNERS else None
            if curve is not None:
                curves.append((j, k, curve.thinned()))
                partners[j] = partners.get(j, 0) + 1
        return cls(tuple(curves))

    def __call__(self, columns: Numbers, rows: int) -> NDArray[np.bool_]:
        """Whether each value of some rows is the one that another column says exactly."""
        if not self.curves:
            return np.broadcast_to(np.False_, (rows, len(columns)))
        exact = np.zeros((rows, len(columns)), bool)
        for j, k, curve in self.curves:
            values, by = columns[j], columns[k]
            assert values is not None
            assert by is not None
            exact[:, j] |= curve.holds(_finite(values), _finite(by))
        return exact


def exact_values(columns: Numbers, rows: int, wanted: Sequence[int] | None = None) -> NDArray[np.bool_]:
    """Whether each value is the one that another column of numbers says exactly.

    A smooth model of such a column is off where rows are few, by far more than the nothing that is left elsewhere. Here
    the value of a row is held against those of the rows just before and after it in the order of the other column.

    >>> x = np.random.default_rng(0).lognormal(size=500)
    >>> y = np.log(x)
    >>> y[7] += 0.5
    >>> exact = exact_values([x, y, np.arange(500.0)], 500)
    >>> exact.mean(0).round(2).tolist(), exact[7].tolist()
    ([1.0, 1.0, 0.0], [False, False, False])
    """
    exact: NDArray[np.bool_] | None = None
    for j, k in _pairs(columns, wanted):
        values, by = columns[j], columns[k]
        assert values is not None
        assert by is not None
        exact = np.zeros((rows, len(columns)), bool) if exact is None else exact
        exact[:, j] |= between(_finite(values), _finite(by))
    # Without a relation the answer takes no memory, however many rows there are.
    return np.broadcast_to(np.False_, (rows, len(columns))) if exact is None else exact


def between(values: Array, by: Array) -> NDArray[np.bool_]:
    """Whether each value lies in the range of those just before and after it in the order of another column.

    >>> between(np.array([1.0, 4.0, 9.0, 90.0, 25.0, 36.0]), np.arange(1.0, 7.0)).tolist()
    [True, True, True, False, True, True]
    """
    curve = Curve.of(values, by)
    return np.zeros(len(values), bool) if curve is None else curve.holds(values, by)


def _pairs(columns: Numbers, wanted: Sequence[int] | None) -> Iterator[tuple[int, int]]:
    """The ordered pairs of columns of which the first is a function of the second, by some of their rows."""
    sample = {
        j: _finite(column[:: max(1, -(-len(column) // _SAMPLE))])
        for j, column in enumerate(columns)
        if column is not None
    }
    for j, k in _related(sample, wanted):
        if between(sample[j], sample[k]).mean() >= _EXACT:
            yield j, k


def _finite(column: NDArray[np.floating]) -> Array:
    """The numbers of a column, NaN where one is infinite."""
    numbers = np.asarray(column, np.float64)
    return np.where(np.isinf(numbers), np.nan, numbers)


def _range(values: Array, places: NDArray[np.intp], steps: Sequence[int]) -> tuple[Array, Array]:
    """The least and the greatest of the values around each place, at these steps from the first of them."""
    edge = np.full(_BESIDE, np.nan)
    padded = np.concatenate([edge, values, edge])
    neighbours = np.array([padded[places + step] for step in steps])
    return np.fmin.reduce(neighbours, axis=0), np.fmax.reduce(neighbours, axis=0)


def _related(numbers: dict[int, Array], wanted: Sequence[int] | None) -> Iterator[tuple[int, int]]:
    """The ordered pairs of columns, the first a wanted one, whose ranks are nearly the same, or nearly opposite."""
    places = [j for j, values in numbers.items() if len(np.unique(values[~np.isnan(values)])) >= _FEWEST]
    if len(places) < 2:
        return
    ranks = np.array([rankdata(numbers[j], nan_policy="omit") for j in places])
    ranks -= np.nanmean(ranks, axis=1, keepdims=True)
    ranks = np.nan_to_num(ranks / np.sqrt(np.nanmean(np.square(ranks), axis=1, keepdims=True)))
    firsts = [i for i, j in enumerate(places) if wanted is None or j in wanted]
    for start in range(0, len(firsts), _AT_ONCE):
        some = firsts[start : start + _AT_ONCE]
        alike = np.abs(ranks[some] @ ranks.T) >= _RELATED * ranks.shape[1]
        yield from ((places[some[j]], places[k]) for j, k in np.argwhere(alike).tolist() if some[j] != k)
