"""Logistic regression with a learned temperature per row, so that labels in doubtful regions weigh little."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.utils.validation import check_is_fitted, validate_data

from likely._rows.columns import mean_and_deviation, median, middle_and_spread
from likely._rows.sources import by_blocks
from likely._solvers.canonical import Table, column_order
from likely._solvers.ridge import Ridge
from likely._solvers.selection import held_out_gain
from likely._typing import Array, Index
from likely.linear._base import LinearClassifier, classes_of

_RIDGE = 0.1  # on the slopes of log T, for columns of deviation one
_MAX_LOG_TEMPERATURE = 20.0  # |log T| beyond this counts as ∞
_STRENGTHS = 20  # times that lines and the strength of their ridge are updated
_FOLDS, _MARGIN = 3, 2.0  # folds, and standard errors by which a temperature's held-out gain must exceed zero


class RobustLogisticRegression(LinearClassifier):
    r"""Logistic regression that is robust to wrong labels: the temperature of each row is learned.

    The probabilities are :math:`\mathrm{softmax}((W x + b) / T(x))` with log T linear in x.

    Where labels contradict the boundary the temperature rises, and rows there have less influence on it. Lines and
    temperature are learned jointly, starting once from all rows and once from the rows near the middle; the likelier
    fit is kept. Where the gain of a varying temperature on rows held out in three folds is below two standard errors,
    this is plain logistic regression. It helps against wrong labels that are concentrated somewhere; labels flipped at
    random give the temperature nothing to depend on.

    The strength of the ridge on W is learned by evidence, in Laplace's approximation. Where the evidence supports no
    slopes the probabilities are the shares of the classes.

    Args:
        C: inverse strength of the ridge on W, for inputs in robust units (median and median absolute deviation); None
            to learn it.
        max_iter: maximum number of iterations of each search.
        tol: searches stop when the largest slope of the mean loss is below this.

    Attributes:
        classes_: the labels, sorted.
        C_: inverse strength of the ridge on W; zero where it leaves no slopes.
        coef_: weights at temperature one, shape (1, d) for two classes, else (C, d).
        intercept_: intercepts at temperature one, shape (1,) or (C,).
        temperature_coef_: slopes of log T, shape (d,).
        temperature_intercept_: intercept of log T. The median training row has log T = 0, and lower values count as 0.
        weights_: weight of each training row, from 0 to 1, shape (n,): the inverse of its temperature.
        n_iter_: iterations of the last search.

    Example:
        >>> import numpy as np
        >>> from likely.linear import RobustLogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> X = np.vstack([rng.normal(size=(90, 2)) + shift for shift in (-2, 2, -8)])
        >>> y = np.repeat(["low", "high", "high"], 90)                   # the lowest third is labelled high
        >>> model = RobustLogisticRegression().fit(X, y)
        >>> round(model.score(X[:180], y[:180]), 2), bool(model.weights_[180:].max() < 0.1)
        (1.0, True)

    See Also:
        :class:`DynamicLogisticRegression`, which learns its prior; :class:`RobustLinearRegression`, for numbers.
    """

    _least = 2

    def __init__(self, *, C: float | None = None, max_iter: int = 200, tol: float = 1e-5) -> None:
        self.C = C
        self.max_iter = max_iter
        self.tol = tol

    def _learn(self, X: Array, table: Table) -> None:
        if self.C is not None and not self.C > 0:
            raise ValueError(f"C must be positive, got {self.C}")
        middle, spread = middle_and_spread(table.x, table.weight)
        order = column_order(table.x, table.y, table.weight)
        x = ((table.x - middle) / spread)[:, order]
        labels = table.y.astype(np.intp)
        problem = _Problem(x, labels, table.weight, len(self.classes_), self.max_iter, self.tol)
        fit = problem.solve(self.C)
        (lines, slopes), self.C_, self.n_iter_ = problem.in_x(fit.point), 1 / fit.strength, fit.n_iter
        back = np.argsort(order)
        lines, slopes = lines[:, np.append(back, len(back))], slopes[back] / spread
        # The median row has temperature one; the others are relative to it.
        typical = float(median(table.x @ slopes, table.weight))
        lines = lines * math.exp(float(middle @ slopes) - typical)
        self.temperature_coef_, self.temperature_intercept_ = slopes, -typical
        self.coef_ = lines[:, :-1] / spread
        self.intercept_ = lines[:, -1] - self.coef_ @ middle
        self.weights_ = 1 / self._temperature(X)

    @by_blocks()
    def temperature(self, X: Any) -> Any:
        """Return the temperature that divides the logits of each row: one, or more where labels are doubtful.

        Args:
            X: table of shape (n, d).

        Returns:
            Array of shape (n,) with values ≥ 1.
        """
        check_is_fitted(self)
        return self._temperature(validate_data(self, X, dtype=np.float64, reset=False))

    def _temperature(self, X: Array) -> Array:
        log_temperature = X @ self.temperature_coef_ + self.temperature_intercept_
        # No row is trusted more than a typical one: log T is unbounded, and distant rows would get T near zero or ∞.
        return np.exp(np.clip(log_temperature, 0.0, _MAX_LOG_TEMPERATURE))

    def _logits(self, X: Any) -> Array:
        return super()._logits(X) / self.temperature(X)[:, None]

    @by_blocks(width=classes_of)
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, closer to uniform where the temperature is high.

        Args:
            X: table of shape (n, d).

        Returns:
            Array of shape (n, C), in the order of ``classes_``.
        """
        return softmax(_all_logits(self._logits(X)), axis=1)

    @by_blocks(per_row="y")
    def outlier_score(self, X: Any, y: Any) -> Any:
        """Return the negative log-likelihood of each label at temperature one; higher means more likely wrong.

        Args:
            X: table of shape (n, d).
            y: labels, shape (n,).

        Returns:
            Array of shape (n,).

        Raises:
            ValueError: y holds a label that ``fit`` has not seen.
        """
        logs = log_softmax(_all_logits(super()._logits(X)), axis=1)
        labels = np.asarray(y)
        known = np.isin(labels, self.classes_)
        if labels.shape != (len(logs),) or not known.all():
            raise ValueError(f"y must hold one of the classes {self.classes_} per row")
        return -logs[np.arange(len(logs)), np.searchsorted(self.classes_, labels)]


def _all_logits(logits: Array) -> Array:
    """Return a logit per class: with two classes that of the first is zero."""
    return np.column_stack([np.zeros(len(logits)), logits]) if logits.shape[1] == 1 else logits


class _Fit(NamedTuple):
    """Lines and then slopes of log T, the strength of the ridge on the lines, and how the last search ended."""

    point: Array
    strength: float
    loss: float = 0.0
    n_iter: int = 0


@dataclass
class _Problem:
    """Rows in robust units, and the joint loss of lines W (the intercept last) and slopes c of log T."""

    columns: Array
    labels: Index
    weight: Array
    classes: int
    max_iter: int
    tol: float
    least_gain: float = 1e-12

    def __post_init__(self) -> None:
        x = self.columns
        # A ridge leaves the lines in the span of the rows.
        self.axes = np.linalg.svd(x, full_matrices=False)[2].T if len(x) < x.shape[1] else np.eye(x.shape[1])
        self.x = np.column_stack([x @ self.axes, np.ones(len(x))])
        self.shape = (1 if self.classes == 2 else self.classes, self.x.shape[1])
        self.size = self.shape[0] * self.shape[1]
        self.mean, self.deviation = mean_and_deviation(x, self.weight)
        self.features = (x - self.mean) / self.deviation
        self.hot = np.eye(self.classes)[self.labels]
        self.lines, self.slopes = slice(None, self.size), slice(self.size, None)

    def solve(self, C: float | None) -> _Fit:
        """Return the fit with a temperature that varies, if its gain on held-out rows is significant, or without."""
        tempered = self.tempered(1 / (C or 1.0))
        if C is None:
            plain, tempered = self.learned(_Fit(self.shares(), 1.0)), self.learned(tempered)
            tempered = self.minimised(tempered.point, slice(None), tempered.strength)
        else:
            plain = self.minimised(self.shares(), self.lines, 1 / C)
        precise = replace(self, max_iter=3 * self.max_iter, tol=1e-4 * self.tol, least_gain=0.0)
        if self.held_out_gain(plain.strength, tempered.strength) > 0:
            return precise.minimised(tempered.point, slice(None), tempered.strength)
        return precise.minimised(plain.point, self.lines, plain.strength)

    def tempered(self, strength: float) -> _Fit:
        """Return the best joint fit of several starts."""
        fits, search = [], self.minimised
        for weight in (self.weight, *self.central()):
            fit = search(self.shares(), self.lines, strength, weight=weight)
            fit = search(fit.point, self.slopes, strength)
            fits.append(search(fit.point, slice(None), strength))
        return min(fits, key=lambda fit: fit.loss)

    def learned(self, fit: _Fit) -> _Fit:
        """Return lines and their strength of highest evidence at the temperatures of a fit, in turn until they settle.

        Without evidence for slopes the strength is infinite, and the probabilities are the shares of the classes.
        """
        ridge = Ridge(1.0)
        for step in range(_STRENGTHS):
            values, response = self.parabola(fit.point)
            # A shrinking radius ends a strength that alternates.
            strength = ridge.best(values, response, around=fit.strength, radius=4 * 0.8**step)
            if not math.isfinite(strength):
                break
            moved = abs(math.log(strength) - math.log(fit.strength))
            fit = self.minimised(fit.point, self.lines, strength)
            if moved < 0.01:
                break
        # The parabolas select the strength; whether it improves on no slopes is decided by the losses themselves.
        gain = self.loss(self.shares(), self.weight, 0.0)[0] - fit.loss * self.weight.sum()
        if math.isfinite(strength) and gain > ridge.cost(values, strength):
            return fit
        return _Fit(self.shares(), math.inf)

    def shares(self) -> Array:
        """Return the point without slopes, whose probabilities are the shares of the classes."""
        point = np.zeros(self.size + len(self.mean))
        logs = np.log(self.weight @ self.hot)
        logs -= logs[0] if self.shape[0] == 1 else logs.mean()
        point[self.shape[1] - 1 : self.size : self.shape[1]] = logs[-self.shape[0] :]
        return point

    def in_x(self, point: Array) -> tuple[Array, Array]:
        """Return lines and slopes of log T = slopes · x; in the search log T is a line through the mean of the rows."""
        slopes, lines = point[self.slopes] / self.deviation, point[self.lines].reshape(self.shape)
        lines = np.column_stack([lines[:, :-1] @ self.axes.T, lines[:, -1]])
        return lines * math.exp(self.mean @ slopes), slopes

    def held_out_gain(self, plain: float, tempered: float) -> float:
        """Return by how much the gain of a varying temperature on held-out rows exceeds two standard errors.

        Rows are ordered by their contents, so that dealing them in turn does not depend on their original order.
        """
        gain = np.zeros(len(self.x))
        if not math.isfinite(tempered):
            return 0.0
        for fold in range(_FOLDS):
            out = np.arange(len(self.x)) % _FOLDS == fold
            if not out.any() or len(np.unique(self.labels[~out])) < self.classes:
                return 0.0
            rest = replace(self, columns=self.columns[~out], labels=self.labels[~out], weight=self.weight[~out])
            fits = rest.minimised(rest.shares(), rest.lines, plain), rest.tempered(tempered)
            without, given = (self.nll_by(rest, fit.point, out) for fit in fits)
            gain[out] = without - given
        return held_out_gain(gain, self.weight).sure(_MARGIN)

    def nll_by(self, fitted: _Problem, point: Array, rows: NDArray[np.bool_]) -> Array:
        """Return the negative log-likelihood of some rows under a fit to others."""
        lines, slopes = fitted.in_x(point)
        x, typical = self.columns[rows], float(median(fitted.columns @ slopes, fitted.weight))
        inverse = np.exp(-np.clip(x @ slopes - typical, 0.0, _MAX_LOG_TEMPERATURE) - typical)[:, None]
        logs = log_softmax(_all_logits(x @ lines[:, :-1].T + lines[:, -1]) * inverse, axis=1)
        return -(logs * self.hot[rows]).sum(1)

    def cooled(self, point: Array) -> tuple[Array, Array, Array]:
        """Return the inverse temperature of each row, and its logits and log probabilities at that temperature."""
        bounded = np.clip(self.features @ point[self.slopes], -_MAX_LOG_TEMPERATURE, _MAX_LOG_TEMPERATURE)
        inverse = np.exp(-bounded)[:, None]
        logits = _all_logits(self.x @ point[self.lines].reshape(self.shape).T) * inverse
        return inverse, logits, log_softmax(logits, axis=1)

    def loss(self, point: Array, weight: Array, strength: float) -> tuple[float, Array]:
        """Return the weighted NLL with the ridges, and its gradient."""
        w, c = point[self.lines].reshape(self.shape), point[self.slopes]
        inverse, logits, logs = self.cooled(point)
        excess = (np.exp(logs) - self.hot) * weight[:, None]
        pull = (excess * inverse)[:, -self.shape[0] :].T @ self.x
        pull[:, :-1] += strength * w[:, :-1]
        value = -(weight @ (logs * self.hot).sum(1)) + 0.5 * (strength * np.square(w[:, :-1]).sum() + _RIDGE * c @ c)
        return float(value), np.concatenate([pull.ravel(), _RIDGE * c - (excess * logits).sum(1) @ self.features])

    def parabola(self, point: Array) -> tuple[Array, Array]:
        """Return eigenvalues of the loss in the slopes of each class, the intercept profiled out, and the responses."""
        inverse, _, logs = self.cooled(point)
        x, scaled = self.x[:, :-1], self.weight * inverse[:, 0]
        all_values, responses = [], []
        p, hot = np.exp(logs)[:, -self.shape[0] :].T, self.hot[:, -self.shape[0] :].T
        for w, p_k, hot_k in zip(point[self.lines].reshape(self.shape)[:, :-1], p, hot, strict=True):
            slope, curve = scaled * (p_k - hot_k), scaled * inverse[:, 0] * p_k * (1 - p_k)
            mass, cross = max(curve.sum(), np.finfo(float).tiny), curve @ x
            hessian = (x.T * curve) @ x - np.outer(cross, cross) / mass
            values, vectors = np.linalg.eigh(hessian)
            all_values.append(values.clip(min=0))
            responses.append(vectors.T @ (hessian @ w - slope @ x + cross * (slope.sum() / mass)))
        return np.concatenate(all_values), np.concatenate(responses)

    def minimised(
        self,
        start: Array,
        free: Any,
        strength: float,
        *,
        weight: Array | None = None,
    ) -> _Fit:
        """Return the minimum of the mean loss over the ``free`` entries of ``start``."""
        if not math.isfinite(strength):
            return _Fit(self.shares(), strength)
        weight = self.weight if weight is None else weight
        point, total = start.copy(), weight.sum()

        def loss(part: Array) -> tuple[float, Array]:
            point[free] = part
            value, slope = self.loss(point, weight, strength)
            return value / total, slope[free] / total

        options = {"maxiter": self.max_iter, "gtol": self.tol, "ftol": self.least_gain, "maxls": 50}
        result = minimize(loss, start[free], jac=True, method="L-BFGS-B", options=options)
        point[free] = result.x
        return _Fit(point, strength, float(result.fun), int(result.nit))

    def central(self) -> list[Array]:
        """Return weights that select the rows nearest the middle, if these have all classes."""
        away = np.square(self.x[:, :-1]).sum(1)
        half = self.weight * (away <= median(away, self.weight))
        return [half] if len(np.unique(self.labels[half > 0])) == len(np.unique(self.labels)) else []
