"""Basis functions of an additive model of a table, and ridge regression of each column on those of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from likely._typing import Array, Places

LEVELS = 12  # levels of a category with an indicator of their own; the others share one
_PIECES = 20  # most pieces of the piecewise linear function of a column
_MOST = 400  # basis functions in all, about
_EACH = 8  # least number of rows per basis function
RIDGE, _ROWS = 1e-4, 1.0  # added to the diagonal: a share of the number of rows, and a number of rows


@dataclass(frozen=True)
class Terms:
    """Piecewise linear functions of numbers and indicators of levels; all are zero where a value is missing."""

    words: list[bool]
    knots: list[Array]
    centre: Array
    unit: Array
    owner: Places  # for each function, the place of its column

    @classmethod
    def of(cls, z: Array, words: list[bool]) -> Self:
        """Choose knots."""
        rows, width = z.shape
        pieces = int(np.clip(min(rows // _EACH, _MOST) // max(1, width), 1, _PIECES))
        inner = np.linspace(0, 1, pieces + 1)[1:-1]
        knots = [
            np.arange(LEVELS + 1.0) if word else np.unique(np.quantile(column[~np.isnan(column)], inner))
            for column, word in zip(z.T, words, strict=True)
        ]
        owner = np.repeat(np.arange(width), [len(at) + (not word) for at, word in zip(knots, words, strict=True)])
        plain = cls(words, knots, np.zeros(1), np.ones(1), owner)._raw(z)
        centre, unit = np.nanmean(plain, axis=0), np.nanstd(plain, axis=0)
        return cls(words, knots, centre, np.where(unit > 1e-9, unit, 1.0), owner)

    def __call__(self, z: Array) -> Array:
        """Return the functions of every column, one column each."""
        functions = self._raw(z)
        functions -= self.centre
        functions /= self.unit
        for j in np.flatnonzero(np.isnan(z).any(0)):
            functions[np.ix_(np.isnan(z[:, j]), self.owner == j)] = 0.0
        return functions

    def _raw(self, z: Array) -> Array:
        """The functions as they are before they have mean zero; written where they stay, for there are many."""
        functions = np.empty((len(z), len(self.owner)))
        ends = np.searchsorted(self.owner, np.arange(z.shape[1] + 1))
        for j, column in enumerate(z.T):
            part = functions[:, ends[j] : ends[j + 1]]
            if self.words[j]:
                part[:] = np.where(np.isnan(column)[:, None], np.nan, indicators(column))
            else:
                part[:, 0] = column
                np.maximum(np.subtract(column[:, None], self.knots[j], out=part[:, 1:]), 0, out=part[:, 1:])
        return functions


def indicators(codes: Array) -> Array:
    """A column of zeros and ones per level; rare levels share one. All are zero where a value is missing."""
    return np.asarray(np.minimum(codes, LEVELS)[:, None] == np.arange(LEVELS + 1.0), dtype=np.float64)


def regress(
    basis: Array,
    wanted: Array,
    of: Places,
    owner: Places,
    fold: Places,
    ridge: float = RIDGE,
) -> Array:
    """Ridge regression of columns on the functions of all other columns, without each fold, and on all rows."""
    folds = int(fold.max()) + 1
    grams = [(basis[fold == k].T @ basis[fold == k], basis[fold == k].T @ wanted[fold == k]) for k in range(folds)]
    gram, cross = sum(part for part, _ in grams), sum(part for _, part in grams)
    coefficients = np.zeros((folds + 1, basis.shape[1], wanted.shape[1]))
    for k in range(folds + 1):
        left, right = (gram - grams[k][0], cross - grams[k][1]) if k < folds else (gram, cross)
        rows = len(fold) - int((fold == k).sum())
        inverse = np.linalg.inv(left + (ridge * rows + _ROWS) * np.eye(len(left)))
        for j in np.unique(of):
            functions, targets = np.flatnonzero(owner == j), np.flatnonzero(of == j)
            others = np.where((owner == j)[:, None], 0.0, right[:, targets])
            solved = inverse @ others
            # Leaves out the functions of column j by a block of the inverse, instead of inverting once per column.
            coefficients[k][:, targets] = solved - inverse[:, functions] @ np.linalg.solve(
                inverse[np.ix_(functions, functions)], solved[functions]
            )
    return coefficients
