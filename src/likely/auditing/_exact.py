"""Columns that follow exactly from one another, such as a wage and its logarithm: which values keep to that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from likely._typing import Array

_SAMPLE = 2_000  # rows by which it is seen whether two columns follow from one another
_RELATED = 0.9  # the least rank correlation of two columns that are tried
_EXACT = 0.95  # of the rows lie between their neighbours if one column is a function of the other
_FEWEST = 20  # different values of a column of which another can be a function
_BESIDE = 2  # neighbours on either side
_STEEPER = 4.0  # times the slope of the steps before it, that of the step to the first or the last value at most
_STEPS = 3  # steps before it


def exact_values(
    columns: Sequence[NDArray[np.floating] | None], rows: int, wanted: Sequence[int] | None = None
) -> NDArray[np.bool_]:
    """Whether each value is the one that another column of numbers says exactly.

    A smooth model of such a column is off where rows are few, by far more than the nothing that is left elsewhere. Here
    the value of a row is held against those of the rows just before and after it in the order of the other column.

    Args:
        columns: numbers of shape (rows,), NaN where one is missing; None for a column that is not of numbers.
        rows: number of rows, for tables without a column of numbers.
        wanted: places of the columns whose values are looked at; all by default.

    Returns:
        A mask of shape (rows, columns).

    >>> x = np.random.default_rng(0).lognormal(size=500)
    >>> y = np.log(x)
    >>> y[7] += 0.5
    >>> exact = exact_values([x, y, np.arange(500.0)], 500)
    >>> exact.mean(0).round(2).tolist(), exact[7].tolist()
    ([1.0, 1.0, 0.0], [False, False, False])
    """
    numbers = {j: column for j, column in enumerate(columns) if column is not None}
    shape = rows, len(columns)
    some = slice(None, None, max(1, -(-rows // _SAMPLE)))
    sample = {j: _finite(column[some]) for j, column in numbers.items()}
    pairs = [
        (j, k)
        for j, k in _related(sample)
        if (wanted is None or j in wanted) and between(sample[j], sample[k]).mean() >= _EXACT
    ]
    if not pairs:
        return np.broadcast_to(np.False_, shape)  # takes no memory, however many rows there are
    exact = np.zeros(shape, bool)
    for j, k in pairs:
        exact[:, j] |= between(_finite(numbers[j]), _finite(numbers[k]))
    return exact


def _finite(column: NDArray[np.floating]) -> Array:
    """The numbers of a column, NaN where one is infinite."""
    numbers = np.asarray(column, np.float64)
    return np.where(np.isinf(numbers), np.nan, numbers)


def _related(numbers: dict[int, Array]) -> list[tuple[int, int]]:
    """The ordered pairs of columns whose ranks are nearly the same, or nearly opposite."""
    places = [j for j, values in numbers.items() if len(np.unique(values[~np.isnan(values)])) >= _FEWEST]
    if len(places) < 2:
        return []
    ranks = np.array([rankdata(numbers[j], nan_policy="omit") for j in places])
    ranks -= np.nanmean(ranks, axis=1, keepdims=True)
    ranks = np.nan_to_num(ranks / np.sqrt(np.nanmean(np.square(ranks), axis=1, keepdims=True)))
    alike = np.abs(ranks @ ranks.T) / ranks.shape[1] >= _RELATED
    return [(places[j], places[k]) for j, k in np.argwhere(alike).tolist() if j != k]


def between(values: Array, by: Array) -> NDArray[np.bool_]:
    """Whether each value lies in the range of those just before and after it in the order of another column.

    Where rows share a value of the other column, their median counts. The first and the last value may lie beyond their
    neighbours, as far as the slope there allows.

    Args:
        values: of shape (rows,), NaN where one is missing.
        by: the other column.

    Returns:
        A mask of shape (rows,); False where a value is missing.

    >>> between(np.array([1.0, 4.0, 9.0, 90.0, 25.0, 36.0]), np.arange(1.0, 7.0)).tolist()
    [True, True, True, False, True, True]
    """
    inside = np.zeros(len(values), bool)
    seen = np.flatnonzero(~np.isnan(values) & ~np.isnan(by))
    if not len(seen):
        return inside
    order = seen[np.lexsort((values[seen], by[seen]))]
    starts = np.flatnonzero(np.append(True, np.diff(by[order]) != 0))
    counts = np.diff(np.append(starts, len(order)))
    medians = values[order][starts + (counts - 1) // 2]
    if len(medians) < 2 * _BESIDE + 1:
        return inside
    edge = np.full(_BESIDE, np.nan)
    padded = np.concatenate([edge, medians, edge])
    steps = [step for step in range(2 * _BESIDE + 1) if step != _BESIDE]
    neighbours = np.array([padded[step : step + len(medians)] for step in steps])
    low, high = np.nanmin(neighbours, axis=0), np.nanmax(neighbours, axis=0)
    with np.errstate(over="ignore"):
        gaps = np.diff(by[order][starts])
        slopes = np.abs(np.diff(medians)) / gaps
    for end, beside, gap, before in (
        (0, 1, gaps[0], slopes[1 : 1 + _STEPS]),
        (-1, -2, gaps[-1], slopes[-1 - _STEPS : -1]),
    ):
        reach = _STEEPER * before.max() * gap
        low[end], high[end] = medians[beside] - reach, medians[beside] + reach
    group = np.repeat(np.arange(len(medians)), counts)
    inside[order] = (values[order] >= low[group]) & (values[order] <= high[group])
    return inside
