"""What normal priors learn: one scale, with what all scales together forecast, or one per group of weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, expit

from likely._solvers.design import Design, Posterior
from likely._solvers.ridge import Groups, RidgeEvidence, Strength
from likely._typing import Array, Index


@dataclass(frozen=True)
class RidgeFit:
    """A ridge at its best strength, beside all strengths, of which R² is uniform from 0 to 1.

    With as many columns as rows a strength that leaves no noise may be the best by little, and its noise then says
    nothing of new rows; the mean over all strengths does.
    """

    best: Strength
    coef: Array
    forecast: float  # variance of the noise of new rows
    log_evidence: float  # of all strengths together

    def averaged(self, gain: float, noise: float) -> float:
        """Return the noise of new rows under another prior, of so much more evidence, and under this one together."""
        return noise + float(expit(-gain)) * max(self.forecast - noise, 0.0)

    def posterior(self, design: Design) -> Posterior:
        """Return the posterior of the weights for new rows: with that noise, and the prior of the best strength."""
        return Posterior(design, self.forecast, self.best.penalty * self.forecast / self.best.noise)


def fit_ridge(evidence: RidgeEvidence, design: Design) -> RidgeFit:
    """Return the weights at the strength of highest evidence, and what all strengths together forecast."""
    best = evidence.best()
    near = math.log(best.penalty) + 0.8 * np.linspace(-1, 1, 17) ** 3
    line = np.unique(np.concatenate([evidence.grid, near]))
    strengths = [evidence.at(math.exp(x)) for x in line]
    half = math.log(max(design.shape[1], 1))  # log λ at which the prior expects to explain half of the target
    log_share = np.array([strength.log_evidence for strength in strengths])
    log_share -= np.logaddexp(0, line - half) + np.logaddexp(0, half - line)
    share = np.exp(log_share - log_share.max()) * np.gradient(line)
    noise = max(best.noise, float(share @ [strength.noise for strength in strengths] / share.sum()))
    target = design.y - best.prior_mean * design.x.sum(1) if best.prior_mean else design.y
    coef = best.prior_mean + Posterior(design, best.noise, best.penalty).mean(design.x.T @ target)
    forecast = design.widened(noise, design.unused(best.penalty))
    return RidgeFit(best, coef, forecast, float(log_share.max() + math.log(share.sum())))


@dataclass(frozen=True)
class Relevance:
    """For every column its weight and the variance of its prior (0: the weight is zero)."""

    coef: Array
    variance: Array
    noise: float
    forecast: float  # variance of the noise of new rows
    active: Index  # columns whose weight is not zero
    n_iter: int


def relevant(design: Design, group: Index, *, max_iter: int, tol: float) -> Relevance:
    """Return the weights of highest evidence when each numbered group of columns has a separate prior variance.

    One of m variances is kept if it adds more than ½ log nm nats. The updates stop when no variance changes by more
    than ten times the share ``tol``. Where the k that are kept do not add a nat each and the price of their choice, the
    logarithm of m over k, to the evidence of one variance for all, all have that one.
    """
    ridge, m = fit_ridge(RidgeEvidence(design), design), int(group.max(initial=-1)) + 1
    shared = ridge.best.noise / ridge.best.penalty
    solver = Groups(design, group, np.full(m, shared), ridge.forecast, max_iter, tol)
    price = 0.5 * math.log(max(design.rows * m, 2.0))
    solver.settle()
    while solver.eliminate(price):
        solver.settle()
    kept = np.count_nonzero(solver.variance)
    choice = betaln(kept + 1, m - kept + 1) + math.log(m + 1)  # minus the logarithm of m over k
    gain = solver.log_evidence() - kept + choice - ridge.log_evidence
    if gain < 0 < design.yy:
        everything = np.arange(design.shape[1])
        variance = np.full(len(everything), shared)
        return Relevance(ridge.coef, variance, ridge.best.noise, ridge.forecast, everything, solver.n_iter)
    forecast = ridge.averaged(gain, design.widened(solver.noise, solver.unused))
    solver.scales_count = False
    solver.settle()
    active, mean, _ = solver.weights()
    coef = np.zeros(design.shape[1])
    coef[active] = mean
    return Relevance(coef, solver.variance[group], solver.noise, forecast, active, solver.n_iter)
