"""Any scikit-learn estimator as a member: it reads the table as it was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from likely._random import Seeded
from likely._typing import Array, Index
from likely.tabular.members._task import Member, Task, View, cross_fit

LEAST = 1e-6  # a probability that none is below, so that its logarithm is finite


@dataclass(frozen=True)
class Foreign:
    """The estimator of one fold."""

    estimator: Any
    link: str
    outputs: int
    unit: tuple[float, float] = (0.0, 1.0)

    def __call__(self, view: View) -> Array:
        """Predictions (rows, outputs)."""
        if self.link == "softmax":
            said = np.zeros((len(view.place), self.outputs))
            said[:, self.estimator.classes_] = self.estimator.predict_proba(view.given)  # a fold may lack a class
            return np.log(np.maximum(said, LEAST))
        said = np.asarray(self.estimator.predict(view.given), dtype=np.float64).reshape(len(view.place), -1)
        return said if self.link == "identity" else np.log(np.maximum(said, LEAST))


def fit_estimator(task: Task, estimator: Any) -> Member:
    """A clone for each fold."""
    if task.link == "softmax" and not hasattr(estimator, "predict_proba"):
        name = type(estimator).__name__
        raise ValueError(f"{name} in model has no predict_proba: wrap it in sklearn's CalibratedClassifierCV")
    weighed = has_fit_parameter(estimator, "sample_weight") and bool((task.weight != task.weight[0]).any())

    def fit(task: Task, fold: int, learned: Index, held: Index) -> Foreign:
        target = task.target[learned]
        y = target.argmax(1) if task.link == "softmax" else target[:, 0] if task.outputs == 1 else target
        own = clone(estimator)
        unset = [name for name, value in own.get_params().items() if name.endswith("random_state") and value is None]
        own.set_params(**dict.fromkeys(unset, task.random_state + fold))
        weights = {"sample_weight": task.weight[learned]} if weighed else {}
        with Seeded(task.random_state + fold, all_draws=True):
            own.fit(task.table.view(fold, learned).given, y, **weights)
        return Foreign(own, task.link, task.outputs)

    return cross_fit(task, fit)
