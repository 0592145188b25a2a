"""Boosted trees: LightGBM's where it is installed, else scikit-learn's, with early stopping on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from likely._typing import Array, Index
from likely.tabular.members.task import StackMember, Task, View, cross_fit

MANY_ROWS, RATE_FACTOR = (
    100_000,
    3,
)  # from this many rows on, the learning rate is multiplied by this factor, for fewer rounds
FEW_CLASSES, MOST_HASTE = 4, 4.0  # with more classes the learning rate rises in proportion, up to this factor
MIN_MEAN = 1e-15


@dataclass(frozen=True)
class Growth:
    """The settings of boosted trees."""

    rate: float = 0.05
    leaves: int = 31
    least: int = 10  # smallest number of rows per leaf
    share: float = 0.8  # of the columns that each tree uses
    ridge: float = 0.0
    rounds: int = 1000
    patience: int = 40

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
SHALLOW = Growth(rate=0.08, leaves=4, least=20, share=0.5, ridge=1.0, patience=40)


def fit_boosting(task: Task, growth: Growth = GROWTH) -> StackMember:
    """Fit boosted trees to each fold."""
    fit_one = _lightgbm if find_spec("lightgbm") is not None else _scikit_learn

    def fit(task: Task, fold: int, train: Index, held_out: Index) -> Boosted:
        present = np.flatnonzero(task.target[train].any(0)) if task.link == "softmax" else np.arange(task.outputs)
        x, held_out_x = task.table.plain[train], task.table.plain[held_out]
        weight, held_out_weight = task.weight[train], task.weight[held_out]
        models: list[Any] = []
        for y, held_out_y in _targets(task, present, train, held_out):
            usable = held_out_weight > 0 if held_out_y.dtype.kind == "f" else (held_out_weight > 0) & (held_out_y >= 0)
            judge = (held_out_x[usable], held_out_y[usable], held_out_weight[usable])
            if len(present) < 2 and (task.link == "softmax" or (task.link == "log" and not y.any())):
                models.append(Flat(np.log(0.5 / (len(x) + 1))))
                continue
            grown = growth.on(len(x)).for_classes(len(present) if task.link == "softmax" else 1)
            models.append(fit_one(task, grown, fold, (x, y, weight), judge, len(present)))
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

    models: tuple[Any, ...]
    link: str
    present: Index
    outputs: int
    rare: float  # the probability of a class that is not in the training rows

    def __call__(self, view: View) -> Array:
        """Predict, in the link's units, of shape (rows, outputs)."""
        plain = view.plain
        scores = np.column_stack([model(plain) for model in self.models])
        if self.link != "softmax":
            return scores
        if len(self.present) == 2 and scores.shape[1] == 1:
            scores = np.column_stack([-scores / 2, scores / 2])
        logits = np.full((len(plain), self.outputs), np.log(self.rare))
        logits[:, self.present] = log_softmax(scores, 1)
        return logits


@dataclass(frozen=True)
class Flat:
    """A constant: boosting cannot be fitted to one class, nor to counts that are all zero."""

    value: float

    def __call__(self, plain: Array) -> Array:
        """Return the constant for each row."""
        return np.full(len(plain), self.value)


@dataclass(frozen=True)
class Native:
    """LightGBM's trees, whose raw scores are in the link's units."""

    booster: Any
    threads: int

    def __call__(self, plain: Array) -> Array:
        """Return the raw scores."""
        return np.asarray(self.booster.predict(plain, raw_score=True, num_threads=self.threads))


def _lightgbm(task: Task, growth: Growth, fold: int, train: Any, held_out: Any, classes: int) -> Native:
    import lightgbm

    kinds = {"identity": "l2", "log": "poisson", "gamma": "gamma"}
    objective = kinds.get(task.link, "binary" if classes == 2 else "multiclass")
    options = {
        "objective": objective,
        "learning_rate": growth.rate,
        "num_leaves": growth.leaves,
        "min_data_in_leaf": growth.least,
        "feature_fraction": growth.share,
        "lambda_l2": growth.ridge,
        "seed": task.random_state + fold,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": task.threads,
        "verbose": -1,
    }
    if objective == "multiclass":
        options["num_class"] = classes
    categories = list(task.table.categories)

    def rows(part: Any, reference: Any = None) -> Any:
        x, y, weight = part
        return lightgbm.Dataset(
            x, y, weight=weight, reference=reference, categorical_feature=categories, params=options
        )

    dataset = rows(train)
    if not len(held_out[0]):
        return Native(lightgbm.train(options, dataset, max(1, growth.rounds // 10)), task.threads)
    watch: list[Any] = [lightgbm.early_stopping(growth.patience, verbose=False), lambda state: task.check_time()]
    trees = lightgbm.train(options, dataset, growth.rounds, valid_sets=[rows(held_out, dataset)], callbacks=watch)
    return Native(trees, task.threads)


@dataclass(frozen=True)
class Histogram:
    """scikit-learn's trees."""

    trees: Any
    link: str

    def __call__(self, plain: Array) -> Array:
        """Predict, in the link's units."""
        if self.link == "softmax":
            return np.log(np.maximum(self.trees.predict_proba(plain), MIN_MEAN))
        scores = np.asarray(self.trees.predict(plain))
        return scores if self.link == "identity" else np.log(np.maximum(scores, MIN_MEAN))


def _scikit_learn(task: Task, growth: Growth, fold: int, train: Any, held_out: Any, classes: int) -> Histogram:
    growth = replace(
        growth, rate=2 * growth.rate, rounds=growth.rounds // 2, patience=growth.patience // 2
    )  # fewer rounds: it is slower than LightGBM
    options: dict[str, Any] = {
        "learning_rate": growth.rate,
        "max_iter": growth.rounds,
        "max_leaf_nodes": growth.leaves,
        "min_samples_leaf": growth.least,
        "max_features": growth.share,
        "l2_regularization": growth.ridge,
        "categorical_features": list(task.table.categories) or None,
        "n_iter_no_change": growth.patience,
        "random_state": task.random_state + fold,
    }
    judged: dict[str, Any] = {"X_val": held_out[0], "y_val": held_out[1], "sample_weight_val": held_out[2]}
    if not len(held_out[0]) or (
        task.link == "log" and not held_out[1].any()
    ):  # scikit-learn rejects counts that are all zero
        judged, options["max_iter"] = {}, max(1, growth.rounds // 10)
    if task.link == "softmax":
        trees: Any = HistGradientBoostingClassifier(early_stopping=bool(judged), **options)
    else:
        loss = {"identity": "squared_error", "log": "poisson", "gamma": "gamma"}[task.link]
        trees = HistGradientBoostingRegressor(loss=loss, early_stopping=bool(judged), **options)
    x, y, weight = train
    empty = np.isnan(x).all(0)  # scikit-learn cannot bin a column without values
    x = np.where(empty, 0.0, x) if empty.any() else x
    return Histogram(trees.fit(x, y, sample_weight=weight, **judged), task.link)


def fit_shallow(task: Task) -> StackMember:
    """Fit boosted trees with few leaves, for targets that are mostly noise."""
    return fit_boosting(task, SHALLOW)
