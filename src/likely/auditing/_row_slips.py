"""The slips that may have changed a row: a number with another factor or sign, or two columns swapped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from likely._typing import Array
from likely.auditing._neighbours import Neighbours, Usual
from likely.auditing._possible import Possible

# Each factor with its name and its price: the nats by which it must be better than the first to be preferred.
FACTORS = (
    (0.1, "÷10", 0.0),
    (10.0, "×10", 0.0),
    (0.001, "÷1,000", 0.5),
    (1000.0, "×1,000", 0.5),
    (-1.0, "the other sign", 0.5),
    (0.01, "÷100", 1.5),
    (100.0, "×100", 1.5),
)
_TIMES = np.array([factor for factor, _, _ in FACTORS])
FAR = 1e150  # numbers are clipped here, so that products stay finite
_SWAP = -0.5  # price of a swap in nats, before the logarithm of the number of columns it may be with
_STRETCH = 0.5  # weight of the log-slope by which a slip squeezes values together: near zero any small value fits
NARROW = 25  # columns of numbers up to which all pairs are tried as swaps
_VALUES = 10  # a column needs more different values than this to be swapped: flags and grades are left out
_LOOK = 2_000  # rows in which different values are counted


class Change(NamedTuple):
    """A change of a row that makes it ordinary, or nearly."""

    column: int
    left: float
    hint: str = ""
    swapped: int = -1


class Trial(NamedTuple):
    """A candidate change: the row as it would become, squashed, and its price in nats."""

    change: Change
    z: Array
    price: float


def slips(table: Neighbours, row: int, z: Array, blamed: NDArray[np.intp]) -> Iterator[Trial]:
    """Yield factors and signs for each blamed number, and swaps of it with each other number.

    A value in the range of similar rows needs no factor, and two such values need no swap.
    """
    values = np.clip([float(column[row]) for column in table.values], -FAR, FAR)
    numbers = [j for j, unit in enumerate(table.units) if unit is not None and table.names[j] not in table.dates]
    candidates = [j for j in blamed.tolist() if j in numbers]
    # Of very many swaps one fits by chance: those of wide tables are few, and cost more.
    partners = [k for k in (numbers if len(numbers) <= NARROW else candidates) if not np.isnan(values[k])]
    inside = _inside(table, row, sorted({*candidates, *partners}))
    partners = [k for k in partners if may_swap(table, k)]
    for j in candidates:
        if values[j] and j not in inside:
            yield from _factors(table, j, values[j], z)
        if j in partners:
            others = [k for k in partners if values[k] != values[j] and not {j, k} <= inside]
            yield from _swaps(table, j, others, values, z, _SWAP + float(np.log(max(1, len(numbers) - 1))))


def undone(table: Neighbours, row: int, z: Array, slip: Change) -> Array:
    """A row as it was before a slip."""
    j, k = slip.column, slip.swapped
    values = {i: float(np.clip(table.values[i][row], -FAR, FAR)) for i in (j, k) if i >= 0}
    factors = {hint: factor for factor, hint, _ in FACTORS}
    put = {j: values[k], k: values[j]} if k >= 0 else {j: values[j] * factors[slip.hint]}
    mended = z.copy()
    for i, value in put.items():
        unit = table.units[i]
        assert unit is not None
        mended[i] = unit(value)
    return mended


def may_swap(table: Neighbours, j: int) -> bool:
    """Whether a column of numbers has so many different values that a swap with it would show."""
    return len(np.unique(table.known[j][:_LOOK])) > _VALUES


def _inside(table: Neighbours, row: int, columns: list[int]) -> set[int]:
    """The columns whose value lies in the range that rows like it have."""
    usual = zip(columns, table.usuals(row, [table.names[j] for j in columns]), strict=True)
    return {j for j, span in usual if isinstance(span, Usual) and span.low <= table.values[j][row] <= span.high}


def _factors(table: Neighbours, j: int, value: float, z: Array) -> Iterator[Trial]:
    unit = table.units[j]
    assert unit is not None
    stretch = unit.log_slope(value * _TIMES) + np.log(np.abs(_TIMES)) - unit.log_slope(value)
    may = Possible.of(table.values[j][table.sample].astype(np.float64))(value * _TIMES)
    for (_, hint, price), mended, grown, able in zip(FACTORS, unit(value * _TIMES), stretch, may, strict=True):
        if not able:
            continue
        changed = z.copy()
        changed[j] = mended
        yield Trial(Change(j, 0.0, hint), changed, price - _STRETCH * min(float(grown), 0.0))


def _swaps(table: Neighbours, j: int, others: list[int], values: Array, z: Array, price: float) -> Iterator[Trial]:
    unit_of_first = table.units[j]
    assert unit_of_first is not None
    put, slopes = unit_of_first(values), unit_of_first.log_slope(values)
    for k in others:
        unit = table.units[k]
        assert unit is not None
        changed = z.copy()
        changed[j], changed[k] = put[k], unit(values[j])
        grown = slopes[k] - slopes[j] + unit.log_slope(values[j]) - unit.log_slope(values[k])
        yield Trial(Change(j, 0.0, "swapped", k), changed, price - _STRETCH * min(float(grown), 0.0))
