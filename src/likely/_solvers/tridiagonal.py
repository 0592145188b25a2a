"""A symmetric matrix made tridiagonal once, to solve systems with any multiple of the identity added."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from likely._typing import Array


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
        """Return the eigenvalues, none below zero."""
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
