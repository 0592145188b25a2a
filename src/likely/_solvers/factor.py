r"""A table of any length as the triangular factor of its rows, which is all that least squares need.

Of a centred, weighted table :math:`A = QR` only R enters :math:`A^\top A = R^\top R`. The factors of two blocks are
combined by a QR of one above the other and of the difference of their means (TSQR; Demmel et al., 2012). That is
accurate to rounding, while sums of products would square the condition number of the table, and lose columns whose mean
is large and whose deviation is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from likely._rows.blocks import row_blocks
from likely._solvers.canonical import check_sizes
from likely._solvers.design import Design, centred_design
from likely._typing import Array

_MIN_ROWS = 8192  # rows that are factored at once, at least


@dataclass(frozen=True)
class Factor:
    """Rows of columns and, last, a target."""

    weight: float  # how many rows there are
    peak: Array  # the largest number of each column and of the target, without its sign
    mean: Array
    root: Array  # R of the centred rows; those rows turned, where they are fewer than its columns

    @classmethod
    def of(cls, x: Array, y: Array, weight: Array | None = None) -> Factor:
        """Return the factor of rows."""
        if weight is not None and not weight.all():
            seen = weight > 0
            x, y, weight = x[seen], y[seen], weight[seen]
        width = x.shape[1] + 1
        total = cls(0.0, np.zeros(width), np.zeros(width), np.zeros((0, width)))
        for rows in row_blocks(len(x), width, numbers=_MIN_ROWS * width, least=4 * width):
            total = total + cls._of_few(x[rows], y[rows], None if weight is None else weight[rows])
        return total

    @classmethod
    def _of_few(cls, x: Array, y: Array, weight: Array | None) -> Factor:
        table = np.column_stack([x, y])
        peak = np.maximum(table.max(axis=0), -table.min(axis=0))
        check_sizes(np.maximum(peak, 1.0))  # numbers that are small here may be larger in other blocks
        mean = np.average(table, axis=0, weights=weight)
        table -= mean
        if weight is not None:
            table *= np.sqrt(weight)[:, None]
        count = float(len(x)) if weight is None else float(weight.sum())
        return cls(count, peak, mean, _triangular(table))

    def __add__(self, other: Factor) -> Factor:
        if len(self.mean) != len(other.mean):
            raise ValueError(
                f"blocks have {len(self.mean)} and {len(other.mean)} columns, the target included: they must agree"
            )
        if not self.weight or not other.weight:
            return self if self.weight else other
        peak, total = np.maximum(self.peak, other.peak), self.weight + other.weight
        apart = other.mean - self.mean
        between = math.sqrt(self.weight) * math.sqrt(other.weight / total) * apart
        root = _triangular(np.vstack([self.root, other.root, between]))
        return Factor(total, peak, self.mean + (other.weight / total) * apart, root)

    def design(self, fit_intercept: bool, penalty: Array | None = None) -> Design:
        """Return the design of the columns and the target; see :func:`~likely._solvers.design.standardized`."""
        check_sizes(self.peak)
        root, mean = self.root, self.mean
        if not fit_intercept:
            root = _triangular(np.vstack([root, math.sqrt(self.weight) * mean]))
            mean = np.zeros_like(mean)
        x, y = np.array(root[:, :-1], order="F"), root[:, -1].copy()
        return centred_design(x, y, self.weight, mean[:-1], float(mean[-1]), fit_intercept, penalty)


def _triangular(table: Array) -> Array:
    if len(table) <= table.shape[1]:
        return table
    return np.asarray(np.linalg.qr(table, mode="r"), dtype=np.float64)
