"""A table as the set of its rows: what is fitted does not depend on how a table lists its rows and columns.

Sums of rounded numbers depend on their order, and where an optimum is flat, or a step is decided by a comparison, that
last digit can decide the answer. So rows that are equal become one row that counts for all of them, and rows and
columns are put into an order that their contents determine. Then a weight of two is the same fit as the row
twice, to the last digit, and so is any permutation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from likely._rows.contents import exact_keys
from likely._typing import Array, Index

_ORDINARY = 1e75  # columns between 1/this and this are left in their own units


@dataclass(frozen=True)
class Table:
    """Distinct rows of positive weight, in the order of their targets."""

    x: Any  # columns of X over their units
    y: Array
    weight: Array  # how many rows of X each row stands for
    units: Array  # a power of two, one for columns of ordinary size


@dataclass(frozen=True)
class Line:
    """Coefficients, kept for columns in units of their own where those of X may leave float64."""

    slope: Array  # of shape (columns,) or (lines, columns), for columns over their units
    units: Array

    @classmethod
    def of(cls, slope: Array, units: Array) -> Line:
        """The line; columns that it does not read keep their own units."""
        read = slope.any(axis=0) if slope.ndim == 2 else slope != 0
        return cls(slope, np.where(read, units, 1.0))

    @property
    def coef(self) -> Array:
        """For the columns of X; infinite where no float64 is large enough."""
        with np.errstate(over="ignore"):
            coef: Array = self.slope / self.units
        return coef

    def __call__(self, X: Any, coef: Array) -> Array:
        """X times the coefficients, ``coef`` being those for the columns of X."""
        if (self.units == 1).all():
            return X @ coef.T
        return in_units(X, self.units) @ self.slope.T


def canonical(X: Any, y: Array, weight: Array | None) -> Table:
    """Return the table in its canonical form; a sparse one keeps equal rows apart.

    Args:
        X: array or sparse array of shape (n, d), finite.
        y: array of shape (n,).
        weight: array of shape (n,), the number of rows that each counts for, or None for one.

    Returns:
        The table.
    """
    weight = np.ones(len(y)) if weight is None else weight
    if not weight.all():
        seen = weight > 0
        X, y, weight = X[seen], y[seen], weight[seen]
    units = column_units(X)
    x, y = in_units(X, units), y + 0.0  # without the sign that a zero can have
    rows = np.argsort(y)
    if sparse.issparse(x) or _is_new(y[rows]).all():
        return Table(x[rows], y[rows], weight[rows], units)
    x = x + 0.0
    # The columns that say most about the target tell rows apart, wherever they stand.
    order = column_order(x, y, weight)
    rows, first = _sorted_rows(x[:, order], y)
    if len(first) == len(rows):
        return Table(x[rows], y[rows], weight[rows], units)
    return Table(x[rows[first]], y[rows[first]], np.add.reduceat(weight[rows], first), units)


def column_units(X: Any) -> Array:
    """Return the power of two below the largest number of each column, where squares of it would leave float64."""
    columns = X.shape[1]
    if sparse.issparse(X):
        peak = np.asarray(abs(X).max(axis=0).todense()).reshape(columns) if X.nnz else np.zeros(columns)
    else:
        peak = np.maximum(X.max(axis=0), -X.min(axis=0))
    return units_of(peak)


def units_of(peak: Array) -> Array:
    """Return the units of columns whose largest numbers are these, without their signs."""
    odd = (peak > 0) & ~((peak > 1 / _ORDINARY) & (peak < _ORDINARY))
    units = np.ones(len(peak))
    units[odd] = np.ldexp(1.0, np.frexp(peak[odd])[1] - 1)
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
    return np.lexsort([mean, -correlation.round(10)])  # rounded, or the last digit would tell equal ones apart


def _sorted_rows(x: Array, y: Array) -> tuple[Index, Index]:
    """The rows sorted by target, then by their columns, and which of these places hold the first of equal rows."""
    # A few columns tell most rows apart; a key of the whole row, which takes longer, tells the others.
    keys = [*x.T[:3][::-1], y]
    rows = np.lexsort(keys)
    new = np.any([_is_new(key[rows]) for key in keys], axis=0)
    if not new.all() and x.shape[1] > 3:
        keys = [exact_keys(x)[0], *keys]
        rows = np.lexsort(keys)
        new = np.any([_is_new(key[rows]) for key in keys], axis=0)
    return rows, np.flatnonzero(new)


def _is_new(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each differs from the one before."""
    return np.append(True, values[1:] != values[:-1])
