"""Standardised tables, which every self-tuning linear model is fitted on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import lapack
from scipy.special import stdtrit

from likely._solvers.canonical import DistinctRows
from likely._typing import Array, Index

_MAX_GRAM_RATIO = 4  # maximum size of the Gram matrix relative to the table


def wider_by(left: float, freedom: float) -> float:
    """Return the half-width of Student's 90% interval over that with all degrees of freedom."""
    return float(stdtrit(left, 0.95) / stdtrit(freedom, 0.95))


@dataclass(frozen=True)
class Design:
    """A table with centred columns of deviation one, and a centred target.

    In these units a prior of one scale means the same for every column, so that no result depends on the units of the
    columns or of the target. A weight counts rows: ``rows`` is their sum, and only sums over rows enter a result.
    Constant columns are left out, and so are those whose weights have no prior; the others and the target are made
    orthogonal to these. A sparse table is scaled but not centred; its centring is left to ``offset``. Columns are
    ordered by their products with the target, largest first, so that no result depends on the order of the columns of
    X, even where it is computed one column at a time.
    """

    x: Any
    y: Array
    rows: float
    live: Index  # the columns of X that are in x
    mean: Array  # of every column of X, as is the deviation
    deviation: Array
    target: float
    offset: Array | None = None
    weight: Array | None = None  # of the rows of a sparse table; those of a dense one are in its rows
    free: Free | None = None
    spent: float = 1.0  # degrees of freedom of weights without a prior

    @property
    def shape(self) -> tuple[int, int]:
        return self.x.shape

    @property
    def freedom(self) -> float:
        """The number of rows less the degrees of freedom of weights without a prior."""
        return max(self.rows - self.spent, 1.0)

    @property
    def has_gram(self) -> bool:
        """Whether the Gram matrix is the smaller description."""
        n, d = self.shape
        return self.offset is None and d <= max(_MAX_GRAM_RATIO * n, 1000)

    @cached_property
    def gram(self) -> Array:
        return self.x.T @ self.x

    @cached_property
    def smaller(self) -> Array:
        """The products of the columns, or of the rows where these are fewer."""
        n, d = self.shape
        return self.gram if d <= n else np.asarray(self.x @ self.x.T)

    @cached_property
    def reduced(self) -> Tridiagonal:
        """The same matrix made tridiagonal, once for all fits to the table."""
        return Tridiagonal(self.smaller)

    @cached_property
    def xy(self) -> Array:
        return self.x.T @ (self.y if self.weight is None else self.weight * self.y)

    @cached_property
    def yy(self) -> float:
        return self.squared(self.y)

    def squared(self, rows: Array) -> float:
        """Return the weighted sum of squares of one number per row."""
        return float(rows @ (rows if self.weight is None else self.weight * rows))

    def residual(self, coef: Array) -> float:
        """Return the residual sum of squares of these weights."""
        if self.has_gram:
            active = np.flatnonzero(coef)
            some = coef[active]
            return max(float(self.yy + some @ (self.gram_of(active) @ some - 2 * self.xy[active])), 0.0)
        return self.squared(self._left(coef))

    def _left(self, coef: Array) -> Array:
        """Return what these weights leave of the target."""
        return self.y - self.x @ coef + (0.0 if self.offset is None else self.offset @ coef)

    def pull(self, coef: Array) -> Array:
        """Return the products of the columns with the residuals of these weights."""
        if self.has_gram:
            return self.xy - self.gram @ coef
        left = self._left(coef) if self.weight is None else self.weight * self._left(coef)
        return self.x.T @ left - (0.0 if self.offset is None else self.offset * left.sum())

    def columns(self, active: Index) -> Array:
        """Return some columns, dense and centred."""
        if self.offset is None:
            return self.x[:, active]
        dense = np.asarray(self.x[:, active].todense()) - self.offset[active]
        return dense if self.weight is None else dense * np.sqrt(self.weight)[:, None]

    def gram_of(self, active: Index) -> Array:
        """Return the products of some columns."""
        if self.has_gram:
            return self.gram[np.ix_(active, active)]
        x = self.columns(active)
        return x.T @ x

    def scaled(self, scale: Array) -> Any:
        """Return the table with its columns multiplied by ``scale``."""
        if self.offset is None:
            return np.asfortranarray(self.x * scale)
        x = self.x.copy()
        x.data *= np.repeat(scale, np.diff(x.indptr))
        return x

    def unused(self, strength: float) -> float:
        """Return the degrees of freedom that a ridge of this strength leaves."""
        n, d = self.shape
        rank = max(int(min(n - self.spent, self.freedom, d)), 0)
        values = self.reduced.values()[len(self.reduced) - rank :]  # the others are rounding errors
        return self.freedom - rank + float((strength / (values + strength)).sum())

    def widened(self, noise: float, unused: float) -> float:
        """Return the noise at which a normal has the 90% interval of Student's t with ``unused`` degrees of freedom.

        That of the degrees of freedom without any weights is left out, so that weights of which there are few change
        nothing. Degrees below two count as two: the factor grows without bound towards none.
        """
        return noise * wider_by(*np.maximum([unused, self.freedom], 2.0)) ** 2

    @cached_property
    def distinct(self) -> DistinctColumns:
        """The design without columns that are multiples of others."""
        return DistinctColumns.of(self)

    def restored(self, coef: Array) -> tuple[Array, float]:
        """Return the coefficients of the columns of X, in their order, and the intercept."""
        full = np.zeros(len(self.mean))
        full[self.live] = coef
        if self.free is not None:
            full[self.free.index] = self.free.target - self.free.columns @ coef
        full /= self.deviation
        return full, self.target - float(self.mean @ full)

    def prepared(self, X: Any) -> Array:
        """Return new rows in the units of the fit."""
        x = X[:, self.live]
        x = np.asarray(x.todense()) if sparse.issparse(x) else x
        return (x - self.mean[self.live]) / self.deviation[self.live]


@dataclass(frozen=True)
class Free:
    """Columns whose weights have no prior: their coefficients in the other columns and in the target."""

    index: Index
    columns: Array
    target: Array


@dataclass(frozen=True)
class DistinctColumns:
    """A design in which one column stands for all its multiples, among which no fit can choose.

    The multiples share a weight evenly, which changes neither predictions nor the sum of absolute weights.
    """

    whole: Design
    first: Index  # (columns of the smaller design,): position in the larger
    member: Index  # (columns of the larger design,): position in the smaller
    sign: Array

    @classmethod
    def of(cls, design: Design) -> DistinctColumns:
        """Find the columns of a design that are multiples of others."""
        d, sizes = design.shape[1], np.abs(design.xy)
        member, sign = np.arange(d), np.ones(d)
        # Multiples have the same product with the target, up to the sign, so they are adjacent.
        breaks = np.flatnonzero(np.abs(np.diff(sizes)) > 1e-9 * sizes[:1]) + 1
        for group in np.split(np.arange(d), breaks):
            if len(group) < 2:
                continue
            x = design.columns(group)
            norms = np.sqrt(np.einsum("ij,ij->j", x, x))
            cosine = (x.T @ x) / np.maximum(np.outer(norms, norms), 1e-300)
            head = (np.abs(cosine) > 1 - 1e-12).argmax(1)
            member[group] = group[head]
            sign[group] = np.sign(cosine[np.arange(len(group)), head])
        first, member = np.unique(member, return_inverse=True)
        return cls(design, first, member, sign)

    @cached_property
    def design(self) -> Design:
        """The smaller design."""
        whole, first = self.whole, self.first
        if len(first) == whole.shape[1]:
            return whole
        free = None if whole.free is None else replace(whole.free, columns=whole.free.columns[:, first])
        offset = None if whole.offset is None else whole.offset[first]
        x = whole.x.T[first].T if whole.offset is None else whole.x[:, first]
        return replace(whole, x=x, live=whole.live[first], free=free, offset=offset)

    @cached_property
    def count(self) -> Array:
        """For each column of the larger design, the number of columns that share its weight, itself included."""
        return np.bincount(self.member, minlength=len(self.first)).astype(np.float64)[self.member]

    def shared(self, coef: Array) -> Array:
        """Return the weights of the larger design, given those of the smaller."""
        return self.sign * coef[self.member] / self.count

    def posterior(self, noise: float, active: Index) -> Posterior:
        """Return the posterior of some weights of the smaller design, for rows in the columns of the larger."""
        posterior = Posterior(self.design, noise, 0.0, active)
        posterior.active = self.first[active]
        return posterior

    def evened(self, coef: Array) -> Array:
        """Return the weights of the larger design with those of multiples made equal in size."""
        return self.shared(np.bincount(self.member, self.sign * coef, len(self.first)).astype(np.float64))


def standardized(table: DistinctRows, fit_intercept: bool, penalty: Array | None = None) -> Design:
    """Return the design of a table.

    ``penalty`` multiplies each column's deviation, which divides the scale of its weight's prior; 0 is no prior.
    """
    x, y, total = table.x, table.y, float(table.weight.sum())
    if sparse.issparse(x):
        return _sparse(table, total, fit_intercept, penalty)
    weight = None if (table.weight == 1).all() else table.weight
    mean = np.average(x, axis=0, weights=weight) if fit_intercept else np.zeros(x.shape[1])
    target = float(np.average(y, weights=weight)) if fit_intercept else 0.0
    x, y = np.subtract(x, mean, order="F"), y - target
    if weight is not None:
        root = np.sqrt(weight)
        x *= root[:, None]
        y *= root
    return centred_design(x, y, total, mean, target, fit_intercept, penalty)


def centred_design(
    x: Array,
    y: Array,
    total: float,
    mean: Array,
    target: float,
    fit_intercept: bool,
    penalty: Array | None,
) -> Design:
    """Return the design of a centred table, or of any other whose columns and target have the same products."""
    deviation, live = _usable(np.sqrt(np.einsum("ij,ij->j", x, x) / total), mean)
    free, spent = None, float(fit_intercept)
    if penalty is not None:
        deviation = deviation * np.where(penalty > 0, penalty, 1.0)
        index = live[penalty[live] == 0]
        live = live[penalty[live] > 0]
        if len(index):
            known = x[:, index] / deviation[index]
            basis, _ = linalg.qr(known, mode="economic")
            columns = linalg.lstsq(known, np.column_stack([x[:, live] / deviation[live], y]))[0]
            free, spent = Free(index, columns[:, :-1], columns[:, -1]), spent + len(index)
            x, y = x - basis @ (basis.T @ x), y - basis @ (basis.T @ y)
    order = np.argsort(-np.abs(x.T @ y)[live] / deviation[live], kind="stable")
    live, free = live[order], free and replace(free, columns=free.columns[:, order])
    x = x.T[live].T
    x /= deviation[live]
    return Design(x, y, total, live, mean, deviation, target, free=free, spent=spent)


def _sparse(table: DistinctRows, total: float, fit_intercept: bool, penalty: Array | None) -> Design:
    if penalty is not None and not penalty.all():
        raise ValueError("penalty_weights must be positive for a sparse X: give a dense X to leave columns unpenalised")
    x, y = sparse.csc_array(table.x, dtype=np.float64, copy=True), table.y
    share = table.weight / total
    mean = x.T @ share if fit_intercept else np.zeros(x.shape[1])
    target = float(share @ y) if fit_intercept else 0.0
    second, centred = x.multiply(x).T @ share, share * (y - target)
    deviation, live = _usable(np.sqrt(np.maximum(second - mean**2, 0.0)), mean)
    deviation = deviation if penalty is None else deviation * penalty
    pull = np.abs(x.T @ centred - mean * centred.sum())
    live = live[np.argsort(-pull[live] / deviation[live], kind="stable")]
    x = x[:, live]
    x.data /= np.repeat(deviation[live], np.diff(x.indptr))
    weight = None if (table.weight == 1).all() else table.weight
    shared = x, y - target, total, live, mean, deviation, target
    return Design(*shared, offset=mean[live] / deviation[live], weight=weight, spent=float(fit_intercept))


def _usable(deviation: Array, mean: Array) -> tuple[Array, Index]:
    """Return the deviations, one for a column that is constant up to rounding, and the columns that vary."""
    varies = deviation > 1e-10 * np.abs(mean)
    return np.where(varies, deviation, 1.0), np.flatnonzero(varies)


class Posterior:
    """The normal posterior of weights under a ridge on the active columns; ``variance`` is that of x·w."""

    def __init__(self, design: Design, noise: float, strength: float, active: Index | None = None) -> None:
        self.active = np.arange(design.shape[1]) if active is None else active
        self.noise, self.strength, self.rows = noise, max(strength, 0.0), design.rows
        n, d = len(design.y), len(self.active)
        self.columns: Array | None = None
        if d > n and self.strength > 0:  # by rows, which are fewer
            self.columns = design.columns(self.active)
            self.matrix = design.smaller.copy() if active is None else self.columns @ self.columns.T
        else:
            self.matrix = design.gram.copy() if active is None and design.has_gram else design.gram_of(self.active)
        # A tiny ridge makes columns that repeat one another share a weight.
        floor = 1e-10 * max(float(np.trace(self.matrix)) / max(len(self.matrix), 1), 1e-300)
        self.matrix[np.diag_indices(len(self.matrix))] += max(self.strength, floor)

    @cached_property
    def root(self) -> Array:
        return linalg.cholesky(self.matrix, lower=True, check_finite=False)

    def mean(self, xy: Array) -> Array:
        """Return the posterior mean of the weights, given the active columns' products with the target."""
        if self.columns is not None:
            seen = self.columns.T @ linalg.cho_solve((self.root, True), self.columns @ xy)
            return (xy - seen) / self.strength
        return linalg.cho_solve((self.root, True), xy) if len(xy) else xy

    def variance(self, x: Array) -> Array:
        """Return the variance of the mean response at standardised rows, that of the intercept included."""
        x = x[:, self.active]
        common = np.full(len(x), self.noise / self.rows)
        if not len(self.active):
            return common
        products = x if self.columns is None else x @ self.columns.T
        seen = (linalg.solve_triangular(self.root, products.T, lower=True) ** 2).sum(0)
        if self.columns is None:
            return common + self.noise * seen
        return common + self.noise / self.strength * np.maximum(np.einsum("ij,ij->i", x, x) - seen, 0.0)


class Tridiagonal:
    """A = QTQᵀ with T tridiagonal: a quarter of the cost of eigenvectors, and as useful for A + λ at every λ."""

    def __init__(self, matrix: Array) -> None:
        d = len(matrix)
        self.diagonal, self.beside = matrix.diagonal().copy(), np.zeros(max(d - 1, 0))
        self.tau = np.zeros(0)
        if d > 2:
            work, _ = lapack.dsytrd_lwork(d, lower=1)
            self.reflectors, self.diagonal, self.beside, self.tau, _ = lapack.dsytrd(matrix, lower=1, lwork=int(work))
        elif d == 2:
            self.beside = matrix[1:, 0].copy()

    def __len__(self) -> int:
        return len(self.diagonal)

    def values(self) -> Array:
        """Return the eigenvalues, none below zero, the smallest first."""
        if len(self) < 2:
            return np.maximum(self.diagonal, 0.0)
        return np.maximum(lapack.dsterf(self.diagonal, self.beside)[0], 0.0)

    def turned(self, vectors: Array) -> Array:
        """Return Qᵀ times columns. The reflectors do not change the first row and are those of a QR of the rest."""
        if not len(self.tau):
            return vectors
        turned = np.array(vectors, order="F")
        below = np.asfortranarray(self.reflectors[1:, :-1])
        turned[1:] = lapack.dormqr("L", "T", below, self.tau, turned[1:], 64 * len(self))[0]
        return turned

    @cached_property
    def basis(self) -> Array | None:
        """Q less its first row and column, which are those of the identity; None where Q is the identity."""
        if not len(self.tau):
            return None
        below = np.asfortranarray(self.reflectors[1:, :-1])
        return lapack.dorgqr(below, self.tau, lwork=64 * len(self), overwrite_a=1)[0]

    def solve(self, shift: float, vector: Array) -> Array:
        """Return (A + shift)⁻¹ times a vector, for many calls."""
        if self.basis is None:
            return self.shifted(shift, vector)[1]
        turned = np.concatenate([vector[:1], self.basis.T @ vector[1:]])
        solved = self.shifted(shift, turned)[1]
        solved[1:] = self.basis @ solved[1:]
        return solved

    def shifted(self, shift: float, vectors: Array) -> tuple[float, Array]:
        """Return log det(T + shift), and its inverse times columns; infinite for a shift below rounding errors of T."""
        if len(self) < 2:
            total = self.diagonal + shift
            return float(np.log(total).sum()), (vectors.T / total).T
        diagonal, beside, info = lapack.dpttrf(self.diagonal + shift, self.beside)
        if info:
            return math.inf, np.zeros_like(vectors)
        return float(np.log(diagonal).sum()), lapack.dpttrs(diagonal, beside, vectors)[0].reshape(vectors.shape)
