"""Extremely randomised trees: averages over similar rows, best where rows have near duplicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from likely._typing import Array, Index
from likely.tabular.members.task import StackMember, Task, View, cross_fit

TREES = 40  # per fold
WIDE_COLUMNS, WIDE_SHARE = 20, 0.4  # from this many columns on, a split considers this share of them
MAX_TREE_ROWS = 50_000  # largest number of rows per tree


@dataclass(frozen=True)
class Forest:
    """Trees of one fold."""

    trees: Any
    link: str
    outputs: int
    least: float  # smallest mean or probability, so that its logarithm is finite

    def __call__(self, view: View) -> Array:
        """Predict, in the link's units, of shape (rows, outputs)."""
        x = view.smooth.cpu().numpy()
        if self.link == "softmax":
            prediction = np.zeros((len(x), self.outputs))
            prediction[:, self.trees.classes_] = self.trees.predict_proba(x)  # a fold may lack a class
        else:
            prediction = self.trees.predict(x).reshape(len(x), -1)
        return prediction if self.link == "identity" else np.log(np.maximum(prediction, self.least))


def fit_trees(task: Task) -> StackMember:
    """Fit one forest per fold."""

    def fit(task: Task, fold: int, train: Index, held_out: Index) -> Forest:
        x = task.table.smooth[fold].cpu().numpy()[train]
        y, weight = task.target[train], task.weight[train]
        options: dict[str, Any] = {
            "n_estimators": TREES,
            "max_features": 1.0 if x.shape[1] < WIDE_COLUMNS else WIDE_SHARE,
            "random_state": task.random_state + fold,
            "n_jobs": task.threads,
        }
        if len(x) > MAX_TREE_ROWS:
            options |= {"bootstrap": True, "max_samples": MAX_TREE_ROWS}
        if task.link == "softmax":
            trees = ExtraTreesClassifier(**options).fit(x, y.argmax(1), weight)
            return Forest(trees, task.link, task.outputs, 0.5 / TREES)
        trees = ExtraTreesRegressor(**options).fit(x, y[:, 0], weight)
        return Forest(trees, task.link, task.outputs, max(0.01 * float(np.average(y[:, 0], weights=weight)), 1e-12))

    return cross_fit(task, fit)
