"""Ridge regressions that learn the scale of their normal prior from the evidence."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from scipy import linalg, optimize
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from likely._solvers.design import Design, Posterior
from likely._typing import Array
from likely._validation import all_or_nothing
from likely.linear._base import DynamicLinearModel

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

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the weights, the noise and the prior from rows.

        Args:
            X: table of shape (n, d).
            y: target of each row, shape (n,), or (n, k) for k targets, each of which gets a fit of its own.
            sample_weight: weight of each row, shape (n,). Whole numbers count rows: a weight of two is the row twice.
                Other weights are scaled to a mean of one, so that only their ratios matter.

        Returns:
            The estimator itself.
        """
        if getattr(y, "ndim", None) is None:
            y = np.asarray(y)
        self._targets: list[DynamicRidge] = []
        if y.ndim != 2 or y.shape[1] == 1:
            return super().fit(X, y, sample_weight)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        self._targets = [clone(self).fit(X, y[:, k], sample_weight) for k in range(y.shape[1])]
        for name in _PER_TARGET:
            setattr(self, name, np.array([getattr(each, name) for each in self._targets]))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The expected target, and with ``return_std`` its standard deviation: the noise and the weights' together."""
        check_is_fitted(self)
        if not self._targets:
            return super().predict(X, return_std)
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
        self.penalty_ = evidence.best()
        residual, self.prior_mean_, self.evidence_ = evidence.at(self.penalty_)
        self.n_iter_ = evidence.evaluations
        self.sigma_ = math.sqrt(residual)
        self.prior_scale_ = math.sqrt(residual / self.penalty_)
        self._posterior = Posterior(design, residual, self.penalty_)
        if not self.prior_mean_:
            return self._posterior.mean(design.xy)
        lifted = design.xy - design.x.T @ (design.x @ np.full(d, self.prior_mean_))
        return self.prior_mean_ + self._posterior.mean(lifted)


class RidgeEvidence:
    """The log evidence of every strength of a ridge, the noise (and the prior's mean) at their best for each."""

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

    def at(self, strength: float) -> tuple[float, float, float]:
        """The noise variance, the prior mean and the log evidence."""
        self.evaluations += 1
        log_det, solved = self.reduced.shifted(strength, self.vectors)
        product = self.vectors.T @ solved
        left = self.inner - product if self.by_columns else strength * product
        mean = 0.0
        residual = left[0, 0]
        if self.learn_mean and left[1, 1] > 1e-12 * self.inner[1, 1]:
            mean = left[0, 1] / left[1, 1]
            residual -= left[0, 1] * mean
        variance = max(residual / self.freedom, self.floor)
        log_volume = log_det - len(self.reduced) * math.log(strength)
        return variance, mean, -0.5 * (self.freedom * (math.log(2 * math.pi * variance) + 1) + log_volume)

    def best(self) -> float:
        """The strength of most evidence, anywhere on the line."""
        grid = math.log(self.size) + np.linspace(-18, 14, 25)
        values = [self.at(math.exp(x))[2] for x in grid]
        k = int(np.argmax(values))
        if k in (0, len(grid) - 1):  # rows fitted to the last digit, or not at all
            return math.exp(grid[k])
        found = optimize.minimize_scalar(
            lambda x: -self.at(math.exp(x))[2],
            bounds=(grid[k - 1], grid[k + 1]),
            method="bounded",
            options={"xatol": 1e-6},
        )
        return math.exp(found.x)


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
        evidence = RidgeEvidence(design)
        strength = evidence.best()
        noise = evidence.at(strength)[0]
        variance = np.full(int(group.max(initial=-1)) + 1, noise / strength)
        price, self.n_iter_ = 0.5 * math.log(max(design.rows * len(variance), 2.0)), 0
        while True:
            noise = self._settle(design, group, variance, noise)
            if not self._eliminate(design, group, variance, noise, price) or self.n_iter_ >= self.max_iter:
                break
        self.sigma_ = math.sqrt(noise)
        scale = np.sqrt(variance[group])
        coef = np.zeros(design.shape[1])
        active = np.flatnonzero(variance[group] > 0)
        coef[active], _, _ = self._weights(design, active, variance[group[active]], noise)
        own = np.diag_indices(len(active))
        self.prior_scale_ = np.zeros(columns)
        if self.groups is None:
            self._posterior = distinct.posterior(noise, active)
            self.prior_scale_[whole.live] = scale[distinct.member] / np.sqrt(distinct.count)
            coef = distinct.shared(coef)
        else:
            self._posterior = Posterior(design, noise, 0.0, active)
            self.prior_scale_[design.live] = scale
        self._posterior.matrix[own] += noise / variance[group[active]]
        return coef

    def _settle(self, design: Design, group: Any, variance: Array, noise: float) -> float:
        """MacKay's updates of the scales, in place, and of the noise, until neither moves."""
        for _ in range(self.max_iter):
            self.n_iter_ += 1
            active = np.flatnonzero(variance[group] > 0)
            if not len(active):
                return design.yy / design.freedom
            own = variance[group[active]]
            weights, spread, _ = self._weights(design, active, own, noise)
            seen = 1 - spread / own  # how far the rows, not the prior, determine a weight
            used = np.bincount(group[active], seen, len(variance))
            square = np.bincount(group[active], weights**2, len(variance))
            new = np.where(variance > 0, square / np.maximum(used, 1e-12), 0.0)
            new[new < 1e-8 * new.max(initial=0.0)] = 0.0
            full = np.zeros(design.shape[1])
            full[active] = weights
            residual = design.residual(full)
            left = max(design.freedom - float(seen.sum()), 0.01 * design.freedom)
            before, noise = noise, max(residual / left, 1e-14 * design.yy / design.freedom)
            kept = new > 0
            moved = float(np.abs(np.log(new[kept] / variance[kept])).max(initial=0.0))
            variance[:] = new
            if max(moved, abs(math.log(noise / before))) < self.tol * 10 or self.n_iter_ >= self.max_iter:
                break
        return noise

    def _weights(self, design: Design, active: Any, variance: Array, noise: float) -> tuple[Array, Array, Array]:
        """The posterior mean of the active weights, their variances and covariances."""
        precision = design.gram_of(active) / noise
        precision[np.diag_indices(len(active))] += 1 / variance
        covariance = linalg.cho_solve((linalg.cholesky(precision, lower=True), True), np.eye(len(active)))
        return covariance @ (design.xy[active] / noise), covariance.diagonal(), covariance

    def _eliminate(self, design: Design, group: Any, variance: Array, noise: float, price: float) -> int:
        """Put scales to zero, the worst first, while one adds less than its price to the evidence; how many."""
        active = np.flatnonzero(variance[group] > 0)
        own, member = variance[group[active]], group[active]
        weights, _, covariance = self._weights(design, active, own, noise)
        kept, removed = np.ones(len(active), dtype=bool), 0
        while kept.any():
            spread = covariance.diagonal()[kept]
            each = 0.5 * (weights[kept] ** 2 / spread - np.log(own[kept] / spread))
            gain = np.bincount(member[kept], each, len(variance))
            gain[variance == 0] = np.inf
            worst = int(np.argmin(gain))
            if gain[worst] >= price:
                break
            for j in np.flatnonzero(kept & (member == worst)):
                # What the other weights are once this one is known to be zero.
                column = covariance[:, j] / covariance[j, j]
                weights = weights - column * weights[j]
                covariance = covariance - np.outer(column, covariance[j])
                kept[j] = False
            variance[worst] = 0.0
            removed += 1
        return removed
