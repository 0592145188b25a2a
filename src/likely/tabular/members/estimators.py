"""scikit-learn's estimators as members: boosted trees, extremely randomised trees, and any that the user passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.utils.validation import has_fit_parameter

from likely._numerics.random import Seeded
from likely._typing import Array, Index
from likely.tabular.members.task import StackMember, Task, View, cross_fit


@dataclass(frozen=True)
class Estimated:
    """A fitted estimator, and the units of its predictions."""

    estimator: Any
    link: str
    outputs: int
    least: float  # smallest mean or probability, so that its logarithm is finite

    def predict(self, x: Any) -> Array:
        """Predict, in the link's units, of shape (rows, outputs)."""
        if self.link == "softmax":
            shares = self.estimator.predict_proba(x)
            prediction = np.zeros((len(shares), self.outputs))
            prediction[:, self.estimator.classes_] = shares  # a fold may lack a class
        else:
            prediction = np.asarray(self.estimator.predict(x), dtype=np.float64)
            prediction = prediction.reshape(len(prediction), -1)
        return prediction if self.link == "identity" else np.log(np.maximum(prediction, self.least))


# From this many rows on, the learning rate is multiplied by this factor, for fewer rounds.
MANY_ROWS, RATE_FACTOR = 100_000, 3
FEW_CLASSES = 4  # with more classes the learning rate rises in proportion
MOST_HASTE = 4.0  # up to this factor
MIN_MEAN = 1e-15  # smallest probability or mean that boosting predicts
LEVELS = 254  # levels of a category that a tree can split by; of more, it reads the effects


@dataclass(frozen=True)
class Growth:
    """The settings of boosted trees."""

    rate: float = 0.1
    leaves: int = 31
    least: int = 10  # smallest number of rows per leaf
    share: float = 0.8  # of the columns that each split considers
    ridge: float = 0.0
    rounds: int = 500
    patience: int = 20

    def on(self, rows: int) -> Growth:
        """Return the settings for this number of rows."""
        least = min(self.least, max(1, rows // 20))
        if rows < MANY_ROWS:
            return replace(self, least=least)
        return replace(self, rate=self.rate * RATE_FACTOR, least=least, rounds=self.rounds // (RATE_FACTOR + 1))

    def for_classes(self, classes: int) -> Growth:
        """Return the settings for this number of classes, each of which has a tree per round."""
        factor = min(max(1.0, classes / FEW_CLASSES), MOST_HASTE)
        return replace(self, rate=self.rate * factor, patience=int(self.patience / factor))


GROWTH = Growth()
SHALLOW = Growth(rate=0.16, leaves=4, least=20, share=0.5, ridge=1.0)


def fit_boosting(task: Task, growth: Growth = GROWTH) -> StackMember:
    """Fit boosted trees to each fold."""

    def fit(task: Task, fold: int, train: Index, held_out: Index) -> Boosted:
        present = np.flatnonzero(task.target[train].any(0)) if task.link == "softmax" else np.arange(task.outputs)
        x, held_out_x = (task.table.view(fold, rows).numbers for rows in (train, held_out))
        weight, held_out_weight = task.weight[train], task.weight[held_out]
        models: list[Flat | Estimated] = []
        for y, held_out_y in _targets(task, present, train, held_out):
            usable = held_out_weight > 0 if held_out_y.dtype.kind == "f" else (held_out_weight > 0) & (held_out_y >= 0)
            judge = (held_out_x[usable], held_out_y[usable], held_out_weight[usable])
            if len(present) < 2 and (task.link == "softmax" or (task.link == "log" and not y.any())):
                models.append(Flat(np.log(0.5 / (len(x) + 1))))
                continue
            classes = len(present) if task.link == "softmax" else 1
            trees = _histogram(task, growth.on(len(x)).for_classes(classes), fold, (x, y, weight), judge)
            models.append(Estimated(trees, task.link, classes, MIN_MEAN))
        return Boosted(tuple(models), task.link, present, task.outputs, 0.5 / (len(x) + 1))

    return cross_fit(task, fit)


def _targets(task: Task, present: Index, train: Index, held_out: Index) -> list[tuple[Array, Array]]:
    """Return the targets of each model: each output, or all labels, −1 for a class that is not in the training rows."""
    if task.link != "softmax":
        return [(column[train], column[held_out]) for column in task.target.T]
    label = np.full(task.outputs, -1)
    label[present] = np.arange(len(present))
    labels = label[task.target.argmax(1)]
    return [(labels[train], labels[held_out])]


@dataclass(frozen=True)
class Boosted:
    """Trees of one fold: one model per output, or one for all classes in the training rows."""

    models: tuple[Flat | Estimated, ...]
    link: str
    present: Index
    outputs: int
    rare: float  # the probability of a class that is not in the training rows

    def __call__(self, view: View) -> Array:
        """Predict, in the link's units, of shape (rows, outputs)."""
        plain = view.numbers
        scores = np.column_stack([model.predict(plain) for model in self.models])
        if self.link != "softmax":
            return scores
        logits = np.full((len(plain), self.outputs), np.log(self.rare))
        logits[:, self.present] = log_softmax(scores, 1)
        return logits


@dataclass(frozen=True)
class Flat:
    """A constant: boosting cannot be fitted to one class, nor to counts that are all zero."""

    value: float

    def predict(self, x: Array) -> Array:
        """Return the constant for each row."""
        return np.full(len(x), self.value)


def _histogram(task: Task, growth: Growth, fold: int, train: Any, held_out: Any) -> Any:
    x, y, weight = train
    empty = np.isnan(x).all(0)  # scikit-learn cannot bin a column without values
    x = np.where(empty, 0.0, x) if empty.any() else x
    options = {
        "learning_rate": growth.rate,
        "max_iter": growth.rounds,
        "max_leaf_nodes": growth.leaves,
        "min_samples_leaf": growth.least,
        "max_features": growth.share,
        "l2_regularization": growth.ridge,
        "categorical_features": [j for j in task.table.categories if len(np.unique(x[:, j])) <= LEVELS] or None,
        "n_iter_no_change": growth.patience,
        "random_state": task.random_state + fold,
    }
    judged = {"X_val": held_out[0], "y_val": held_out[1], "sample_weight_val": held_out[2]}
    if not len(held_out[0]) or (
        task.link == "log" and not held_out[1].any()
    ):  # scikit-learn rejects counts that are all zero
        judged, options["max_iter"] = {}, max(1, growth.rounds // 10)
    if task.link == "softmax":
        trees: Any = HistGradientBoostingClassifier(early_stopping=bool(judged), **options)
    else:
        loss = {"identity": "squared_error", "log": "poisson", "gamma": "gamma"}[task.link]
        trees = HistGradientBoostingRegressor(loss=loss, early_stopping=bool(judged), **options)
    # scikit-learn takes half a second longer where rows have weights.
    weights = None if (weight == 1).all() else weight
    return trees.fit(x, y, sample_weight=weights, **judged)


def fit_shallow(task: Task) -> StackMember:
    """Fit boosted trees with few leaves, for targets that are mostly noise."""
    return fit_boosting(task, SHALLOW)


TREES = 40  # per fold
CLASS_TREES = 120  # for classes, whose probabilities are shares of the trees
WIDE_COLUMNS = 20  # from which on a split considers a share of the columns
WIDE_SHARE = 0.4
MAX_TREE_ROWS = 50_000  # largest number of rows per tree


@dataclass(frozen=True)
class Forest(Estimated):
    """Trees of one fold."""

    def __call__(self, view: View) -> Array:
        """Predict, in the link's units, of shape (rows, outputs)."""
        return self.predict(view.smooth.cpu().numpy())


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


MIN_FOREIGN_MEAN = 1e-6  # smallest probability or mean that a user's estimator predicts


@dataclass(frozen=True)
class Foreign(Estimated):
    """The estimator of one fold, which reads the table as the user passed it."""

    def __call__(self, view: View) -> Array:
        """Predict, in the link's units, of shape (rows, outputs)."""
        return self.predict(view.source_rows)


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
        return Foreign(copied, task.link, task.outputs, MIN_FOREIGN_MEAN)

    return cross_fit(task, fit)
