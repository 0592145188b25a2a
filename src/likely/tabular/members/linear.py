"""Lines whose prior is learned by evidence: all that few rows can teach, and what holds beyond them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from likely._typing import Array, Index
from likely.linear import DynamicLogisticRegression, DynamicRidge
from likely.tabular.members._glm import base_rate, descend
from likely.tabular.members._task import Member, Task, View, cross_fit

ROWS = 50_000  # that a line looks at: more hardly move it
RIDGE = 1.0


@dataclass(frozen=True)
class Line:
    """prediction = bias + x · coef."""

    coef: Array
    bias: Array
    most: float = np.inf  # the largest prediction: a logarithm must not run off where there were no rows

    def __call__(self, view: View) -> Array:
        """Predictions (rows, outputs)."""
        return np.asarray(view.smooth.cpu().numpy().astype(np.float64) @ self.coef + self.bias).clip(max=self.most)


def fit_lines(task: Task) -> Member:
    """One line for each fold."""

    def fit(task: Task, fold: int, learned: Index, held: Index) -> Line:
        learned = learned[:: -(-len(learned) // ROWS)]
        x, y = task.table.smooth[fold].cpu().numpy()[learned].astype(np.float64), task.target[learned]
        weight = task.weight[learned]
        if task.link == "identity":
            fits = [DynamicRidge().fit(x, own, weight) for own in y.T]
            return Line(np.stack([own.coef_ for own in fits], 1), np.array([own.intercept_ for own in fits]))
        if task.link == "softmax":
            return _boundaries(x, y, weight)
        inputs, target, mass = (torch.as_tensor(part) for part in (x, y, weight))
        start = inputs.new_zeros(x.shape[1], y.shape[1]), base_rate(task.link, target, mass)
        coef, bias = descend(task.link, inputs, target, mass, RIDGE, start)
        return Line(coef.numpy(), bias.numpy(), float(np.log(max(y.max(), 1.0))))

    return cross_fit(task, fit)


def _boundaries(x: Array, y: Array, weight: Array) -> Line:
    line = Line(np.zeros((x.shape[1], y.shape[1])), base_rate("softmax", *map(torch.as_tensor, (y, weight))).numpy())
    labels = y.argmax(1)
    if len(np.unique(labels)) < 2:
        return line
    fit = DynamicLogisticRegression().fit(x, labels, weight)
    coef, bias = np.atleast_2d(fit.coef_), np.atleast_1d(fit.intercept_)
    if len(fit.classes_) == 2:  # scikit-learn keeps one row for two classes
        coef, bias = np.vstack([-coef, coef]) / 2, np.hstack([-bias, bias]) / 2
    line.coef[:, fit.classes_], line.bias[fit.classes_] = coef.T, bias
    return line
