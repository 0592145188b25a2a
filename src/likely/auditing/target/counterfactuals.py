"""Predictions for rows as they may have been: with gaps filled, and with the target and a column swapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from likely._typing import Array, Mask, Places
from likely.auditing.columns.scale import Squash

_FILLINGS = 12  # copies of a row with different values in its gaps
MAX_TRIED = 1_000  # rows that are tried as swaps with a column
_TAILS = 0.002  # share of values at each end of a column that are not usual for it
_EDGE, _BEYOND = 0.02, 1.0  # far out: beyond the 2% and 98% quantiles by more than the range between them
Predict = Callable[[Any], tuple[Array, Array]]


class Swap(NamedTuple):
    """The target after a swap with a column, and its prediction and deviation from the columns after the swap."""

    column: str
    value: float
    mean: float
    deviation: float
    gain: float  # log-likelihood that the column gains by the swap


def without_far_values(X: Any) -> Any:
    """Return the table without the numbers that are so far out that a model can only extrapolate from them.

    >>> without_far_values(pd.DataFrame({"age": [*range(50), 480.0]}))["age"].isna().sum()
    np.int64(1)
    """
    frame = X.copy() if isinstance(X, pd.DataFrame) else pd.DataFrame(X)
    for name, column in X.items() if isinstance(X, pd.DataFrame) else enumerate(X.T):
        if pd.api.types.is_float_dtype(column.dtype):
            values = np.asarray(column, np.float64)
            some = values[:: max(1, len(values) // 100_000)]
            some = some[~np.isnan(some)]
            if len(some):
                low, high = np.quantile(some, [_EDGE, 1 - _EDGE])
                reach = _BEYOND * (high - low)
                if reach > 0 and (far := (values < low - reach) | (values > high + reach)).any():
                    frame[name] = np.where(far, np.nan, values)
    return frame if isinstance(X, pd.DataFrame) else frame.to_numpy()


def has_gaps(X: Any) -> Mask:
    """Whether each row of a frame or an array lacks a value."""
    gaps: Mask = np.asarray(X.isna() if isinstance(X, pd.DataFrame) else np.isnan(X))
    return np.asarray(gaps.any(1))


def fillings(X: Any, rows: Places, seed: int) -> list[Any]:
    """Return several copies of some rows, with every gap filled by the value of a random other row.

    >>> table = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": ["x", None, "y"]})
    >>> [len(part.dropna()) for part in fillings(table, np.array([1, 2]), seed=0)[:2]]
    [2, 2]
    """
    random = np.random.RandomState(seed)
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X)
    parts = []
    for _ in range(_FILLINGS):
        part = frame.iloc[rows].copy()
        for name in part.columns[part.isna().any()]:
            values = frame[name].dropna().to_numpy()
            gaps = part[name].isna().to_numpy()
            if len(values):
                column = part[name].to_numpy(copy=True)
                column[gaps] = values[random.randint(len(values), size=int(gaps.sum()))]
                part[name] = column
        parts.append(part if isinstance(X, pd.DataFrame) else part.to_numpy())
    return parts


def spread_by_gaps(X: Any, mean: Array, predict: Predict, seed: int) -> Callable[[Places], Array]:
    """Return a function of rows: the mean squared change of their predictions when gaps are filled.

    It is zero for rows without gaps. Values that are far out count as gaps: they are odd, and not the target.
    """
    X = without_far_values(X)
    gaps = has_gaps(X)

    def spread(rows: Places) -> Array:
        squares = np.zeros(len(rows))
        with_gaps = np.flatnonzero(gaps[rows])
        if len(with_gaps):
            moved = [predict(part)[0] - mean[rows[with_gaps]] for part in fillings(X, rows[with_gaps], seed)]
            squares[with_gaps] = np.square(moved).mean(0)
        return squares

    return spread


def swaps(X: pd.DataFrame, y: Array, squash: Squash, predict: Predict, rows: Places) -> dict[int, list[Swap]]:
    """Return, for each of some rows, the columns of numbers that its target may have been swapped with.

    The target must be a usual value of the column, and the column's value a usual target.
    """
    names = [name for name in X.columns if pd.api.types.is_float_dtype(X[name].dtype)]
    by_row: dict[int, list[Swap]] = {}
    for name in names:
        column = X[name].to_numpy(np.float64)
        may = _usual(y[rows], column) & _usual(column[rows], y) & (column[rows] != y[rows])
        able = rows[may][:MAX_TRIED]
        if not len(able):
            continue
        mean, deviation = predict(X.iloc[able].assign(**{name: y[able]}))
        density = _marginal(column[~np.isnan(column)])
        gain = density(y[able]) - density(column[able]) - np.log(len(names))
        for row, *swap in zip(able.tolist(), column[able], mean, deviation, gain, strict=True):
            by_row.setdefault(row, []).append(Swap(name, *map(float, swap)))
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
