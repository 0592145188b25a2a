"""Automatic relevance determination: a ridge per group of weights, all learned by evidence.

MacKay (1992) and Tipping (2001): the variance of a group's prior is the sum of its squared weights over the number of
them that the rows determine. A group whose variance adds too little to the evidence is removed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from likely._solvers.design import Design
from likely._solvers.ridge import RidgeEvidence
from likely._typing import Array, Index


@dataclass(frozen=True)
class Relevance:
    """The result: for every column its weight and the variance of its prior (0: the weight is zero)."""

    coef: Array
    variance: Array
    noise: float
    active: Index  # columns whose weight is not zero
    n_iter: int


def relevant(design: Design, group: Index, *, max_iter: int, tol: float) -> Relevance:
    """Return the weights of highest evidence when each numbered group of columns has a separate prior variance.

    One of m variances is kept if it adds more than ½ log nm nats. The updates stop when no variance changes by more
    than ten times the share ``tol``.
    """
    strength = RidgeEvidence(design).best()
    variance = np.full(int(group.max(initial=-1)) + 1, strength.noise / strength.penalty)
    solver = _Groups(design, group, variance, strength.noise, max_iter, tol)
    price = 0.5 * math.log(max(design.rows * len(variance), 2.0))
    while True:
        solver.settle()
        if not solver.eliminate(price) or solver.n_iter >= max_iter:
            break
    active, mean, _ = solver.weights()
    coef = np.zeros(design.shape[1])
    coef[active] = mean
    return Relevance(coef, solver.variance[group], solver.noise, active, solver.n_iter)


@dataclass
class _Groups:
    design: Design
    group: Index
    variance: Array  # of each group
    noise: float
    max_iter: int
    tol: float
    n_iter: int = 0

    def weights(self) -> tuple[Index, Array, Array]:
        """Return the active columns, and mean and covariance of their weights at the present variances and noise."""
        design, variance = self.design, self.variance[self.group]
        active = np.flatnonzero(variance > 0)
        precision = design.gram_of(active) / self.noise
        precision[np.diag_indices(len(active))] += 1 / variance[active]
        covariance = linalg.cho_solve((linalg.cholesky(precision, lower=True), True), np.eye(len(active)))
        return active, covariance @ (design.xy[active] / self.noise), covariance

    def settle(self) -> None:
        """Run MacKay's updates of variances and noise until both converge."""
        design, groups = self.design, len(self.variance)
        for _ in range(self.max_iter):
            self.n_iter += 1
            if not self.variance.any():
                self.noise = design.yy / design.freedom
                return
            active, mean, covariance = self.weights()
            member = self.group[active]
            determined = 1 - covariance.diagonal() / self.variance[member]  # by the rows, not the prior
            gamma = np.bincount(member, determined, groups)
            square = np.bincount(member, mean**2, groups)
            variance = np.where(self.variance > 0, square / np.maximum(gamma, 1e-12), 0.0)
            variance[variance < 1e-8 * variance.max(initial=0.0)] = 0.0
            coef = np.zeros(design.shape[1])
            coef[active] = mean
            left = max(design.freedom - float(determined.sum()), 0.01 * design.freedom)
            noise = max(design.residual(coef) / left, 1e-14 * design.yy / design.freedom)
            positive = variance > 0
            moved = float(np.abs(np.log(variance[positive] / self.variance[positive])).max(initial=0.0))
            moved = max(moved, abs(math.log(noise / self.noise)))
            self.variance, self.noise = variance, noise
            if moved < self.tol * 10 or self.n_iter >= self.max_iter:
                return

    def eliminate(self, price: float) -> int:
        """Set variances to zero, the worst first, while one adds less evidence than its price; return how many."""
        active, mean, covariance = self.weights()
        member = self.group[active]
        variance = self.variance[member]
        remaining, removed = np.ones(len(variance), dtype=bool), 0
        while remaining.any():
            posterior = covariance.diagonal()[remaining]
            gains = 0.5 * (mean[remaining] ** 2 / posterior - np.log(variance[remaining] / posterior))
            gain = np.bincount(member[remaining], gains, len(self.variance))
            gain[self.variance == 0] = np.inf
            worst = int(np.argmin(gain))
            if gain[worst] >= price:
                break
            for j in np.flatnonzero(remaining & (member == worst)):
                # The posterior of the other weights given that this one is zero.
                column = covariance[:, j] / covariance[j, j]
                mean = mean - column * mean[j]
                covariance = covariance - np.outer(column, covariance[j])
                remaining[j] = False
            self.variance[worst] = 0.0
            removed += 1
        return removed
