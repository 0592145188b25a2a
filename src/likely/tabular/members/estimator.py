"""scikit-learn's estimators as members: extremely randomised trees, and any that the user passes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.utils.validation import has_fit_parameter

from likely._numerics.random import Seeded
from likely._typing import Array, Index
from likely.tabular.members.task import StackMember, Task, View, cross_fit

MIN_MEAN = 1e-6  # smallest probability or mean, so that its logarithm is finite


def _predicted(estimator: Any, x: Any, rows: int, link: str, outputs: int, least: float) -> Array:
    """Predict, in the link's units, of shape (rows, outputs); means and probabilities are at least ``least``."""
    if link == "softmax":
        prediction = np.zeros((rows, outputs))
        prediction[:, estimator.classes_] = estimator.predict_proba(x)  # a fold may lack a class
    else:
        prediction = np.asarray(estimator.predict(x), dtype=np.float64).reshape(rows, -1)
    return prediction if link == "identity" else np.log(np.maximum(prediction, least))


@dataclass(frozen=True)
class Foreign:
    """The estimator of one fold, which reads the table as the user passed it."""

    estimator: Any
    link: str
    outputs: int

    def __call__(self, view: View) -> Array:
        """Predict, in the link's units, of shape (rows, outputs)."""
        return _predicted(self.estimator, view.source_rows, len(view.place), self.link, self.outputs, MIN_MEAN)


def fit_estimator(task: Task, estimator: Any) -> StackMember:
    """Fit one clone per fold."""
    if task.link == "softmax" and not hasattr(estimator, "predict_proba"):
        name = type(estimator).__name__
        raise ValueError(f"{name} in model has no predict_proba: wrap it in sklearn's CalibratedClassifierCV")
    weighed = has_fit_parameter(estimator, "sample_weight") and bool((task.weight != task.weight[0]).any())

    def fit(task: Task, fold: int, train: Index, held_out: Index) -> Foreign:
        target = task.target[train]
        y = target.argmax(1) if task.link == "softmax" else target[:, 0] if task.outputs == 1 else target
        copied = clone(estimator)
        unset = [name for name, value in copied.get_params().items() if name.endswith("random_state") and value is None]
        copied.set_params(**dict.fromkeys(unset, task.random_state + fold))
        weights = {"sample_weight": task.weight[train]} if weighed else {}
        with Seeded(task.random_state + fold, all_draws=True):
            copied.fit(task.table.view(fold, train).source_rows, y, **weights)
        return Foreign(copied, task.link, task.outputs)

    return cross_fit(task, fit)


TREES = 40  # per fold
CLASS_TREES = 120  # for classes, whose probabilities are shares of the trees
WIDE_COLUMNS = 20  # from which on a split considers a share of the columns
WIDE_SHARE = 0.4
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
        return _predicted(self.trees, view.smooth.cpu().numpy(), len(view.smooth), self.link, self.outputs, self.least)


def fit_trees(task: Task) -> StackMember:
    """Fit one forest per fold."""

    def fit(task: Task, fold: int, train: Index, held_out: Index) -> Forest:
        x = task.table.smooth[fold].cpu().numpy()[train]
        y, weight = task.target[train], task.weight[train]
        options: dict[str, Any] = {
            "n_estimators": CLASS_TREES if task.link == "softmax" else TREES,
            "max_features": 1.0 if x.shape[1] < WIDE_COLUMNS else WIDE_SHARE,
            "random_state": task.random_state + fold,
            "n_jobs": task.threads,
        }
        if len(x) > MAX_TREE_ROWS:
            options |= {"bootstrap": True, "max_samples": MAX_TREE_ROWS}
        if task.link == "softmax":
            trees = ExtraTreesClassifier(**options).fit(x, y.argmax(1), weight)
            return Forest(trees, task.link, task.outputs, 0.5 / CLASS_TREES)
        trees = ExtraTreesRegressor(**options).fit(x, y[:, 0], weight)
        return Forest(trees, task.link, task.outputs, max(0.01 * float(np.average(y[:, 0], weights=weight)), 1e-12))

    return cross_fit(task, fit)
