"""Extremely randomised trees: neighbours by what the target asks for; at their best where rows have near copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from likely._typing import Array, Index
from likely.tabular.members._task import Member, Task, View, cross_fit

TREES = 40  # of each fold
WIDE, SHARE = 20, 0.4  # columns from which a split looks at a share of them
ROWS = 50_000  # that a tree looks at


@dataclass(frozen=True)
class Forest:
    """Trees of one fold."""

    trees: Any
    link: str
    outputs: int
    least: float  # a mean or a share that no leaf goes below, so that its logarithm is finite

    def __call__(self, view: View) -> Array:
        """Predictions (rows, outputs)."""
        x = view.smooth.cpu().numpy()
        if self.link == "softmax":
            said = np.zeros((len(x), self.outputs))
            said[:, self.trees.classes_] = self.trees.predict_proba(x)  # a fold may lack a class
        else:
            said = self.trees.predict(x).reshape(len(x), -1)
        return said if self.link == "identity" else np.log(np.maximum(said, self.least))


def fit_trees(task: Task) -> Member:
    """One forest for each fold."""

    def fit(task: Task, fold: int, learned: Index, held: Index) -> Forest:
        x = task.table.smooth[fold].cpu().numpy()[learned]
        y, weight = task.target[learned], task.weight[learned]
        options: dict[str, Any] = {
            "n_estimators": TREES,
            "max_features": 1.0 if x.shape[1] < WIDE else SHARE,
            "random_state": task.random_state + fold,
            "n_jobs": task.threads,
        }
        if len(x) > ROWS:
            options |= {"bootstrap": True, "max_samples": ROWS}
        if task.link == "softmax":
            trees = ExtraTreesClassifier(**options).fit(x, y.argmax(1), weight)
            return Forest(trees, task.link, task.outputs, 0.5 / TREES)
        trees = ExtraTreesRegressor(**options).fit(x, y[:, 0], weight)
        return Forest(trees, task.link, task.outputs, max(0.01 * float(np.average(y[:, 0], weights=weight)), 1e-12))

    return cross_fit(task, fit)
