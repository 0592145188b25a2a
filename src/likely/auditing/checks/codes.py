"""Numbers that stand for something else: −999 for a gap, 0 where nothing is near zero, 9999 for a cap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from likely._rows.reading.table import counted
from likely._typing import Array
from likely.auditing.columns.kinds import Columns
from likely.auditing.results.finding import number

_NINES = [sign * (10.0**digits - 1) for digits in range(2, 10) for sign in (-1, 1)]
_EIGHTS = [sign * eights for eights in (88.0, 888.0, 8888.0) for sign in (-1, 1)]
_CODES = frozenset([*_NINES, *_EIGHTS, -9.0, -1.0, 0.0, *(s * 2.0**31 for s in (-1, 1)), 2.0**31 - 1])
_SMALL = frozenset({-1.0, 0.0})  # that are values more often than codes
_DISTINCT = 10  # other values, at least: in fewer, nothing is isolated
_TIMES = 3  # rows, at least, with the code
_MANY = 0.3  # of the rows: zeros in more are part of how the column is made
_NEXT = 10  # of the other values, nearest to the code, that tell how far apart they usually are
_APART = 5.0  # times as far from the others as these are from each other
_SAMPLE = 200_000
_DATES = {-25567.0: "1900-01-01", 0.0: "1970-01-01", -719162.0: "0001-01-01", 2932896.0: "9999-12-31"}


class Code(NamedTuple):
    """A number in a column that is probably no amount, in how many rows, and the range of the others."""

    column: str
    value: float
    shown: str
    rows: int
    low: float
    high: float

    @property
    def sentence(self) -> str:
        """What is said of it."""
        others = (
            "" if self.shown != number(self.value) else f", the others are {number(self.low)} to {number(self.high)}"
        )
        return f"{self.shown} in {counted(self.rows, 'row')}{others}: it may stand for a missing value"


def codes(columns: Columns, leave_out: set[str]) -> list[Code]:
    """Find numbers that look like codes for gaps: usual ones, repeated, at an end of the column, and isolated.

    >>> import pandas as pd
    >>> from likely.auditing.columns.kinds import read_columns
    >>> age = np.random.default_rng(0).integers(18, 80, 200)
    >>> age[:9] = -999
    >>> [code.sentence for code in codes(read_columns(pd.DataFrame({"age": age})), set())]
    ['-999 in 9 rows, the others are 18 to 79: it may stand for a missing value']
    """
    gap_codes: list[Code] = []
    for name in columns.named("number", "date"):
        if name in leave_out:
            continue
        values = columns.typed[name].to_numpy(np.float64)
        values = values[~np.isnan(values)]
        if not len(values):
            continue
        ends = {float(values.min()), float(values.max())}
        if columns.kinds[name] == "date":
            gap_codes += [
                Code(name, end, _DATES[end], int((values == end).sum()), 0.0, 0.0) for end in ends & _DATES.keys()
            ]
            gap_codes = [code for code in gap_codes if code.column != name or code.rows >= _TIMES]
            continue
        for end in sorted(ends & _CODES):
            others = values[values != end]
            times = len(values) - len(others)
            if end == 0 and times > _MANY * len(values):
                continue
            if times >= _TIMES and isolated(end, others):
                gap_codes.append(Code(name, end, number(end), times, float(others.min()), float(others.max())))
                values = others
    return gap_codes


def isolated(code: float, others: Array) -> bool:
    """Whether a number at the end of a column lies further from the other values than these lie apart."""
    if len(others) > _SAMPLE:
        nearest = others.max() if code > others.max() else others.min()
        others = np.append(others[:: len(others) // _SAMPLE + 1], nearest)
    distinct = np.unique(others)
    if len(distinct) < _DISTINCT:
        return False
    near = distinct[-_NEXT:] if code > distinct[-1] else distinct[:_NEXT]
    gap = float(np.abs(near - code).min())
    usual = float(near[-1] - near[0]) / (len(near) - 1)
    middle = float(np.subtract(*np.quantile(others, [0.75, 0.25])))
    if code in _SMALL:  # a value like others, unless nothing is near it
        return bool(distinct[0] > 0 and gap > max(_APART * usual, 0.5 * middle)) or (
            code == -1 and _below_counts(others)
        )
    return gap > max(_APART * usual, 0.5 * float(distinct[-1] - distinct[0]))


def _below_counts(others: Array) -> bool:
    """Whether the others are many whole numbers from zero on, among which -1 has no meaning."""
    return bool(others.min() >= 0 and (others == np.round(others)).all() and len(np.unique(others)) > 20)
