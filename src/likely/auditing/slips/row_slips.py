"""A slip that may have changed a row: a number with another factor or sign, or two columns swapped."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from likely._typing import Array
from likely.auditing.columns.scale import FACTORS
from likely.auditing.expected_values.similar_rows import Neighbours

LARGEST = 1e150  # numbers are clipped here, so that products stay finite
_VALUES = 10  # a column needs more different values than this to be swapped: flags and grades are left out
_LOOK = 2_000  # rows in which different values are counted


class Change(NamedTuple):
    """A change of a row that makes it ordinary, or nearly."""

    column: int
    left: float
    hint: str = ""
    swapped: int = -1


def undone(table: Neighbours, row: int, z: Array, slip: Change) -> Array:
    """A row as it was before a slip."""
    j, k = slip.column, slip.swapped
    values = {i: float(np.clip(table.values[i][row], -LARGEST, LARGEST)) for i in (j, k) if i >= 0}
    factors = {hint: factor for factor, hint in FACTORS.items()}
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
