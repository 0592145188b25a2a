"""Rows as they may have been: with gaps filled, in another unit, with the target and a column swapped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from likely._typing import Array, Mask, Places
from likely.auditing.columns.limits import ColumnLimits
from likely.auditing.columns.scale import FACTORS, AsinhScale

_FILLINGS = 12  # copies of a row with different values in its gaps
_DONORS = 20_000  # rows that gaps are filled from, at most
MAX_TRIED = 1_000  # rows that are tried as swaps with a column
_TAILS = 0.002  # share of values at each end of a column that are not usual for it
SWAPPED = "looks swapped with"
_NEAR = 3.0  # scales: a changed target must be nearer to its prediction
_MOVED = 3.0  # scales: another unit must move the target further
Predict = Callable[[Any], Array]


class Swap(NamedTuple):
    """The target after a swap with a column, and its prediction from the columns after the swap."""

    column: str
    value: float
    mean: float
    gain: float  # log-likelihood that the column gains by the swap


def fillings(rows: pd.DataFrame, sample: pd.DataFrame, seed: int) -> list[pd.DataFrame]:
    """Return several copies of some rows, with every gap filled by the value of a random row of the sample.

    >>> table = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": ["x", None, "y"]})
    >>> [len(part.dropna()) for part in fillings(table[1:], table, seed=0)[:2]]
    [2, 2]
    """
    donors = sample.iloc[:: max(1, len(sample) // _DONORS)].ffill().bfill()
    parts = []
    for random in np.random.RandomState(seed).randint(2**31, size=_FILLINGS):
        others = donors.sample(len(rows), replace=True, random_state=random).set_axis(rows.index)
        parts.append(rows.where(rows.notna(), others))
    return parts


def deviation_by_gaps(
    rows: pd.DataFrame, doubted: Mask, sample: pd.DataFrame, mean: Array, predict: Predict, seed: int
) -> Array:
    """By how much the predictions of doubted rows change when gaps are filled; zero for all other rows."""
    deviation = np.zeros(len(rows))
    gaps = np.flatnonzero(doubted & rows.isna().any(axis=1))
    if len(gaps):
        moved = [predict(part) - mean[gaps] for part in fillings(rows.iloc[gaps], sample, seed)]
        deviation[gaps] = np.sqrt(np.square(moved).mean(0))
    return deviation


def swaps(X: pd.DataFrame, y: Array, predict: Predict, rows: Places) -> dict[int, list[Swap]]:
    """Return, for each of some rows, the columns of numbers that its target may have been swapped with.

    The target must be a usual value of the column, and the column's value a usual target.
    """
    names = X.select_dtypes("floating").columns
    by_row: dict[int, list[Swap]] = {int(row): [] for row in rows}
    for name in names:
        column = X[name].to_numpy(np.float64)
        may = _usual(y[rows], column) & _usual(column[rows], y) & (column[rows] != y[rows])
        able = rows[may][:MAX_TRIED]
        if not len(able):
            continue
        mean = predict(X.iloc[able].assign(**{name: y[able]}))
        density = _marginal(column[~np.isnan(column)])
        gain = density(y[able]) - density(column[able]) - np.log(len(names))
        for row, *swap in zip(able.tolist(), column[able], mean, gain, strict=True):
            by_row[row].append(Swap(name, *map(float, swap)))
    return by_row


def _usual(values: Array, column: Array) -> Mask:
    """Whether values lie between the ends of a column, its tails left out."""
    low, high = np.nanquantile(column, [_TAILS, 1 - _TAILS])
    return np.asarray((values >= low) & (values <= high))


def _marginal(values: Array) -> Callable[[Any], Any]:
    """The logarithm of the density of a column, to a constant: Student's t by its median and its deviation."""
    centre = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(values - centre))) or float(np.std(values)) or 1.0
    return lambda value: -2 * np.log1p(np.square((value - centre) / spread) / 3)


def find_hint(
    y: float,
    mean: float,
    scale: float,
    df: float,
    squash: AsinhScale,
    possible: ColumnLimits,
    swapped: Iterable[Swap] = (),
) -> str:
    """Return in words the likeliest change that makes a target fit its prediction, or nothing.

    >>> squash, possible = AsinhScale(100.0, 20.0), ColumnLimits.of(np.array([-200.0, 200.5]))
    >>> find_hint(1020.0, float(squash(99.0)), 0.1, 4.0, squash, possible)
    '÷10 would fit'
    """
    changes = [
        (y * factor, mean, 0.0, f"{name} would fit")
        for factor, name in FACTORS.items()
        if possible(np.array(y * factor)) and abs(float(squash(y * factor) - squash(y))) > _MOVED * scale
    ]
    changes += [(swap.value, swap.mean, swap.gain, f"{SWAPPED} {swap.column}") for swap in swapped]
    best, hint = np.inf, ""
    for value, expected, gain, words in changes:
        z = float(squash(value) - expected) / scale
        cost = (df + 1) / 2 * np.log1p(z * z / df) - gain
        if abs(z) <= _NEAR and cost < best:
            best, hint = cost, words
    return hint
