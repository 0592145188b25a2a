r"""The strength of a ridge by evidence: the probability of the rows with the weights integrated out (MacKay 1992).

In the eigenbasis of the curvature, with eigenvalues :math:`e_j` and response :math:`r_j`, the evidence of every
precision :math:`\lambda` of the prior :math:`w_j \sim N(0, 1/\lambda)` is a sum, so the best one is found by a search
over the whole line instead of a fixed-point iteration, which may end in a local optimum:

.. math:: \log p(\lambda) = \tfrac12 \sum_j \left(\frac{r_j^2}{e_j + \lambda} - \log(1 + e_j / \lambda)\right)
          - \text{rate} \cdot s, \qquad s = \sqrt{d / \lambda}.

:math:`s` is the spread of predictions over the rows that the prior allows. Its prior is an exponential, with its mode
at the base model :math:`w = 0`: on few rows the evidence alone overestimates the spread.

Automatic relevance determination has a ridge per group of weights (MacKay 1992; Tipping 2001): the variance of the
prior of a group is the sum of its squared weights over the number of them that the rows determine. A group whose
variance adds too little to the evidence is removed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize
from torch import Tensor

from likely._solvers.design import Design
from likely._typing import Array, Index

# Nats that a unit of spread of u costs where a scale or a temperature is predicted. One prior serves both. Gains in
# held-out NLL over the constant parameter, mean (and worst) of 3 to 20 splits, with exp(-8 s) and with the half-normal
# of scale .15 that temperatures had before; at a rate of 4 more splits of 250 rows get worse, at 16 gains are lost:
#     temperatures   LeNet-5, 2500 rows     .0017 ( .0012)    .0018 ( .0013)
#                    LeNet-5, 250           .0000 ( .0000)    .0000 (-.0001)
#                    cleanlab CIFAR, 2500   .0020 ( .0019)    .0021 ( .0019)
#                    SVHN, features, 2500   .0033 ( .0033)    .0031 ( .0031)
#                    ResNet-20, the same    .0000 (-.0003)    .0002 (-.0001)
#     scales         protein, 1000          .0159 ( .0000)    .0143 ( .0000)
#                    red wine, 127          .0009 (-.0064)   -.0014 (-.0239)
#                    Boston, 127            .0642 (-.0274)    .0685 (-.0380)
RATE = 8.0


@dataclass(frozen=True)
class Ridge:
    """A normal prior of weights, an exponential prior of their spread, and the precision of highest evidence."""

    spread: float  # s² at precision one
    rate: float = 0.0  # nats that a unit of spread costs

    def cost(self, values: Array, precision: float) -> float:
        """Return the cost of a precision in nats: the volume of weights it allows, and the prior of their spread."""
        return float(0.5 * np.log1p(values / precision).sum() + self.rate * math.sqrt(self.spread / precision))

    def best(self, values: Array, response: Array, *, around: float = math.inf, radius: float = 2.0) -> float:
        """Return the precision of highest evidence for a parabola."""
        top = float(values.max(initial=0.0))
        if top <= 0:
            return math.inf

        def loss(log_precision: float) -> float:
            precision = math.exp(log_precision)
            return self.cost(values, precision) - float(0.5 * (response**2 / (values + precision)).sum())

        if math.isfinite(around):
            return math.exp(_polished(loss, math.log(around) - radius, math.log(around) + radius))
        lowest = lowest_on(loss, np.linspace(math.log(top) - 16, math.log(top) + 12, 113))
        return math.inf if loss(lowest) >= 0 else math.exp(lowest)


def lowest_on(cost: Callable[[float], float], grid: Array) -> float:
    """Return where the cost is lowest: near the lowest point of the grid, or at an end of the grid if that is it."""
    k = int(np.argmin([cost(x) for x in grid]))
    return float(grid[k]) if k in (0, len(grid) - 1) else _polished(cost, grid[k - 1], grid[k + 1])


def _polished(cost: Callable[[float], float], low: float, high: float) -> float:
    result = optimize.minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 1e-6})
    return float(result.x)


@dataclass(frozen=True)
class Strength:
    """One strength λ of a ridge, with the optimal noise and prior mean for it."""

    penalty: float  # λ = σ² / τ²
    noise: float  # σ²
    prior_mean: float  # μ
    log_evidence: float


class RidgeEvidence:
    """The evidence of every strength of a ridge, with the optimal noise (and prior mean) for each.

    The Gram matrix is tridiagonal (see :class:`Design`), so that a strength costs O(d).
    """

    def __init__(self, design: Design, learn_mean: bool = False) -> None:
        n, d = design.shape
        self.freedom, self.evaluations = design.freedom, 0
        # By columns, the residual is what is left of y; by rows, it is λ times a product with the inverse.
        self.by_columns = d <= n
        vectors = np.column_stack([design.y, design.x.sum(1)]) if learn_mean else design.y[:, None]
        self.inner = vectors.T @ vectors
        self.reduced = design.reduced
        self.vectors = self.reduced.turned(design.x.T @ vectors if self.by_columns else vectors)
        self.size = max(float(np.trace(design.smaller)) / min(n, d), 1e-300) if d else 1.0
        self.floor = max(design.yy, 1e-300) / self.freedom * 1e-20
        self.learn_mean = learn_mean
        # At the ends of the grid rows are fitted exactly, or not at all.
        self.grid = math.log(self.size) + np.linspace(-18, 14, 25)

    def at(self, penalty: float) -> Strength:
        """Return the noise, the prior mean and the log evidence at a strength."""
        self.evaluations += 1
        log_det, solved = self.reduced.shifted(penalty, self.vectors)
        product = self.vectors.T @ solved
        left = self.inner - product if self.by_columns else penalty * product
        mean, residual = 0.0, left[0, 0]
        if self.learn_mean and left[1, 1] > 1e-12 * self.inner[1, 1]:
            mean = left[0, 1] / left[1, 1]
            residual -= left[0, 1] * mean
        noise = max(residual / self.freedom, self.floor)
        log_volume = log_det - len(self.reduced) * math.log(penalty)
        log_evidence = -0.5 * (self.freedom * (math.log(2 * math.pi * noise) + 1) + log_volume)
        return Strength(penalty, noise, mean, log_evidence)

    def best(self) -> Strength:
        """Return the strength of highest evidence on the whole line."""
        return self.at(math.exp(lowest_on(lambda x: -self.at(math.exp(x)).log_evidence, self.grid)))


def settled_log_scale(log_scale: Tensor, total: Tensor, ratio: Callable[[Tensor], Tensor], power: int) -> Tensor:
    r"""Return the logarithm of MacKay's scale :math:`\sigma^p = \sum|\theta|^p / \gamma(\sigma)`, by damped steps.

    :math:`\gamma = \sum_j q_j / (1 + q_j)` counts the directions that the rows determine; it never exceeds the number
    of weights, and with the number of weights in its place scales collapse. ``total`` is Σ|θ|ᵖ with p = ``power``, 2
    for a normal prior and 1 for a Laplace prior; ``ratio`` returns q, the information of every direction over the
    prior's precision, at a scale. The result is not finite where the weights are all zero or NaN.
    """
    for _ in range(60):
        q = ratio(log_scale.exp())
        log_scale = 0.5 * (log_scale + (total / (q / (1 + q)).sum()).log() / power)
    return log_scale


@dataclass
class Groups:
    """Prior variances of numbered groups of columns, and the noise, which are updated in place."""

    design: Design
    group: Index
    variance: Array  # of each group
    noise: float
    max_iter: int
    tol: float
    n_iter: int = 0
    unused: float = 0.0  # degrees of freedom that are left
    scales_count: bool = (
        True  # as parameters, like weights, so that the choice among many is not made by too small a noise
    )

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
                self.noise, self.unused = design.yy / design.freedom, design.freedom
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
            spent = float(gamma.sum() + (np.minimum(gamma, 1.0).sum() if self.scales_count else 0.0))
            self.unused = max(design.freedom - spent, 0.01 * design.freedom)
            most = design.yy / design.freedom
            noise = min(max(design.residual(coef) / self.unused, 1e-14 * most), most)
            positive = variance > 0
            moved = float(np.abs(np.log(variance[positive] / self.variance[positive])).max(initial=0.0))
            moved = max(moved, abs(math.log(noise / self.noise)))
            self.variance, self.noise = variance, noise
            if moved < self.tol * 10 or self.n_iter >= self.max_iter:
                return

    def log_evidence(self) -> float:
        """Return the log evidence of the present variances and noise."""
        active, mean, covariance = self.weights()
        volume = float(np.log(self.variance[self.group[active]]).sum() - np.linalg.slogdet(covariance)[1])
        noise = max(self.noise, 1e-300)  # zero for a constant target
        squares = (self.design.yy - float(self.design.xy[active] @ mean)) / noise
        return -0.5 * (self.design.freedom * math.log(2 * math.pi * noise) + volume + squares)

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
