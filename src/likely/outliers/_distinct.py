"""Equal rows counted once, in an order that depends on their values alone, and weights in units of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from likely._rows.contents import exact_keys
from likely._typing import Array

_LEAST = 20  # rows that any table amounts to


@dataclass(frozen=True)
class Distinct:
    """The different rows of a table and how much each weighs.

    Two rows of weight one are one row of weight two, and weights may be of any scale. So a unit of weight is a
    property of the different rows: the median of what they weigh, or a twentieth of all if that is less.
    """

    weight: Array  # of every row of the table, in such units
    first: NDArray[np.intp]  # where each different row is first met; sorted by a key of its values
    mass: Array  # of each of these
    place: NDArray[np.intp]  # of every row of the table, which of these it is; -1 if it has no weight

    @property
    def left_out(self) -> Array:
        """What is left out of a fit that leaves a row out: one unit, or all that rows equal to it weigh."""
        return np.where(self.place >= 0, np.minimum(self.mass[self.place], 1.0), 0.0)

    @classmethod
    def learn(cls, table: Array, weight: Array | None) -> Self:
        """Group equal rows; rows of no weight are left out."""
        own = np.ones(len(table)) if weight is None else weight / 2.0 ** np.frexp(weight.max())[1]  # exactly
        there = np.flatnonzero(own > 0)
        exact, symmetric = exact_keys(table[there])
        _, first, group = np.unique(exact, return_index=True, return_inverse=True)
        mass = np.bincount(group, own[there])
        order = np.lexsort((exact[first], symmetric[first]))
        unit = min(np.partition(mass, (len(mass) - 1) // 2)[(len(mass) - 1) // 2], mass.sum() / _LEAST)
        place = np.full(len(table), -1)
        place[there] = np.argsort(order)[group]
        return cls(own / unit, there[first[order]], mass[order] / unit, place)
