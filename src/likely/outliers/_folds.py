"""Which rows are left out of which of several fits."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from likely._typing import Array
from likely.outliers._distinct import Distinct

_FOLDS = 10
_ENOUGH = 1000  # rows that are held out say where the threshold is
_AT_ONCE = 30_000  # numbers of a step, beside those of two fits: then all fits take about as long as two


def left_out(rows: Distinct, step: int, random: np.random.RandomState) -> NDArray[np.bool_]:
    """Of each of several fits (rows of the answer), the rows of the table that it is not to see.

    Equal rows are left out together, and where many rows are at hand only some are left out at all.

    Args:
        rows: the different rows of the table.
        step: how many numbers each fit reads in a step.
        random: draws the folds.

    Returns:
        An array of shape (fits, rows).
    """
    count = len(rows.first)
    folds = min(_FOLDS, count)
    fits = min(folds, 2 + _AT_ONCE // step, math.ceil(_ENOUGH * folds / count))
    fold = random.permutation(count) % folds
    out: NDArray[np.bool_] = (rows.place >= 0) & (fold[rows.place] == np.arange(fits)[:, None])
    return out


def weights_without(rows: Distinct, out: NDArray[np.bool_]) -> Array:
    """The weights of rows in each fit: of rows left out none, or one unit less where many rows are equal."""
    mass = np.where(rows.place >= 0, rows.mass[rows.place], 0.0)
    kept = np.where(mass > 2, 1 - 1 / np.maximum(mass, 1), 0.0)
    return rows.weight * np.where(out, kept, 1.0)


def as_of_all(scores: Array, out: NDArray[np.bool_], fitted: Array, power: float) -> Array:
    """Scores of rows left out, as a fit to all rows would have them: by one to fewer rows they are too high.

    What is compared are quantiles: those of rows left out lie above those of rows that a fit has seen. A part of this
    gap is added to the quantiles of the fit to all rows.

    Args:
        scores: of every row by each fit, of shape (fits, rows).
        out: the rows that each fit has not seen.
        fitted: of every row, by the fit to all.
        power: the gap falls as this power of the number of rows.

    Returns:
        One score for each row; NaN for those that no fit has left out.
    """
    found = np.full(out.shape[1], np.nan)
    fit, row = np.nonzero(out)
    held = scores[fit, row]
    level = (np.argsort(np.argsort(held)) + 0.5) / len(held)
    gap = held - np.quantile(scores[~out] if not out.all() else held, level)
    found[row] = np.quantile(fitted, level) + (1 - out.mean()) ** power * gap
    return found
