"""A table as the set of its rows: a fit does not depend on the order of the rows and columns.

Sums of rounded numbers depend on their order, and where an optimum is flat, or a step is decided by a comparison, the
last digit can change the result. So equal rows become one row that counts for all of them, and rows and columns are
sorted by their contents. Then a weight of two gives the same fit as the row twice, to the last digit, and so does any
permutation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from likely._rows.contents import exact_keys
from likely._typing import Array, Index

MAX_ORDINARY = 1e75  # columns whose largest number is between 1/this and this keep their units


@dataclass(frozen=True)
class Table:
    """Distinct rows of positive weight, in the order of their targets."""

    x: Any  # columns of X over their units
    y: Array
    weight: Array  # how many rows of X each row stands for
    units: Array  # a power of two, one for columns of ordinary size


@dataclass(frozen=True)
class Line:
    """Coefficients of scaled columns, where those of X may exceed float64."""

    slope: Array  # of shape (columns,) or (lines, columns), for columns over their units
    units: Array

    @classmethod
    def of(cls, slope: Array, units: Array) -> Line:
        """Return the line; columns with a coefficient of zero keep the units of X."""
        read = slope.any(axis=0) if slope.ndim == 2 else slope != 0
        return cls(slope, np.where(read, units, 1.0))

    @property
    def coef(self) -> Array:
        """The coefficients of the columns of X; infinite where no float64 is large enough."""
        with np.errstate(over="ignore"):
            coef: Array = self.slope / self.units
        return coef

    def __call__(self, X: Any, coef: Array) -> Array:
        """Return X times the coefficients; ``coef`` are those of the columns of X."""
        if (self.units == 1).all():
            return X @ coef.T
        return in_units(X, self.units) @ self.slope.T


def canonical(X: Any, y: Array, weight: Array | None) -> Table:
    """Return the table in its canonical form; equal rows of a sparse table are not merged."""
    weight = np.ones(len(y)) if weight is None else weight
    if not weight.all():
        weighted = weight > 0
        X, y, weight = X[weighted], y[weighted], weight[weighted]
    units = column_units(X)
    x, y = in_units(X, units), y + 0.0  # without negative zeros
    rows = np.argsort(y)
    if sparse.issparse(x) or _is_new(y[rows]).all():
        return Table(x[rows], y[rows], weight[rows], units)
    x = x + 0.0
    # Rows are sorted by the columns most correlated with the target, whatever the order of the columns.
    order = column_order(x, y, weight)
    rows, first = _sorted_rows(x[:, order], y)
    if len(first) == len(rows):
        return Table(x[rows], y[rows], weight[rows], units)
    return Table(x[rows[first]], y[rows[first]], np.add.reduceat(weight[rows], first), units)


def column_units(X: Any) -> Array:
    """Return the power of two below the largest number of each column whose squares would exceed float64, else 1."""
    if sparse.issparse(X):
        return units_of(abs(X).max(axis=0).toarray().ravel())
    return units_of(np.maximum(X.max(axis=0), -X.min(axis=0)))


def units_of(peak: Array) -> Array:
    """Return the units of columns with these largest absolute values."""
    extreme = (peak > 0) & ~((peak > 1 / MAX_ORDINARY) & (peak < MAX_ORDINARY))
    units = np.ones(len(peak))
    units[extreme] = np.ldexp(1.0, np.frexp(peak[extreme])[1] - 1)
    return units


def in_units(X: Any, units: Array) -> Any:
    """Return X with each column over its unit."""
    if (units == 1).all():
        return X
    if sparse.issparse(X):
        X = sparse.csr_array(X, copy=True)
        X.data = X.data / units[X.indices]
        return X
    return X / units


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
    keys = [*x.T[:3][::-1], y]
    rows = np.lexsort(keys)
    new = np.any([_is_new(key[rows]) for key in keys], axis=0)
    if not new.all() and x.shape[1] > 3:
        keys = [exact_keys(x)[0], *keys]
        rows = np.lexsort(keys)
        new = np.any([_is_new(key[rows]) for key in keys], axis=0)
    return rows, np.flatnonzero(new)


def _is_new(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each value differs from the one before."""
    return np.append(True, values[1:] != values[:-1])
