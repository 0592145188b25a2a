"""Linear models with a prior learned by evidence: the best choice for few rows, and for extrapolation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from likely._typing import Array, Index
from likely.linear import DynamicLogisticRegression, DynamicRidge
from likely.tabular.members.glm import base_rate, descend
from likely.tabular.members.task import StackMember, Task, View, cross_fit
from likely.tabular.networks.lines import lines_of_classes

MAX_FIT_ROWS = 50_000  # largest number of rows per fit: more hardly change a linear model
RIDGE = 1.0


@dataclass(frozen=True)
class LinearModel:
    """prediction = bias + x · coef."""

    coef: Array
    bias: Array
    largest: float = (
        np.inf
    )  # the largest prediction, so that a logarithm does not grow without bound far from the training rows

    def __call__(self, view: View) -> Array:
        """Predict, in the link's units, of shape (rows, outputs)."""
        return np.asarray(view.smooth.cpu().numpy().astype(np.float64) @ self.coef + self.bias).clip(max=self.largest)


def fit_lines(task: Task) -> StackMember:
    """Fit one linear model per fold."""

    def fit(task: Task, fold: int, train: Index, held_out: Index) -> LinearModel:
        train = train[:: -(-len(train) // MAX_FIT_ROWS)]
        x, y = task.table.smooth[fold].cpu().numpy()[train].astype(np.float64), task.target[train]
        weight = task.weight[train]
        if task.link == "identity":
            fits = [DynamicRidge().fit(x, column, weight) for column in y.T]
            return LinearModel(
                np.stack([fitted.coef_ for fitted in fits], 1), np.array([fitted.intercept_ for fitted in fits])
            )
        if task.link == "softmax":
            return _boundaries(x, y, weight)
        inputs, target, mass = (torch.as_tensor(part) for part in (x, y, weight))
        start = inputs.new_zeros(x.shape[1], y.shape[1]), base_rate(task.link, target, mass)
        coef, bias = descend(task.link, inputs, target, mass, RIDGE, start)
        return LinearModel(coef.numpy(), bias.numpy(), float(np.log(max(y.max(), 1.0))))

    return cross_fit(task, fit)


def _boundaries(x: Array, y: Array, weight: Array) -> LinearModel:
    line = LinearModel(
        np.zeros((x.shape[1], y.shape[1])), base_rate("softmax", *map(torch.as_tensor, (y, weight))).numpy()
    )
    labels = y.argmax(1)
    if len(np.unique(labels)) < 2:
        return line
    fit = DynamicLogisticRegression().fit(x, labels, weight)
    coef, bias = lines_of_classes(fit)
    line.coef[:, fit.classes_], line.bias[fit.classes_] = coef.T, bias
    return line
