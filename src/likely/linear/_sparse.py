"""Sparse regressions that learn their prior: Laplace of one scale or one per weight, or a spike and slab."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from likely._solvers.design import Design, Posterior
from likely._solvers.ridge import RidgeEvidence
from likely._solvers.sparse import (
    LassoFit,
    Spectrum,
    SpikeSlabFit,
    Start,
    lasso_by_validation,
    reweighted_lasso,
    spike_slab,
)
from likely._typing import Array
from likely.linear._base import DynamicLinearModel
from likely.linear._ridge import RidgeFit, fit_ridge

_EASY_ITERATIONS = 25  # iterations; a fit that takes more may be stuck, and other starts are tried too


@dataclass(kw_only=True, eq=False, repr=False)
class DynamicLasso(DynamicLinearModel):
    r"""Lasso that learns the scale of its Laplace prior and the noise (Dynamic Lasso, D-LASSO).

    :math:`y \sim N(Xw, \sigma^2)`, :math:`w_j \sim \mathrm{Laplace}(0, b)`: the most probable weights minimise
    :math:`|y - Xw|^2/2 + \lambda|w|_1` with :math:`\lambda = \sigma^2/b`. Minimising over b as well has no minimum, and
    the evidence of b is that of dense weights; so a path of lassos, each started from the last, is followed down from
    zero weights until the generalised cross-validation error stops improving. X may be sparse.

    Args:
        fit_intercept: whether to fit an intercept, which has no prior.
        penalty_weights: array of shape (d,) with a factor ≥ 0 per column that multiplies its penalty; 0 leaves the
            column unpenalised (for a dense X only), None is one for all.
        tol: duality gap at which each lasso of the path stops, as a share of its residual sum of squares; the final one
            is solved far more precisely.

    Attributes:
        coef_: weights, shape (d,).
        intercept_: intercept.
        sigma_: standard deviation σ of the noise.
        prior_scale_: scale b of the prior, for columns of deviation one.
        penalty_: strength λ.
        n_iter_: iterations of coordinate descent.

    Example:
        >>> import numpy as np
        >>> from likely.linear import DynamicLasso
        >>> rng = np.random.default_rng(0)
        >>> X, w = rng.normal(size=(200, 100)), np.zeros(100)
        >>> w[:3] = 2, -1, 1
        >>> lasso = DynamicLasso().fit(X, X @ w + 0.5 * rng.normal(size=200))
        >>> lasso.coef_[:3].round(1)
        array([ 1.9, -1. ,  1. ])

    See Also:
        :class:`MultiLasso`, which shrinks large weights less; :class:`SpikeSlabRegression`;
        :class:`sklearn.linear_model.LassoCV`, which selects λ by cross-validation.
    """

    _accept_sparse = ("csr", "csc")

    fit_intercept: bool = True
    penalty_weights: Any = None
    tol: float = 5e-2

    def _solve(self, design: Design) -> Array:
        fit = lasso_by_validation(design.distinct.design, tol=self.tol)
        self.prior_scale_: Any = fit.noise / fit.strength if fit.strength else math.inf
        return self._shared(design, fit)

    def _shared(self, design: Design, fit: LassoFit) -> Array:
        distinct = design.distinct
        self.sigma_, self.penalty_, self.n_iter_ = math.sqrt(fit.noise), fit.strength, fit.n_iter
        self._posterior = distinct.posterior(fit.forecast, fit.active)
        return distinct.shared(fit.coef)


@dataclass(kw_only=True, eq=False, repr=False)
class MultiLasso(DynamicLasso):
    r"""Lasso that learns a prior scale per weight (Multi Lasso, M-LASSO).

    :math:`w_j \sim \mathrm{Laplace}(0, b_j)` with an inverse-gamma hyperprior on every :math:`b_j`, without which all
    scales fall to zero with their weights. Then :math:`b_j = (|w_j| + \epsilon)/c`, so that large weights are hardly
    shrunk, and ε is such that noise on d columns lifts no weight from zero. It starts from the Dynamic Lasso.

    Args:
        concentration: c of the hyperprior; higher values shrink large weights more.
        fit_intercept: whether to fit an intercept, which has no prior.
        penalty_weights: array of shape (d,) with a factor ≥ 0 per column that multiplies its penalty; 0 leaves the
            column unpenalised (for a dense X only), None is one for all.
        tol: duality gap at which each lasso of the initial path stops, as a share of its residual sum of squares.

    Attributes:
        coef_: weights, shape (d,).
        intercept_: intercept.
        sigma_: standard deviation of the noise.
        prior_scale_: scale of each weight's prior, shape (d,), for columns of deviation one.
        penalty_: :math:`c \sigma^2`; over :math:`|w_j| + \epsilon` it is the strength on each weight.
        n_iter_: iterations of coordinate descent.

    Example:
        >>> import numpy as np
        >>> from likely.linear import MultiLasso
        >>> rng = np.random.default_rng(0)
        >>> X, w = rng.normal(size=(200, 100)), np.zeros(100)
        >>> w[:3] = 2, -1, 1
        >>> lasso = MultiLasso().fit(X, X @ w + 0.5 * rng.normal(size=200))
        >>> lasso.coef_[:3].round(1), bool((lasso.coef_ != 0).sum() < 6)
        (array([ 2. , -1.1,  1. ]), True)

    See Also:
        :class:`DynamicLasso`, with one scale; :class:`SpikeSlabRegression`.
    """

    concentration: float = 3.0

    def _solve(self, design: Design) -> Array:
        if not self.concentration > 0:
            raise ValueError(f"concentration must be positive, got {self.concentration}")
        distinct = design.distinct
        start = lasso_by_validation(distinct.design, tol=self.tol)
        fit = reweighted_lasso(distinct.design, start, concentration=self.concentration)
        self.prior_scale_ = np.zeros(len(design.mean))
        if fit.scale is not None:
            self.prior_scale_[design.live] = fit.scale[distinct.member] / distinct.count
        return self._shared(design, fit)


@dataclass(kw_only=True, eq=False, repr=False)
class SpikeSlabRegression(DynamicLinearModel):
    r"""Sparse regression under a spike and slab prior: each weight is zero, or has a learned magnitude and sign.

    :math:`w_j = 0` with probability :math:`1 - \pi`; else :math:`|w_j|` is about :math:`N(\mu, \tau^2)` and its sign
    positive with probability η. π, η, μ, τ and the noise σ maximise the evidence; the posterior is approximated by
    expectation consistency (vector approximate message passing, VAMP). One μ covers dense weights, weights of one sign,
    and weights of similar size and either sign. Where the first solution needed many iterations others are computed,
    one of them from Multi Lasso, and the one of highest evidence is kept. Where it has less evidence than a normal
    prior of all weights, as on few rows of noise, the weights are those of :class:`DynamicRidge` (π is 1, μ 0).

    Args:
        fit_intercept: whether to fit an intercept, which has no prior.
        penalty_weights: array of shape (d,) with a factor ≥ 0 per column that divides the scale of its prior; 0 leaves
            the column without a prior, None is one for all.
        max_iter: maximum number of iterations from each start.
        tol: iterations stop when the weights change by less than this share.

    Attributes:
        coef_: posterior means of the weights, shape (d,).
        intercept_: intercept.
        inclusion_: probability of each weight not to be zero, shape (d,).
        sigma_: standard deviation σ of the noise.
        prior_share_: share π of weights that are not zero.
        prior_positive_: share η of those that are positive.
        prior_mean_: mean magnitude μ.
        prior_scale_: scale τ of the magnitudes, for columns of deviation one.
        evidence_: log evidence.
        n_iter_: iterations of the solution that was kept.

    Example:
        >>> import numpy as np
        >>> from likely.linear import SpikeSlabRegression
        >>> rng = np.random.default_rng(0)
        >>> X, w = rng.normal(size=(60, 100)), np.zeros(100)
        >>> w[:10] = rng.uniform(1, 2, size=10)
        >>> model = SpikeSlabRegression().fit(X, X @ w + 0.1 * rng.normal(size=60))
        >>> round(model.prior_share_, 2), int((model.inclusion_ > 0.5).sum())
        (0.1, 10)
        >>> bool(np.abs(model.coef_ - w).max() < 0.1)
        True

    See Also:
        :class:`MultiLasso`, faster on many columns; :class:`DynamicRegression`, which compares this prior with others.
    """

    fit_intercept: bool = True
    penalty_weights: Any = None
    max_iter: int = 300
    tol: float = 1e-4

    def _solve(self, design: Design) -> Array:
        fit, ridge = likeliest(design, max_iter=self.max_iter, tol=self.tol), fit_ridge(RidgeEvidence(design), design)
        self.inclusion_ = np.zeros(len(design.mean))
        if fit is None or fit.evidence < ridge.log_evidence:
            return self._dense(design, ridge)
        self.inclusion_[design.live] = fit.moments.inclusion
        self.sigma_ = math.sqrt(fit.noise)
        self.prior_share_, self.prior_positive_ = fit.slab.share, fit.slab.positive
        self.prior_mean_, self.prior_scale_ = fit.slab.mean, math.sqrt(fit.slab.variance)
        self.evidence_, self.n_iter_ = fit.evidence, fit.n_iter
        noise = design.widened(fit.noise, design.unused(fit.precision * fit.noise))
        # The slab has three parameters that a normal prior of all weights has not: its noise may be too small.
        noise = ridge.averaged(fit.evidence - 1.5 * math.log(design.rows) - ridge.log_evidence, noise)
        self._posterior = Posterior(design, noise, fit.precision * noise)
        return design.distinct.evened(fit.moments.mean)

    def _dense(self, design: Design, ridge: RidgeFit) -> Array:
        """Set what is learned where no spike is supported: the slab is normal, and no weight is zero."""
        best, self.n_iter_ = ridge.best, 1
        self.inclusion_[design.live] = 1.0
        self.sigma_, self.prior_share_, self.prior_positive_ = math.sqrt(best.noise), 1.0, 0.5
        self.prior_mean_, self.prior_scale_ = 0.0, math.sqrt(best.noise / best.penalty)
        self.evidence_ = best.log_evidence
        self._posterior = ridge.posterior(design)
        return ridge.coef


def likeliest(design: Design, *, max_iter: int = 300, tol: float = 1e-4) -> SpikeSlabFit | None:
    """Return the spike and slab of highest evidence from several starts; None where there is no signal."""
    if design.shape[1] == 0 or design.yy <= 0 or not np.abs(design.xy).any():
        return None
    spectrum = Spectrum(design)
    settings: dict[str, Any] = {"max_iter": max_iter, "tol": tol}
    fits = [spike_slab(design, spectrum, **settings)]
    dense = fits[0].slab.share > 0.9  # no sparse start would end elsewhere
    if fits[0].converged and (fits[0].n_iter <= _EASY_ITERATIONS or dense):
        return fits[0]
    distinct = design.distinct
    sparse = reweighted_lasso(distinct.design, lasso_by_validation(distinct.design))
    starts: list[dict[str, Any]] = [
        {"humps": 0.0, "damping": 0.5},
        {"damping": 0.3},
        {"humps": 0.98, "hold": 15, "share": 0.4},
        {"humps": 0.98, "hold": 15, "share": 0.5},
    ]
    if sparse.coef.any():
        starts.append({"start": Start.from_weights(design, distinct.shared(sparse.coef), sparse.noise), "damping": 0.5})
    fits += [spike_slab(design, spectrum, **start, **settings) for start in starts]
    converged = [fit for fit in fits if fit.converged]
    if not converged:  # near a phase transition convergence is slow: the fit of least noise is the furthest along
        return min((fit for fit in fits if np.isfinite(fit.moments.mean).all()), key=lambda fit: fit.noise)
    return max(converged, key=lambda fit: fit.evidence)
