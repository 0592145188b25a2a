"""The different rows of a table, each counted once, and fits that leave some of them out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from likely._rows.contents import exact_keys
from likely._typing import Array

_MIN_ROWS = 20  # rows that any table amounts to
_FOLDS = 10
_MAX_HELD_OUT = 1000  # rows that are held out say where the threshold is
_EXTRA_NUMBERS = 30_000  # numbers of a step, beside those of two fits: then all fits take about as long as two


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
        scaled_weight = np.ones(len(table)) if weight is None else weight / 2.0 ** np.frexp(weight.max())[1]  # exactly
        there = np.flatnonzero(scaled_weight > 0)
        exact, symmetric = exact_keys(table[there])
        _, first, group = np.unique(exact, return_index=True, return_inverse=True)
        mass = np.bincount(group, scaled_weight[there])
        order = np.lexsort((exact[first], symmetric[first]))
        unit = min(np.partition(mass, (len(mass) - 1) // 2)[(len(mass) - 1) // 2], mass.sum() / _MIN_ROWS)
        place = np.full(len(table), -1)
        place[there] = np.argsort(order)[group]
        return cls(scaled_weight / unit, there[first[order]], mass[order] / unit, place)


def left_out(rows: Distinct, step: int, random: np.random.RandomState) -> NDArray[np.bool_]:
    """Of each of several fits, the rows of the table that it is not to see: an array of shape (fits, rows).

    Equal rows are left out together, and where many rows are at hand only some are left out at all. Each fit reads
    ``step`` numbers in a step.
    """
    count = len(rows.first)
    folds = min(_FOLDS, count)
    fits = min(folds, 2 + _EXTRA_NUMBERS // step, math.ceil(_MAX_HELD_OUT * folds / count))
    fold = random.permutation(count) % folds
    return (rows.place >= 0) & (fold[rows.place] == np.arange(fits)[:, None])


def weights_without(rows: Distinct, out: NDArray[np.bool_]) -> Array:
    """The weights of rows in each fit: of rows left out none, or one unit less where many rows are equal."""
    mass = np.where(rows.place >= 0, rows.mass[rows.place], 0.0)
    share_left = np.where(mass > 2, 1 - 1 / np.maximum(mass, 1), 0.0)
    return rows.weight * np.where(out, share_left, 1.0)


def as_of_all(scores: Array, out: NDArray[np.bool_], fitted: Array, power: float) -> Array:
    """Scores of rows left out, as a fit to all rows would have them: by one to fewer rows they are too high.

    What is compared are quantiles: those of rows left ``out`` lie above those of rows that a fit has seen. A part of
    this gap, which falls as a ``power`` of the number of rows, is added to the quantiles of the fit to all rows. NaN
    for rows that no fit has left out.
    """
    corrected = np.full(out.shape[1], np.nan)
    fit, row = np.nonzero(out)
    held = scores[fit, row]
    level = (np.argsort(np.argsort(held)) + 0.5) / len(held)
    gap = held - np.quantile(scores[~out] if not out.all() else held, level)
    corrected[row] = np.quantile(fitted, level) + (1 - out.mean()) ** power * gap
    return corrected
