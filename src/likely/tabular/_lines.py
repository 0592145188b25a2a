"""Where networks start: at linear models, each blind to the fold that its network must not see."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely.likelihoods import Likelihood
from likely.linear import DynamicLogisticRegression, DynamicRidge, RobustLinearRegression
from likely.tabular._members import MLP
from likely.tabular._rows import Rows

STRAIGHT, FEW = 20_000, 2000  # rows that a line is fitted on before training: more hardly move it


def draw_lines(model: MLP, rows: Rows, folds: Tensor, likelihood: Likelihood) -> None:
    """Networks start at a linear model that is blind like them; its prior is learned, or outliers cannot move it.

    Where the likelihood has a link, such as the logarithm of a mean, they start at the best constant.
    """
    plain = likelihood.name == "normal"
    most = STRAIGHT if plain else FEW
    for m, out in enumerate(folds.cpu().numpy()):
        kept = np.delete(np.arange(len(rows.x)), out)
        kept = kept[:: -(-len(kept) // most)]  # spread over a table that may be sorted
        x, y, weight = (part[kept].double().cpu().numpy() for part in (rows.x, rows.y, rows.weight))
        own = {"X": x, "sample_weight": weight}
        if not rows.shape:
            _draw_boundaries(model, m, y.astype(int), own)
            continue
        if likelihood.start is not None:
            model.line.bias.data[m, 0] = torch.as_tensor(likelihood.start(y, weight), dtype=torch.float32)
            continue
        for t in range(y.shape[1]):
            line = DynamicRidge() if plain else RobustLinearRegression(random_state=0)
            line.fit(y=y[:, t], **own)
            model.line.weight.data[m, :, t] = torch.as_tensor(line.coef_, dtype=torch.float32)
            model.line.bias.data[m, 0, t] = float(line.intercept_)


def _draw_boundaries(model: MLP, m: int, labels: NDArray[np.int_], own: dict[str, Any]) -> None:
    if len(np.unique(labels)) < 2:
        return
    line = DynamicLogisticRegression().fit(y=labels, **own)
    weight, bias = (np.atleast_2d(line.coef_), np.atleast_1d(line.intercept_))
    if len(line.classes_) == 2:  # scikit-learn keeps one row for two classes
        weight, bias = np.vstack([-weight, weight]) / 2, np.hstack([-bias, bias]) / 2
    model.line.weight.data[m, :, line.classes_] = torch.as_tensor(weight.T, dtype=torch.float32)
    model.line.bias.data[m, 0, line.classes_] = torch.as_tensor(bias, dtype=torch.float32)
