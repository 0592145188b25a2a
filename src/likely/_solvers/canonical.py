"""A table as the set of its rows: a fit does not depend on the order of the rows and columns.

Sums of rounded numbers depend on their order, and where an optimum is flat, or a step is decided by a comparison, the
last digit can change the result. So equal rows become one row that counts for all of them, and rows and columns are
sorted by their contents. Then a weight of two gives the same fit as the row twice, to the last digit, and so does any
permutation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from likely._rows.contents import rank_keys
from likely._typing import Array, Index, Mask, Values

_LARGEST = 1e75  # products of squares of larger numbers, or of smaller ones than its inverse, exceed float64


@dataclass(frozen=True)
class DistinctRows:
    """Distinct rows of positive weight, in the order of their targets."""

    x: Any
    y: Array
    weight: Array  # how many rows of X each row stands for


def canonical(X: Any, y: Array, weight: Array | None) -> DistinctRows:
    """Return the table in its canonical form; equal rows of a sparse table are not merged."""
    weight = np.ones(len(y)) if weight is None else weight
    if not weight.all():
        weighted = weight > 0
        X, y, weight = X[weighted], y[weighted], weight[weighted]
    peak = abs(X).max(axis=0)
    check_sizes(np.append(peak.toarray() if sparse.issparse(X) else peak, np.abs(y).max()))
    y = y + 0.0  # without negative zeros
    rows = np.argsort(y)
    if sparse.issparse(X) or _is_new(y[rows]).all():
        return DistinctRows(X[rows], y[rows], weight[rows])
    x = X + 0.0
    # Rows are sorted by the columns most correlated with the target, whatever the order of the columns.
    order = column_order(x, y, weight)
    rows, first = _sorted_rows(x[:, order], y)
    if len(first) == len(rows):
        return DistinctRows(x[rows], y[rows], weight[rows])
    return DistinctRows(x[rows[first]], y[rows[first]], np.add.reduceat(weight[rows], first))


def check_sizes(peak: Array) -> None:
    """Raise an error for columns, the target last, whose squares exceed float64 by these largest sizes."""
    for column in np.flatnonzero((peak > _LARGEST) | ((peak > 0) & (peak < 1 / _LARGEST))):
        name = "y" if column == len(peak) - 1 else f"column {column} of X"
        raise ValueError(
            f"{name} is as large as {peak[column]:.0e}, and its squares exceed float64: give {name} in other units"
        )


def column_order(x: Array, y: Array, weight: Array) -> Index:
    """Return the columns by the size of their correlation with the target, largest first, and then by their mean."""
    share = weight / weight.sum()
    pull = y - share @ y
    pull = share * (pull / (np.abs(pull).max() or 1.0))
    mean = share @ x
    centred = x - mean
    deviation = np.sqrt(share @ centred**2)
    correlation = np.abs(pull @ centred) / np.where(deviation > 1e-10 * np.abs(mean), deviation, np.inf)
    return np.lexsort([mean, -correlation.round(10)])  # rounded, so that the last digit does not order equal columns


def _sorted_rows(x: Array, y: Array) -> tuple[Index, Index]:
    """Return the rows sorted by target, then by their columns, and the positions of the first of equal rows."""
    # A few columns order most rows; a key of the whole row, which takes longer, orders the others.
    keys: list[Values] = [*x.T[:3][::-1], y]
    rows, new = _sorted(keys)
    if not new.all() and x.shape[1] > 3:
        rows, new = _sorted([rank_keys(x)[0], *keys])
    return rows, np.flatnonzero(new)


def _sorted(keys: list[Values]) -> tuple[Index, Mask]:
    """Return the rows sorted by keys, the last one first, and whether each differs from the one before."""
    rows = np.lexsort(keys)
    return rows, np.any([_is_new(key[rows]) for key in keys], axis=0)


def _is_new(values: Values) -> Mask:
    """Return whether each value differs from the one before."""
    return np.append(True, values[1:] != values[:-1])
