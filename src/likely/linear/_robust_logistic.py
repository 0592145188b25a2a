"""Logistic regression with a learned temperature per row, so that labels in doubtful regions weigh little."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.utils.validation import check_is_fitted, validate_data

from likely._numerics.significance import held_out_gain
from likely._rows.columns import mean_and_deviation, median, middle_and_spread
from likely._rows.sources import by_blocks
from likely._solvers.canonical import DistinctRows, column_order
from likely._typing import Array, Index
from likely.functional import softmax_nll
from likely.linear._base import LinearClassifier, classes_of
from likely.linear._logistic import fit_normal

_RIDGE = 0.1  # on the temperature's slopes
_MAX_LOG_TEMPERATURE = 20.0  # |log T| beyond this counts as ∞
_FOLDS = 3  # that a varying temperature is tested on


@dataclass(kw_only=True, eq=False, repr=False)
class RobustLogisticRegression(LinearClassifier):
    r"""Logistic regression that is robust to wrong labels: the temperature of each row is learned.

    The probabilities are :math:`\mathrm{softmax}((W x + b) / T(x))` with log T linear in x.

    Where labels contradict the boundary the temperature rises, and rows there have less influence on it. Lines and
    temperature are learned jointly, starting once from all rows and once from the rows near the middle; the likelier
    fit is kept. Where the gain of a varying temperature on rows held out in three folds is below two standard errors,
    this is plain logistic regression. It helps against wrong labels that are concentrated somewhere; labels flipped at
    random give the temperature nothing to depend on.

    Args:
        C: inverse strength of the ridge on W, for inputs in robust units (median and median absolute deviation), or
            None to learn it as :class:`DynamicLogisticRegression` does, from rows weighted by ``weights_``.
        max_iter: maximum number of iterations of each search.
        tol: searches stop when the largest slope of the mean loss is below this.

    Attributes:
        classes_: the labels, sorted.
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

    C: float | None = None
    max_iter: int = 200
    tol: float = 1e-5

    def _learn(self, X: Array, table: DistinctRows) -> None:
        if self.C is not None and not self.C > 0:
            raise ValueError(f"C must be positive, got {self.C}")
        middle, spread = middle_and_spread(table.x, table.weight)
        order = column_order(table.x, table.y, table.weight)
        x = ((table.x - middle) / spread)[:, order]
        problem = _Problem(x, table.y.astype(np.intp), table.weight, len(self.classes_), self.C or 1.0)
        lines, slopes, self.n_iter_ = problem.solve(self.max_iter, self.tol, learn=self.C is None)
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
        logits = torch.from_numpy(_all_logits(super()._logits(X)))
        labels = np.asarray(y)
        known = np.isin(labels, self.classes_)
        if labels.shape != (len(logits),) or not known.all():
            raise ValueError(f"y must hold one of the classes {self.classes_} per row")
        target = torch.from_numpy(np.searchsorted(self.classes_, labels))
        return softmax_nll(logits, target, temperature=1.0, reduction="none").numpy()


def _all_logits(logits: Array) -> Array:
    """Return a logit per class: with two classes that of the first is zero."""
    return np.column_stack([np.zeros(len(logits)), logits]) if logits.shape[1] == 1 else logits


class _Problem:
    """Rows in robust units, and the joint loss of lines W (the intercept last) and slopes c of log T."""

    def __init__(self, x: Array, labels: Index, weight: Array, classes: int, C: float | Array) -> None:
        self.x, self.labels, self.weight, self.C = np.column_stack([x, np.ones(len(x))]), labels, weight, C
        self.shape = (1 if classes == 2 else classes, x.shape[1] + 1)
        self.size = self.shape[0] * self.shape[1]
        self.mean, self.deviation = mean_and_deviation(x, weight)
        self.features = (x - self.mean) / self.deviation
        self.hot = np.eye(classes)[labels]

    def solve(self, max_iter: int, tol: float, learn: bool) -> tuple[Array, Array, int]:
        """Return lines, slopes of log T = slopes · x in robust units, and the iterations of the last search."""
        plain, tempered = self.searched(max_iter, tol)
        varies = self.held_out_gain(max_iter, tol) > 0
        point = tempered if varies else plain
        if learn:
            self.C = self.learned_C(point)
        free = slice(None) if varies else slice(None, self.size)
        point, result = self.minimised(point, free, self.weight, max_iter=3 * max_iter, tol=1e-4 * tol, least_gain=0.0)
        return *self.in_x(point), int(result.nit)

    def searched(self, max_iter: int, tol: float) -> tuple[Array, Array]:
        """Return the lines of a plain logistic regression, and lines and slopes from the best of several starts."""
        search = partial(self.minimised, max_iter=max_iter, tol=tol)
        nothing = np.zeros(self.size + self.features.shape[1])
        lines, slopes, everything = slice(None, self.size), slice(self.size, None), slice(None)
        plain, _ = search(nothing, lines, self.weight)
        candidates = []
        for start in (self.weight, *self.central()):
            point = plain if start is self.weight else search(nothing, lines, start)[0]
            point, _ = search(point, slopes, self.weight)
            candidates.append(search(point, everything, self.weight))
        return plain, min(candidates, key=lambda candidate: candidate[1].fun)[0]

    def in_x(self, point: Array) -> tuple[Array, Array]:
        """Return lines and slopes of log T = slopes · x; in the search log T is a line through the mean of the rows."""
        slopes = point[self.size :] / self.deviation
        return point[: self.size].reshape(self.shape) * math.exp(self.mean @ slopes), slopes

    def held_out_gain(self, max_iter: int, tol: float) -> float:
        """Return by how much the gain of a varying temperature on held-out rows exceeds two standard errors.

        Rows are ordered by their contents, so that dealing them in turn does not depend on their original order.
        """
        gain = np.zeros(len(self.x))
        for fold in range(_FOLDS):
            out = np.arange(len(self.x)) % _FOLDS == fold
            if not out.any() or len(np.unique(self.labels[~out])) < len(self.hot[0]):
                return 0.0
            rest = _Problem(self.x[~out, :-1], self.labels[~out], self.weight[~out], len(self.hot[0]), self.C)
            plain, tempered = (self.nll_by(rest, point, out) for point in rest.searched(max_iter, tol))
            gain[out] = plain - tempered
        return held_out_gain(gain, self.weight).sure()

    def nll_by(self, fitted: _Problem, point: Array, rows: NDArray[np.bool_]) -> Array:
        """Return the negative log-likelihood of some rows under a fit to others."""
        lines, slopes = fitted.in_x(point)
        typical = float(median(fitted.x[:, :-1] @ slopes, fitted.weight))
        inverse = np.exp(-np.clip(self.x[rows, :-1] @ slopes - typical, 0.0, _MAX_LOG_TEMPERATURE) - typical)[:, None]
        logs = log_softmax(_all_logits(self.x[rows] @ lines.T) * inverse, axis=1)
        return -(logs * self.hot[rows]).sum(1)

    def learned_C(self, point: Array) -> Array:
        """Return the inverse strength for each column, of highest evidence at the temperatures of a fit."""
        log_temperature = self.x[:, :-1] @ self.in_x(point)[1]
        trust = self.weight * np.exp(-np.maximum(log_temperature - median(log_temperature, self.weight), 0.0))
        scale = fit_normal(
            DistinctRows(self.x[:, :-1], self.labels.astype(np.float64), trust), fit_intercept=True, max_iter=100
        )[2]
        return np.maximum(scale / mean_and_deviation(self.x[:, :-1], trust)[1], 1e-4) ** 2

    def loss(self, point: Array, weight: Array) -> tuple[float, Array]:
        """Return the weighted NLL with the ridges, and its gradient."""
        w, c = point[: self.size].reshape(self.shape), point[self.size :]
        inverse = np.exp(-np.clip(self.features @ c, -_MAX_LOG_TEMPERATURE, _MAX_LOG_TEMPERATURE))[:, None]
        cooled = _all_logits(self.x @ w.T) * inverse
        logs = log_softmax(cooled, axis=1)
        excess = (np.exp(logs) - self.hot) * weight[:, None]
        pull = (excess * inverse)[:, -self.shape[0] :].T @ self.x
        pull[:, :-1] += w[:, :-1] / self.C
        ridges = (np.square(w[:, :-1]) / self.C).sum() + _RIDGE * c @ c
        value = 0.5 * ridges - weight @ (logs * self.hot).sum(1)
        return float(value), np.concatenate([pull.ravel(), _RIDGE * c - (excess * cooled).sum(1) @ self.features])

    def minimised(
        self,
        start: Array,
        free: slice,
        weight: Array,
        *,
        max_iter: int,
        tol: float,
        least_gain: float = 1e-12,
    ) -> tuple[Array, Any]:
        """Return the minimum of the mean loss over the ``free`` entries of ``start``, and scipy's result."""
        point, total = start.copy(), weight.sum()

        def loss(part: Array) -> tuple[float, Array]:
            point[free] = part
            value, slope = self.loss(point, weight)
            return value / total, slope[free] / total

        options = {"maxiter": max_iter, "gtol": tol, "ftol": least_gain, "maxls": 50}
        result = minimize(loss, start[free], jac=True, method="L-BFGS-B", options=options)
        point[free] = result.x
        return point, result

    def central(self) -> list[Array]:
        """Return weights that select the rows nearest the middle, if these have all classes."""
        away = np.square(self.x[:, :-1]).sum(1)
        half = self.weight * (away <= median(away, self.weight))
        return [half] if len(np.unique(self.labels[half > 0])) == len(np.unique(self.labels)) else []
