"""Ridge regressions, which learn the scale of a normal prior from the evidence: one, or one per group of weights."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaln, expit

from likely._solvers.design import Design, Posterior
from likely._solvers.ridge import Groups, RidgeEvidence, Strength
from likely._typing import Array, Index
from likely.linear._base import DynamicLinearModel


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


@dataclass(kw_only=True, eq=False, repr=False)
class DynamicRidge(DynamicLinearModel):
    r"""Ridge regression that learns the scale of its normal prior and the noise (Dynamic Ridge, D-Ridge).

    :math:`y \sim N(Xw, \sigma^2)`, :math:`w_j \sim N(\mu, \tau^2)`, with columns in units of their deviations.
    Minimising over w, σ and τ together has no minimum; instead the weights are integrated out, and σ and τ maximise the
    evidence. The Gram matrix is made tridiagonal once; every strength :math:`\lambda = \sigma^2/\tau^2` then costs
    O(d), so that the whole line of them is searched.

    Args:
        fit_intercept: whether to fit an intercept, which has no prior.
        prior_mean: ``"zero"``, or ``"learned"`` for a mean μ of the prior that is learned too.
        penalty_weights: array of shape (d,) with a factor ≥ 0 per column that multiplies its penalty; 0 leaves the
            column unpenalised, None is one for all.

    Attributes:
        coef_: weights, shape (d,).
        intercept_: intercept.
        sigma_: standard deviation σ of the noise.
        prior_scale_: scale τ of the prior, for columns of deviation one.
        prior_mean_: mean μ of the prior.
        penalty_: strength λ of the ridge.
        evidence_: log evidence.
        n_iter_: number of strengths evaluated.

    Example:
        >>> import numpy as np
        >>> from likely.linear import DynamicRidge
        >>> rng = np.random.default_rng(0)
        >>> X, w = rng.normal(size=(200, 50)), rng.normal(size=50)
        >>> ridge = DynamicRidge().fit(X, X @ w + 3 * rng.normal(size=200))
        >>> round(ridge.sigma_, 1), round(ridge.prior_scale_, 1)
        (2.8, 1.1)
        >>> mean, std = ridge.predict(X[:1], return_std=True)

    See Also:
        :class:`MultiRidge`, with a scale per weight; :class:`DynamicRegression`, which chooses the prior;
        :class:`sklearn.linear_model.BayesianRidge`, which finds the scale by iteration.
    """

    _power = 0.5

    fit_intercept: bool = True
    prior_mean: str = "zero"
    penalty_weights: Any = None

    def _solve(self, design: Design) -> Array:
        if self.prior_mean not in ("zero", "learned"):
            raise ValueError(f"prior_mean must be 'zero' or 'learned', got {self.prior_mean!r}")
        evidence = RidgeEvidence(design, learn_mean=self.prior_mean == "learned")
        fit = fit_ridge(evidence, design)
        best = fit.best
        self.penalty_, self.prior_mean_, self.evidence_ = best.penalty, best.prior_mean, best.log_evidence
        self.n_iter_ = evidence.evaluations
        self.sigma_ = math.sqrt(best.noise)
        self.prior_scale_ = math.sqrt(best.noise / best.penalty)
        self._posterior = fit.posterior(design)
        return fit.coef


@dataclass(kw_only=True, eq=False, repr=False)
class MultiRidge(DynamicLinearModel):
    r"""Ridge regression that learns a prior scale per weight, or per group of weights (Multi Ridge, M-Ridge).

    :math:`w_j \sim N(0, \tau_{g(j)}^2)`. All scales maximise the evidence together (automatic relevance determination).
    On n rows, one of m scales is kept only if it adds more than :math:`\frac12 \log nm` nats to the evidence, the price
    of a selected parameter; the weights of the others are zero. If the scales that are kept do not pay for their
    selection, as on few rows of noise, all weights share one scale.

    Args:
        groups: array of shape (d,) with the group of each column; None for a scale per column.
        fit_intercept: whether to fit an intercept, which has no prior.
        penalty_weights: array of shape (d,) with a factor ≥ 0 per column that multiplies its penalty; 0 leaves the
            column unpenalised, None is one for all.
        max_iter: maximum number of updates of the scales.
        tol: the updates stop when no scale's variance changes by more than ten times this share.

    Attributes:
        coef_: weights, shape (d,).
        intercept_: intercept.
        sigma_: standard deviation of the noise.
        prior_scale_: scale τ of each weight's prior, shape (d,), for columns of deviation one; 0 where the weight is
            zero.
        n_iter_: updates made.

    Example:
        >>> import numpy as np
        >>> from likely.linear import MultiRidge
        >>> rng = np.random.default_rng(0)
        >>> X, w = rng.normal(size=(200, 50)), np.zeros(50)
        >>> w[:3] = 2, -1, 1
        >>> model = MultiRidge().fit(X, X @ w + 0.5 * rng.normal(size=200))
        >>> model.coef_[:3].round(2), int((model.coef_ != 0).sum())
        (array([ 1.99, -0.97,  0.98]), 3)

    See Also:
        :class:`DynamicRidge`, with one scale; :class:`sklearn.linear_model.ARDRegression`.
    """

    _power = 0.5

    groups: Any = None
    fit_intercept: bool = True
    penalty_weights: Any = None
    max_iter: int = 100
    tol: float = 1e-3

    def _solve(self, design: Design) -> Array:
        columns = len(design.mean)
        names = np.arange(columns) if self.groups is None else np.asarray(self.groups)
        if names.shape != (columns,):
            raise ValueError(f"groups must have shape ({columns},), one group per column of X; got {names.shape}")
        # Columns that are multiples of one another can only have one scale between them.
        whole, distinct = design, design.distinct
        design = distinct.design if self.groups is None else design
        group = np.unique(names[design.live], return_inverse=True)[1]
        fit = relevant(design, group, max_iter=self.max_iter, tol=self.tol)
        self.sigma_, self.n_iter_ = math.sqrt(fit.noise), fit.n_iter
        scale, coef = np.sqrt(fit.variance), fit.coef
        self.prior_scale_ = np.zeros(columns)
        if self.groups is None:
            self._posterior = distinct.posterior(fit.forecast, fit.active)
            self.prior_scale_[whole.live] = scale[distinct.member] / np.sqrt(distinct.count)
            coef = distinct.shared(coef)
        else:
            self._posterior = Posterior(design, fit.forecast, 0.0, fit.active)
            self.prior_scale_[design.live] = scale
        diagonal = np.diag_indices(len(fit.active))
        self._posterior.matrix[diagonal] += fit.forecast / fit.variance[fit.active]
        return coef
