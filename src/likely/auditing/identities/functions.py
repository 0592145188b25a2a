"""Columns that follow exactly from one another, such as a wage and its logarithm: which values keep to that."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from likely._typing import Array, Floats, Mask

Numbers = Sequence[Floats | None]  # columns of numbers, of shape (rows,); None for other columns

# Without these relations, clean rows of the tables of tests/auditing/rows/test_exact.py are called wrong.
MAX_ROWS = 2_000  # by which it is decided whether two columns follow from one another
MAX_PARTNERS = 3  # columns by which a column is judged
_CORRELATION = 0.9  # the least rank correlation of two columns that are tried
_EXACT = 0.95  # of the rows lie between their neighbours if one column is a function of the other
_FEWEST = 20  # different values of a column of which another can be a function
_BESIDE = 2  # neighbours on either side
_STEEPER = 4.0  # times the slope of the steps before it, that of a step to, or beyond, the first or the last value
_STEPS = 3  # steps before it
_REGULAR = 0.8  # of the steps of a column that counts are the same
_COLLIDE = 5.0  # pairs that chance would make equal, at least, in a column of codes
_POINTS = 10_000  # of a curve that are kept


class Curve(NamedTuple):
    """One column as a function of another, by the values of some rows: where the values of any row should lie.

    >>> squares, numbers = np.array([1.0, 4.0, 9.0, 90.0, 25.0, 36.0]), np.arange(1.0, 7.0)
    >>> Curve.of(squares, numbers).holds(squares, numbers).tolist()
    [True, True, True, False, True, True]
    """

    at: Array
    medians: Array
    slopes: Array  # at the start and at the end: for values beyond, and for the end points themselves

    @classmethod
    def of(cls, values: Array, by: Array) -> Self | None:
        """Read the curve from rows; where rows share a value of the other column, their median counts."""
        seen = np.flatnonzero(~np.isnan(values) & ~np.isnan(by))
        order = seen[np.lexsort((values[seen], by[seen]))]
        at, starts, counts = np.unique(by[order], return_index=True, return_counts=True)
        if len(at) < 2 * _BESIDE + 1:
            return None
        medians = values[order][starts + (counts - 1) // 2]
        with np.errstate(over="ignore"):
            slopes = np.abs(np.diff(medians)) / np.diff(at)
        starts_and_ends = ((slopes[:_STEPS], slopes[1 : 1 + _STEPS]), (slopes[-_STEPS:], slopes[-1 - _STEPS : -1]))
        ends = np.array([[steps.max() for steps in pair] for pair in starts_and_ends])
        kept = np.linspace(0, len(at) - 1, min(len(at), _POINTS)).astype(np.int64)
        return cls(at[kept], medians[kept], ends)

    def holds(self, values: Array, by: Array) -> Mask:
        """Whether the values of rows lie between the points beside them.

        Before the first and beyond the last point they may lie as far off as the slope there allows.
        """
        before, after = np.searchsorted(self.at, by) - 1, np.searchsorted(self.at, by, "right")  # no point is its own
        padded = np.pad(self.medians, _BESIDE, constant_values=np.nan)
        beside = [padded[_BESIDE + np.stack([before - step, after + step])] for step in range(_BESIDE)]
        low, high = np.fmin.reduce(np.concatenate(beside)), np.fmax.reduce(np.concatenate(beside))
        ends = (before < 0, after), (after >= len(self.at), before)
        with np.errstate(over="ignore"):
            for slopes, (rows, nearest) in zip(self.slopes, ends, strict=True):
                point = nearest[rows]
                known = (after - before - 1)[rows]
                reach = _STEEPER * slopes[known] * np.abs(by[rows] - self.at[point])
                low[rows], high[rows] = self.medians[point] - reach, self.medians[point] + reach
        return (values >= low) & (values <= high)


@dataclass(frozen=True)
class ExactRelations:
    """The columns of a sample that are functions of one another, to judge its rows and further ones by.

    A smooth model of such a column is off where rows are few, by far more than the nothing that is left elsewhere. Here
    the value of a row is held against those of the rows just before and after it in the order of the other column.

    >>> x = np.random.default_rng(0).lognormal(size=500)
    >>> relations = ExactRelations.of([x, np.log(x)])
    >>> relations([np.array([0.5, 2.0]), np.log([0.5, 20.0])], 2).tolist()
    [[True, True], [False, False]]
    """

    curves: tuple[tuple[int, int, Curve], ...]

    @classmethod
    def of(cls, columns: Numbers, wanted: Sequence[int] | None = None) -> Self:
        """Find them in a sample; ``wanted`` are the columns that may be functions of others."""
        numbers = {j: _finite(column) for j, column in enumerate(columns) if column is not None}
        curves = list[tuple[int, int, Curve]]()
        for j, k in _functions(numbers, wanted):
            curve = Curve.of(numbers[j], numbers[k])
            if curve is not None and sum(first == j for first, _, _ in curves) < MAX_PARTNERS:
                curves.append((j, k, curve))
        return cls(tuple(curves))

    def __call__(self, columns: Numbers, rows: int) -> Mask:
        """Whether each value of some rows is the one that another column says exactly."""
        exact = np.zeros((rows, len(columns)), bool)
        for j, k, curve in self.curves:
            values, by = columns[j], columns[k]
            assert values is not None
            assert by is not None
            exact[:, j] |= curve.holds(_finite(values), _finite(by))
        return exact


def counts_on(values: Floats) -> Mask:
    """Whether each value is a regular step from another of a column that counts, by days, years or numbers of rows.

    All values of a column of codes are: whole numbers of which none occurs twice, though so many would by chance.

    >>> counts_on(np.append(np.arange(2000.0, 2020.0), 2900.0)).tolist().index(False)
    20
    """
    order = np.argsort(values, kind="stable")[: int(np.isfinite(values).sum())]  # gaps come last
    there = values[order]
    steps = np.diff(there)
    counted = np.zeros_like(values, bool)
    if len(there) >= _FEWEST and (step := np.median(steps)) > 0:
        regular = np.isclose(steps, step)
        if steps.all() and not (there % 1).any() and len(there) ** 2 / 2 >= _COLLIDE * np.ptp(there):
            counted[order] = True
        elif regular.mean() >= _REGULAR:
            counted[order[1:]] = regular
            counted[order[:-1]] |= regular
    return counted


def _functions(numbers: dict[int, Array], wanted: Sequence[int] | None) -> Iterator[tuple[int, int]]:
    """The ordered pairs of columns of which the first, a wanted one, is a function of the second, by some rows."""
    sample = pd.DataFrame(numbers)
    sample = sample.iloc[:: max(1, -(-len(sample) // MAX_ROWS))]
    sample = sample.loc[:, sample.nunique() >= _FEWEST]
    ranks = sample.rank()
    by_first = ranks.corr() if wanted is None else {j: ranks.corrwith(ranks[j]) for j in wanted if j in ranks}
    for first in by_first:
        for second in sample.columns[by_first[first].abs() >= _CORRELATION].drop(first):
            values, by = sample[first].to_numpy(), sample[second].to_numpy()
            if (curve := Curve.of(values, by)) is not None and curve.holds(values, by).mean() >= _EXACT:
                yield first, second


def _finite(column: Floats) -> Array:
    """The numbers of a column, NaN where one is infinite."""
    numbers = np.asarray(column, np.float64)
    return np.where(np.isinf(numbers), np.nan, numbers)
