"""Tests of columns: do levels differ between two sets of rows; p-values that stay right when many tests are made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2_contingency, fisher_exact

from likely._typing import Index, Mask

SURE = 0.01  # the chance of a false alarm among all columns of a table
_EXPECTED = 5.0  # rows of a level by chance: rarer levels are taken together
_LARGE = 1_000  # rows from which an exact test is the same as an approximate one


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Correct p-values for their number (Holm 1979); NaN stands for a test that was not made, and stays NaN.

    >>> holm([0.01, 0.04, np.nan, 0.03])
    array([0.03, 0.06,  nan, 0.06])
    """
    p = np.asarray(p_values, np.float64)
    corrected = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return corrected


class Compared(NamedTuple):
    """A test of levels: its p-value, the distance of their shares (total variation), and the rows of each level."""

    p_value: float
    distance: float
    marked: Index
    others: Index


def compare_levels(codes: Index, marked: Mask) -> Compared:
    """Test whether levels, numbered by frequency, are as frequent among marked rows as among the others.

    The test is χ², or Fisher's of two levels.

    >>> compare_levels(np.repeat([0, 1], 20), np.arange(40) < 20).p_value < 1e-9
    True
    """
    counts = np.array([np.bincount(codes[marked == side], minlength=codes.max() + 1) for side in (True, False)])
    rare = counts.sum(0) * counts.sum(1).min() / counts.sum() < _EXPECTED
    rare[0] = False  # an exact test of the most frequent level against the rest asks for no more
    merged = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)]) if rare.any() else counts
    exact = merged.shape[1] == 2 and merged.min() < _LARGE
    p = fisher_exact(merged).pvalue if exact else chi2_contingency(merged, correction=False).pvalue
    shares = merged / merged.sum(1, keepdims=True)
    return Compared(float(p), float(0.5 * np.abs(shares[0] - shares[1]).sum()), *counts)
