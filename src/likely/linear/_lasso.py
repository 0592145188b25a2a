"""Lassos that learn the scale of their Laplace prior: one for all weights, or one for each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from likely._solvers.design import Design
from likely._solvers.sparse import LassoFit, lasso_by_validation, reweighted_lasso
from likely._typing import Array
from likely.linear._base import DynamicLinearModel


class DynamicLasso(DynamicLinearModel):
    r"""Dynamic Lasso (D-LASSO): least squares under a Laplace prior whose scale is learned.

    :math:`y \sim N(Xw, \sigma^2)`, :math:`w_j \sim \mathrm{Laplace}(0, b)`: the most probable weights minimise
    :math:`|y - Xw|^2/2 + \lambda|w|_1` with :math:`\lambda = \sigma^2/b`. Minimising over b as well has no minimum, and
    the evidence of b is that of dense weights; so one path of lassos, each started from the last, is followed down
    from zero weights until the generalised cross-validation error stops improving. X may be sparse.

    Learned: ``coef_``, ``intercept_``, ``sigma_`` (σ), ``prior_scale_`` (b, for columns of deviation one),
    ``penalty_`` (λ).

    >>> import numpy as np
    >>> from likely.linear import DynamicLasso
    >>> rng = np.random.default_rng(0)
    >>> X, w = rng.normal(size=(200, 100)), np.zeros(100)
    >>> w[:3] = 2, -1, 1
    >>> lasso = DynamicLasso().fit(X, X @ w + 0.5 * rng.normal(size=200))
    >>> lasso.coef_[:3].round(1)
    array([ 1.9, -1. ,  1. ])
    """

    _sparse = True

    def __init__(
        self, *, fit_intercept: bool = True, penalty_weights: Any = None, warm_start: bool = False, tol: float = 5e-2
    ) -> None:
        super().__init__(fit_intercept=fit_intercept, penalty_weights=penalty_weights)
        self.warm_start = warm_start
        self.tol = tol

    def _solve(self, design: Design) -> Array:
        found = self._fitted(design)
        self.prior_scale_: Any = found.noise / found.strength if found.strength else math.inf
        return self._shared(design, found)

    def _fitted(self, design: Design) -> LassoFit:
        """The lasso of distinct columns, from the last fit where that is wanted."""
        distinct, start = design.distinct.design, None
        last: tuple[Array, float] | None = getattr(self, "_last", None) if self.warm_start else None
        if last is not None and len(last[0]) == len(design.mean):
            start = (last[0][distinct.live], last[1])
        found = lasso_by_validation(distinct, start=start, tol=self.tol)
        coef = np.zeros(len(design.mean))
        coef[distinct.live] = found.coef
        self._last = (coef, found.strength)
        return found

    def _shared(self, design: Design, found: LassoFit) -> Array:
        distinct = design.distinct
        self.sigma_, self.penalty_, self.n_iter_ = math.sqrt(found.noise), found.strength, found.n_iter
        self._posterior = distinct.posterior(found.noise, found.active)
        return distinct.shared(found.coef)


class MultiLasso(DynamicLasso):
    r"""Multi Lasso (M-LASSO): a Laplace prior whose scale is learned for each weight.

    :math:`w_j \sim \mathrm{Laplace}(0, b_j)` with an inverse-gamma hyperprior on every :math:`b_j`, without which all
    scales fall to zero with their weights. Then :math:`b_j = (|w_j| + \epsilon)/c`, so that what is large is hardly
    shrunk, and ε is such that noise on d columns lifts no weight from zero. Started from the Dynamic Lasso.

    Learned: what :class:`DynamicLasso` learns, with a ``prior_scale_`` for each weight.

    >>> import numpy as np
    >>> from likely.linear import MultiLasso
    >>> rng = np.random.default_rng(0)
    >>> X, w = rng.normal(size=(200, 100)), np.zeros(100)
    >>> w[:3] = 2, -1, 1
    >>> lasso = MultiLasso().fit(X, X @ w + 0.5 * rng.normal(size=200))
    >>> lasso.coef_[:3].round(1), bool((lasso.coef_ != 0).sum() < 6)
    (array([ 2. , -1.1,  1. ]), True)
    """

    def __init__(
        self,
        *,
        concentration: float = 3.0,
        fit_intercept: bool = True,
        penalty_weights: Any = None,
        warm_start: bool = False,
        tol: float = 5e-2,
    ) -> None:
        super().__init__(fit_intercept=fit_intercept, penalty_weights=penalty_weights, warm_start=warm_start, tol=tol)
        self.concentration = concentration

    def _solve(self, design: Design) -> Array:
        if not self.concentration > 0:
            raise ValueError(f"concentration must be positive, got {self.concentration}")
        distinct = design.distinct
        found = reweighted_lasso(distinct.design, self._fitted(design), concentration=self.concentration)
        self.prior_scale_ = np.zeros(len(design.mean))
        if found.scale is not None:
            self.prior_scale_[design.live] = found.scale[distinct.member] / distinct.count
        return self._shared(design, found)
