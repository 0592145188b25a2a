"""Columns of numbers in which nearly all rows have the same value, and the others are exceptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from likely._typing import Array

_MOST = 0.9  # of the rows have the same value
_SAME = 1e-9  # relative difference of distances that are equal, rounded


@dataclass(frozen=True)
class Exceptions:
    """The surprise of a value, in nats, where nine rows of ten have the same one: a deviation has no usual size there.

    A value is as surprising as the share of rows that are as far from the common value: minus the log of that share,
    with half a row added to it.
    """

    common: float
    distance: Array  # of the exceptions from the common value, in order
    beyond: Array  # weight of the rows at least as far away as each, and last of none
    total: float
    usual: float

    @classmethod
    def learn(cls, column: Array, weight: Array) -> Self | None:
        """From a column, NaN where a value is missing; None if its values are not nearly all the same, or all are."""
        seen = ~np.isnan(column) & (weight > 0)
        values, mass = column[seen].astype(np.float64), weight[seen]
        if not len(values):
            return None
        common = _middle(values, mass)
        other = values != common
        if not other.any() or mass[other].sum() > (1 - _MOST) * mass.sum():
            return None
        with np.errstate(over="ignore"):
            off = np.abs(values[other] - common)
        order = np.argsort(off)
        beyond = np.append(np.cumsum(mass[other][order][::-1])[::-1], 0.0)
        plain = cls(common, off[order], beyond, float(mass.sum()), 0.0)
        usual = float(mass @ plain.surprise(values, unseen=False)) / plain.total
        return cls(common, plain.distance, beyond, plain.total, usual)

    def surprise(self, column: Array, unseen: bool) -> Array:
        """Nats of each value; as if its row had been left out, if ``unseen``."""
        with np.errstate(over="ignore"):
            off = np.abs(column.astype(np.float64) - self.common)
        further = self.beyond[np.searchsorted(self.distance, off * (1 - _SAME), "left")]
        further = np.where(off > 0, np.maximum(further - unseen, 0.0), self.total)
        return np.where(np.isnan(off), np.nan, -np.log((further + 0.5) / (self.total + 0.5)))


def _middle(values: Array, mass: Array) -> float:
    """The weighted median: the common value, if there is one."""
    if (mass == mass[0]).all():
        middle = (len(values) - 1) // 2
        return float(np.partition(values, middle)[middle])
    order = np.argsort(values)
    below = np.cumsum(mass[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2)])
