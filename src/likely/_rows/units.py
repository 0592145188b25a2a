"""Centre and spread of columns: means and deviations, or medians, which outliers hardly change."""

from __future__ import annotations

import numpy as np

from likely._typing import Array


def mean_and_deviation(table: Array, weight: Array) -> tuple[Array, Array]:
    """Return the weighted mean and deviation of every column; the deviation of a constant is ∞.

    Divided by ∞ a constant column is zero, so that it has no effect.
    """
    mean = np.average(table, axis=0, weights=weight)
    deviation = np.sqrt(np.average(np.square(table - mean), axis=0, weights=weight))
    return mean, np.where(deviation > 1e-12 * (1 + np.abs(mean)), deviation, np.inf)


def middle_and_spread(table: Array, weight: Array, about_zero: bool = False) -> tuple[Array, Array]:
    """Return the weighted median of every column and, in normal deviations, the median distance to it.

    Where more than half of a column is one value, that distance is zero and the deviation is used; for a constant, 1.
    """
    middle = np.zeros(table.shape[1]) if about_zero else median(table, weight)
    distance = np.abs(table - middle)
    spread = 1.4826 * median(distance, weight)
    rms = np.sqrt(np.average(np.square(distance), axis=0, weights=weight))
    rounding = 1e-12 * np.abs(middle)
    return middle, np.where(spread > rounding, spread, np.where(rms > rounding, rms, 1.0))


def median(table: Array, weight: Array) -> Array:
    """Return the lower weighted median of every column, or of a single one."""
    order = np.argsort(table, axis=0, kind="stable")
    index = (np.cumsum(weight[order], axis=0) >= 0.5 * weight.sum()).argmax(0)
    return np.take_along_axis(table, np.take_along_axis(order, index[None], 0), 0)[0]
