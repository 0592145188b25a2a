"""Ridge regressions that learn the scale of their normal prior from the evidence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from likely._rows.sources import source_of
from likely._solvers.design import Design, Posterior
from likely._solvers.relevance import relevant
from likely._solvers.ridge import RidgeEvidence
from likely._typing import Array
from likely.linear._base import DynamicLinearModel
from likely.linear._blocks import Summary

_PER_TARGET = ("coef_", "intercept_", "sigma_", "prior_scale_", "prior_mean_", "penalty_", "evidence_", "n_iter_")


class DynamicRidge(DynamicLinearModel):
    r"""Dynamic Ridge (D-Ridge): least squares under a normal prior whose scale is learned.

    :math:`y \sim N(Xw, \sigma^2)`, :math:`w_j \sim N(\mu, \tau^2)` in units of the columns' deviations. Minimising over
    w, σ and τ together has no minimum; the weights are integrated out instead, and σ, τ maximise what is left, the
    evidence. The Gram matrix is made tridiagonal once, and then every strength :math:`\lambda = \sigma^2/\tau^2`
    costs O(d), so that the whole line is searched. ``prior_mean="learned"`` frees :math:`\mu` too.

    Learned: ``coef_``, ``intercept_``, ``sigma_`` (σ), ``prior_scale_`` (τ), ``prior_mean_`` (μ), ``penalty_`` (λ) and
    ``evidence_``.

    >>> import numpy as np
    >>> from likely.linear import DynamicRidge
    >>> rng = np.random.default_rng(0)
    >>> X, w = rng.normal(size=(200, 50)), rng.normal(size=50)
    >>> ridge = DynamicRidge().fit(X, X @ w + 3 * rng.normal(size=200))
    >>> round(ridge.sigma_, 1), round(ridge.prior_scale_, 1)
    (2.8, 1.1)
    >>> mean, std = ridge.predict(X[:1], return_std=True)
    """

    _power = 0.5

    def __init__(self, *, fit_intercept: bool = True, prior_mean: str = "zero", penalty_weights: Any = None) -> None:
        super().__init__(fit_intercept=fit_intercept, penalty_weights=penalty_weights)
        self.prior_mean = prior_mean

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._targets: list[DynamicRidge] = []
        if source_of(X) is not None:
            super()._fit(X, y, sample_weight)
            self._gather_targets()
            return
        if getattr(y, "ndim", None) is None:
            y = np.asarray(y)
        if y.ndim != 2 or y.shape[1] == 1:
            super()._fit(X, y, sample_weight)
            return
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        self._targets = [clone(self).fit(X, y[:, k], sample_weight) for k in range(y.shape[1])]
        self._gather_targets()

    def _gather_targets(self) -> None:
        for name in _PER_TARGET if self._targets else ():
            setattr(self, name, np.array([getattr(each, name) for each in self._targets]))

    def _learn_summary(self, summary: Summary) -> None:
        if summary.factor.targets == 1:
            super()._learn_summary(summary)
            return
        penalty = self._check_penalty_weights(summary.head.columns)
        self._targets = [clone(self) for _ in range(summary.factor.targets)]
        for number, each in enumerate(self._targets):
            each._targets, each.n_features_in_ = [], summary.head.columns
            each._learn_design(summary.factor.design(self.fit_intercept, penalty, number))
            each.coef_ = each._line.coef
        self._line = self._targets[0]._line

    @property
    def _width(self) -> int | None:
        check_is_fitted(self)
        return len(self._targets) or None

    def _predicted(self, X: Any, return_std: bool) -> Any:
        check_is_fitted(self)
        if not self._targets:
            return super()._predicted(X, return_std)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        answers = [each.predict(X, return_std) for each in self._targets]
        return tuple(np.stack(part, 1) for part in zip(*answers, strict=True)) if return_std else np.stack(answers, 1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _solve(self, design: Design) -> Array:
        if self.prior_mean not in ("zero", "learned"):
            raise ValueError(f"prior_mean must be 'zero' or 'learned', got {self.prior_mean!r}")
        d = design.shape[1]
        evidence = RidgeEvidence(design, learn_mean=self.prior_mean == "learned")
        best = evidence.best()
        self.penalty_, self.prior_mean_, self.evidence_ = best.penalty, best.prior_mean, best.log_evidence
        self.n_iter_ = evidence.evaluations
        self.sigma_ = math.sqrt(best.noise)
        self.prior_scale_ = math.sqrt(best.noise / best.penalty)
        self._posterior = Posterior(design, best.noise, best.penalty)
        if not self.prior_mean_:
            return self._posterior.mean(design.xy)
        lifted = design.xy - design.x.T @ (design.x @ np.full(d, self.prior_mean_))
        return self.prior_mean_ + self._posterior.mean(lifted)


class MultiRidge(DynamicLinearModel):
    r"""Multi Ridge (M-Ridge): a normal prior whose scale is learned for each weight, or for each group of weights.

    :math:`w_j \sim N(0, \tau_{g(j)}^2)`. All scales maximise the evidence together (automatic relevance
    determination), and one of m scales is kept only if it is worth more than :math:`\frac12 \log nm` nats, the price
    of a parameter that had to be picked; the weights of the others are zero. ``groups`` names the group of each column;
    None gives each its own.

    Learned: ``coef_``, ``intercept_``, ``sigma_``, ``prior_scale_`` (τ of each weight).

    >>> import numpy as np
    >>> from likely.linear import MultiRidge
    >>> rng = np.random.default_rng(0)
    >>> X, w = rng.normal(size=(200, 50)), np.zeros(50)
    >>> w[:3] = 2, -1, 1
    >>> model = MultiRidge().fit(X, X @ w + 0.5 * rng.normal(size=200))
    >>> model.coef_[:3].round(2), int((model.coef_ != 0).sum())
    (array([ 1.99, -0.97,  0.98]), 3)
    """

    _power = 0.5

    def __init__(
        self,
        *,
        groups: Any = None,
        fit_intercept: bool = True,
        penalty_weights: Any = None,
        max_iter: int = 100,
        tol: float = 1e-3,
    ) -> None:
        super().__init__(fit_intercept=fit_intercept, penalty_weights=penalty_weights)
        self.groups = groups
        self.max_iter = max_iter
        self.tol = tol

    def _solve(self, design: Design) -> Array:
        columns = len(design.mean)
        names = np.arange(columns) if self.groups is None else np.asarray(self.groups)
        if names.shape != (columns,):
            raise ValueError(f"groups must name the group of each of the {columns} columns of X, got {names.shape}")
        # One scale is all that columns can have between them that are multiples of one another.
        whole, distinct = design, design.distinct
        design = distinct.design if self.groups is None else design
        group = np.unique(names[design.live], return_inverse=True)[1]
        fit = relevant(design, group, max_iter=self.max_iter, tol=self.tol)
        self.sigma_, self.n_iter_ = math.sqrt(fit.noise), fit.n_iter
        scale, coef = np.sqrt(fit.variance), fit.coef
        self.prior_scale_ = np.zeros(columns)
        if self.groups is None:
            self._posterior = distinct.posterior(fit.noise, fit.active)
            self.prior_scale_[whole.live] = scale[distinct.member] / np.sqrt(distinct.count)
            coef = distinct.shared(coef)
        else:
            self._posterior = Posterior(design, fit.noise, 0.0, fit.active)
            self.prior_scale_[design.live] = scale
        own = np.diag_indices(len(fit.active))
        self._posterior.matrix[own] += fit.noise / fit.variance[fit.active]
        return coef
