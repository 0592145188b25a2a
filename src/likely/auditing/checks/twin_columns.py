"""Columns that say the same: equal, equal up to a unit, or equal up to the names of their levels."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from likely._typing import Array
from likely.auditing.columns.kinds import MODELLED, Columns, as_numbers
from likely.auditing.results.finding import number

_SAMPLE = 1_000  # rows by which columns that may be equal are picked
_DIGITS = 5  # of standardised numbers, by which columns that may be equal are picked
_EQUAL = 1e-6  # deviations by which columns that are equal up to a unit may differ
_LEVELS = 50  # distinct values, at most, of a column whose values may be names
_REPEATED = 5  # rows per such value, at least on average: where all differ, any two columns agree
_ROWS = 10  # rows, at least, that two columns must share


class TwinColumns(NamedTuple):
    """Two columns that say the same, and how the second is made of the first."""

    first: str
    second: str
    how: str


def twin_columns(columns: Columns, leave_out: set[str]) -> list[TwinColumns]:
    """Find columns that repeat an earlier one.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> x = np.random.default_rng(0).normal(size=50)
    >>> up = np.where(x > 0, "yes", "no")
    >>> table = pd.DataFrame({"cm": x, "inch": x / 2.54, "up": up, "sign": np.sign(x)})
    >>> [twin.how for twin in twin_columns(read_columns(table), set())]
    ['inch = 0.3937 × cm', 'sign is up under other names']
    """
    names = [name for name in columns.named(*MODELLED) if name not in leave_out]
    n = len(columns.typed)
    if n < _ROWS:
        return []
    rows = np.sort(np.random.RandomState(0).permutation(n)[:_SAMPLE])
    groups: dict[bytes, list[str]] = {}
    twins: list[TwinColumns] = []
    for name in names:
        sample = as_numbers(columns.typed[name].iloc[rows])[0]
        for key in _keys(sample, pd.api.types.is_numeric_dtype(columns.typed[name].dtype)):
            before = groups.setdefault(key, [])
            twin = next(
                (match for other in before if (match := _same(columns.typed[other], columns.typed[name]))), None
            )
            if twin is not None:
                twins.append(twin)
                break
            before.append(name)
    return twins


def _keys(sample: Array, numeric: bool) -> list[bytes]:
    """What two columns have in common if they are equal up to a unit, or up to names."""
    present = ~np.isnan(sample)
    if present.sum() < _ROWS:
        return []
    keys = []
    values = sample[present]
    deviation = float(values.std())
    if numeric and deviation > 0 and np.isfinite(deviation):
        z = (values - values.mean()) / deviation
        z *= np.sign(z[np.argmax(np.abs(z) > 0.1)])
        keys.append(b"unit" + present.tobytes() + (np.round(z, _DIGITS) + 0.0).tobytes())
    codes, levels = pd.factorize(sample)
    if 1 < len(levels) <= min(_LEVELS, len(values) // _REPEATED):
        keys.append(b"name" + codes.astype(np.int64).tobytes())
    return keys


def _same(first: pd.Series[Any], second: pd.Series[Any]) -> TwinColumns | None:
    """Whether two columns are equal in all rows, and how."""
    name, other_name = str(first.name), str(second.name)
    if not np.array_equal(first.isna(), second.isna()):
        return None
    told = partial(TwinColumns, name, other_name)
    numeric = [pd.api.types.is_numeric_dtype(column.dtype) for column in (first, second)]
    if numeric[0] == numeric[1] and np.array_equal(first.dropna(), second.dropna()):
        return told(f"{other_name} equals {name}")
    if all(numeric):
        x, y = (column.dropna().to_numpy(np.float64) for column in (first, second))
        with np.errstate(over="ignore", invalid="ignore"):
            slope = float(np.dot(x - x.mean(), y - y.mean()) / np.dot(x - x.mean(), x - x.mean()))
            shift = float(y.mean() - slope * x.mean())
            if np.isfinite(slope) and np.abs(y - shift - slope * x).max() <= _EQUAL * float(y.std()):
                return told(f"{other_name} = {_line(name, slope, shift, float(y.std()))}")
    codes = [pd.factorize(column)[0] for column in (first, second)]
    if not np.array_equal(*codes) or codes[0].max() >= _LEVELS:
        return None
    if any(numeric) and codes[0].max() > 1:
        return told(f"{other_name} and {name} determine each other, one to one")
    return told(f"{other_name} is {name} under other names")


def _line(name: str, slope: float, shift: float, deviation: float) -> str:
    """A line in words: 0.5 × a + 3."""
    times = "" if abs(slope - 1) < 1e-9 else "−" if abs(slope + 1) < 1e-9 else f"{number(slope)} × "
    if abs(shift) < 1e-6 * deviation:
        return f"{times}{name}"
    return f"{times}{name} {'−' if shift < 0 else '+'} {number(abs(shift))}"
