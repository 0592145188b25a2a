"""Scores that rows would have if they had been left out of the fit, by fits that leave some out."""

import math

import numpy as np

from likely._typing import Array, Mask
from likely.outliers._columns import RowGroups

FOLDS = 10
_MAX_HELD_OUT = 1000  # rows that are held out say where the threshold is


def left_out(rows: RowGroups, fits: int, random: np.random.RandomState) -> Mask:
    """Of each of so many fits at most, the rows of the table that it is not to see: an array of shape (fits, rows).

    Equal rows are left out together, and where many rows are at hand only some are left out at all.
    """
    count = len(rows.first)
    folds = min(FOLDS, count)
    fits = min(folds, fits, math.ceil(_MAX_HELD_OUT * folds / count))
    fold = random.permutation(count) % folds
    return (rows.place >= 0) & (fold[rows.place] == np.arange(fits)[:, None])


def weights_without(rows: RowGroups, out: Mask) -> Array:
    """The weights of rows in each fit: of rows left out none, or one unit less where many rows are equal."""
    mass = np.where(rows.place >= 0, rows.mass[rows.place], 0.0)
    share_left = np.where(mass > 2, 1 - 1 / np.maximum(mass, 1), 0.0)
    return rows.weight * np.where(out, share_left, 1.0)


def as_of_all(scores: Array, out: Mask, fitted: Array, power: float) -> Array:
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
