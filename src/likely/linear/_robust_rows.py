"""Rows in units of their median and spread, which outliers cannot move, and least squares on them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.random import RandomState

from likely._rows.columns import median, middle_and_spread
from likely._solvers.canonical import canonical
from likely._typing import Array, Index

TINY = 1e-9  # of the target's spread; a scale below this is a perfect fit


@dataclass(frozen=True)
class RobustRows:
    """A table and a target in robust units; a weight counts rows."""

    x: Array  # the columns and a last one of ones for the intercept, rotated so that none depends on the others
    columns: Array
    y: Array
    weight: Array
    middle: Array  # of the columns and, last, of the target; zeros without an intercept
    spread: Array
    intercept: bool
    turn: Array | None  # from coefficients of ``x`` to those of the columns, where some of these depend on others

    @classmethod
    def of(cls, X: Array, y: Array, weight: Array | None, intercept: bool) -> RobustRows:
        """The distinct rows of positive weight."""
        distinct = canonical(X, y, weight)
        table = np.column_stack([distinct.x, distinct.y])
        middle, spread = middle_and_spread(table, distinct.weight, about_zero=not intercept)
        table = (table - middle) / spread
        ones = np.ones((len(table), 1 if intercept else 0))
        columns, y = table[:, :-1], table[:, -1]
        x = np.hstack([columns, ones])
        turn = _independent(x)
        x = x if turn is None else x @ turn
        return cls(x, columns, y, distinct.weight, middle, spread, intercept, turn)

    def prepared(self, X: Array, y: Array) -> Array:
        """Return any rows in these units: columns and, last, target."""
        columns = (X - self.middle[:-1]) / self.spread[:-1]
        return np.column_stack([columns, (y - self.middle[-1]) / self.spread[-1]])

    def restored(self, beta: Array) -> tuple[Array, float]:
        """Return the slopes and the intercept in the units of the original table."""
        beta = beta if self.turn is None else self.turn @ beta
        slope = beta[: len(self.spread) - 1] * self.spread[-1] / self.spread[:-1]
        if not self.intercept:
            return slope, 0.0
        return slope, float(self.middle[-1] + self.spread[-1] * beta[-1] - slope @ self.middle[:-1])

    def some(self, index: Index) -> RobustRows:
        """Return some of the rows, in the same units."""
        x, columns, y, weight = self.x[index], self.columns[index], self.y[index], self.weight[index]
        return replace(self, x=x, columns=columns, y=y, weight=weight)

    def at_most(self, count: int, random: RandomState) -> RobustRows:
        """Return so many random rows, or all where these are fewer."""
        return self if len(self.y) <= count else self.some(random.choice(len(self.y), count, replace=False))

    @property
    def left(self) -> float:
        """The rows less the degrees of freedom of a line."""
        count = float(self.weight.sum())
        return max(count - self.x.shape[1], 0.3 * count)

    @cached_property
    def counted_once(self) -> bool:
        """Whether every row counts for one."""
        return bool((self.weight == 1).all())

    @property
    def leverage(self) -> Array:
        """The share of its own target in the prediction of each row by least squares."""
        basis, _ = np.linalg.qr(self.x * np.sqrt(self.weight)[:, None])
        return np.square(basis).sum(1) / self.weight

    @property
    def table(self) -> Array:
        """Columns and, last, target."""
        return np.column_stack([self.columns, self.y])

    def residuals(self, beta: Array) -> Array:
        """Return one row of residuals per row of ``beta``."""
        return self.y - beta @ self.x.T

    def least_squares(self, weight: Array) -> Array:
        """Return the coefficients of smallest norm that minimise the weighted squares."""
        root = np.sqrt(weight * self.weight)
        return np.asarray(np.linalg.lstsq(self.x * root[:, None], self.y * root, rcond=None)[0], dtype=np.float64)

    def perfect_fit(self) -> Array | None:
        """Return the coefficients that leave no residual, if there are any: then there is no scale to learn."""
        beta = self.least_squares(np.ones(len(self.y)))
        return beta if rms(self.residuals(beta), self.weight) <= TINY else None

    def many_least_squares(self, weight: Array) -> tuple[Array, Array]:
        """Return the least squares of each row of weights, by the normal equations, and their matrices."""
        weight = weight * self.weight
        gram = (self.x.T * weight[:, None, :]) @ self.x
        return solved(gram, (weight * self.y) @ self.x), gram

    def radius(self, residuals: Array) -> Array:
        """Return, for each row of absolute residuals, the value that a majority of the table does not exceed.

        The majority includes as many rows as there are coefficients, which can be fitted exactly.
        """
        total, p = self.weight.sum(), self.x.shape[1]
        needed = min((total + p + 1) / 2, total)
        if self.counted_once:
            index = min(int(needed), len(self.y) - 1)
            return np.partition(residuals, index, axis=-1)[..., index]
        order = np.argsort(residuals, axis=-1)
        index = (np.cumsum(self.weight[order], axis=-1) >= needed * (1 - 1e-9)).argmax(-1)
        return np.take_along_axis(residuals, np.take_along_axis(order, index[..., None], -1), -1)[..., 0]

    def central(self, columns: Array) -> Array:
        """Return one for the half of the rows nearest the middle in these columns, nearly zero for the others."""
        distance = np.square(columns).sum(1)
        return np.where(distance <= median(distance, self.weight), 1.0, 1e-9)


def _independent(x: Array) -> Array | None:
    """Return orthonormal directions that span the rows; None where these span as many dimensions as there are columns.

    In these directions least squares has one solution, that of smallest norm in the columns: multiples share a
    coefficient.
    """
    n, p = x.shape
    small = np.linalg.qr(x, mode="r") if n > p else x
    values, directions = np.linalg.svd(small, full_matrices=False)[1:]
    rank = int((values > 8 * max(n, p) * np.finfo(float).eps * values[0]).sum())
    return None if rank == p else directions[:rank].T


def rms(residuals: Array, weight: Array) -> float:
    """Return the root of the mean square, at least ``TINY``."""
    return max(math.sqrt(np.average(np.square(residuals), weights=weight)), TINY)


def solved(gram: Array, moments: Array) -> Array:
    """Solve a stack of normal equations; a tiny ridge makes them regular where columns repeat one another."""
    diagonal = np.arange(gram.shape[-1])
    firm = gram.copy()
    firm[..., diagonal, diagonal] += 1e-12 * gram[..., diagonal, diagonal].mean(-1, keepdims=True) + 1e-300
    return np.asarray(np.linalg.solve(firm, moments[..., None])[..., 0], dtype=np.float64)
