"""Lassos that learn the scale of their Laplace prior: one for all weights, or one per weight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from likely._solvers.design import Design
from likely._solvers.sparse import LassoFit, lasso_by_validation, reweighted_lasso
from likely._typing import Array
from likely.linear._base import DynamicLinearModel


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

    _sparse = True

    def __init__(self, *, fit_intercept: bool = True, penalty_weights: Any = None, tol: float = 5e-2) -> None:
        super().__init__(fit_intercept=fit_intercept, penalty_weights=penalty_weights)
        self.tol = tol

    def _solve(self, design: Design) -> Array:
        fit = lasso_by_validation(design.distinct.design, tol=self.tol)
        self.prior_scale_: Any = fit.noise / fit.strength if fit.strength else math.inf
        return self._shared(design, fit)

    def _shared(self, design: Design, fit: LassoFit) -> Array:
        distinct = design.distinct
        self.sigma_, self.penalty_, self.n_iter_ = math.sqrt(fit.noise), fit.strength, fit.n_iter
        self._posterior = distinct.posterior(fit.noise, fit.active)
        return distinct.shared(fit.coef)


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

    def __init__(
        self,
        *,
        concentration: float = 3.0,
        fit_intercept: bool = True,
        penalty_weights: Any = None,
        tol: float = 5e-2,
    ) -> None:
        super().__init__(fit_intercept=fit_intercept, penalty_weights=penalty_weights, tol=tol)
        self.concentration = concentration

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
