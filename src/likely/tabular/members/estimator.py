"""Any scikit-learn estimator as a member: it reads the table as the user passed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from likely._random import Seeded
from likely._typing import Array, Index
from likely.tabular.members.task import StackMember, Task, View, cross_fit

MIN_MEAN = 1e-6  # smallest probability or mean, so that its logarithm is finite


@dataclass(frozen=True)
class Foreign:
    """The estimator of one fold."""

    estimator: Any
    link: str
    outputs: int
    unit: tuple[float, float] = (0.0, 1.0)

    def __call__(self, view: View) -> Array:
        """Predict, in the link's units, of shape (rows, outputs)."""
        if self.link == "softmax":
            proba = np.zeros((len(view.place), self.outputs))
            proba[:, self.estimator.classes_] = self.estimator.predict_proba(
                view.source_rows
            )  # a fold may lack a class
            return np.log(np.maximum(proba, MIN_MEAN))
        mean = np.asarray(self.estimator.predict(view.source_rows), dtype=np.float64).reshape(len(view.place), -1)
        return mean if self.link == "identity" else np.log(np.maximum(mean, MIN_MEAN))


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
