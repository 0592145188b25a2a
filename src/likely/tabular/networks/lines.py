"""Initialisation of networks by linear models, each fitted without the fold of its network."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._typing import Array
from likely.likelihoods import Likelihood
from likely.linear import DynamicLogisticRegression, DynamicRidge, RobustLinearRegression
from likely.tabular.networks.modules import MLP
from likely.tabular.networks.rows import TrainingRows

NORMAL_ROWS, OTHER_ROWS = 20_000, 2000  # largest number of rows that a linear model is fitted to, by likelihood


def start_at_lines(model: MLP, rows: TrainingRows, folds: Tensor, likelihood: Likelihood) -> None:
    """Set each network to a linear model fitted without its fold: one with a learned prior, or a robust one.

    Where the likelihood has a link, such as the logarithm of a mean, a network starts at the best constant.
    """
    plain = likelihood.name == "normal"
    most_rows = NORMAL_ROWS if plain else OTHER_ROWS
    for m, fold in enumerate(folds.cpu().numpy()):
        train = np.delete(np.arange(len(rows.x)), fold)
        train = train[:: -(-len(train) // most_rows)]  # spread over a table that may be sorted
        x, y, weight = (part[train].double().cpu().numpy() for part in (rows.x, rows.y, rows.weight))
        inputs = {"X": x, "sample_weight": weight}
        if not rows.shape:
            _start_at_boundaries(model, m, y.astype(int), inputs)
            continue
        if likelihood.start is not None:
            model.line.bias.data[m, 0] = torch.as_tensor(likelihood.start(y, weight), dtype=torch.float32)
            continue
        for t in range(y.shape[1]):
            line = DynamicRidge() if plain else RobustLinearRegression(random_state=0)
            line.fit(y=y[:, t], **inputs)
            model.line.weight.data[m, :, t] = torch.as_tensor(line.coef_, dtype=torch.float32)
            model.line.bias.data[m, 0, t] = float(line.intercept_)


def _start_at_boundaries(model: MLP, m: int, labels: NDArray[np.int_], inputs: dict[str, Any]) -> None:
    if len(np.unique(labels)) < 2:
        return
    line = DynamicLogisticRegression().fit(y=labels, **inputs)
    weight, bias = lines_of_classes(line)
    model.line.weight.data[m, :, line.classes_] = torch.as_tensor(weight.T, dtype=torch.float32)
    model.line.bias.data[m, 0, line.classes_] = torch.as_tensor(bias, dtype=torch.float32)


def lines_of_classes(line: DynamicLogisticRegression) -> tuple[Array, Array]:
    """Return coefficients (classes, inputs) and biases (classes,), also for two classes, where the fit has one line."""
    coef, bias = np.atleast_2d(line.coef_), np.atleast_1d(line.intercept_)
    if len(line.classes_) == 2:
        return np.vstack([-coef, coef]) / 2, np.hstack([-bias, bias]) / 2
    return coef, bias
