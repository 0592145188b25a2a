"""Boosted trees: LightGBM's where it is installed, else scikit-learn's. Rows left out say when to stop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from likely._typing import Array, Index
from likely.tabular.members._task import Member, Task, View, cross_fit

MANY, QUICK = 100_000, 3  # rows from which trees learn at a higher rate, so many times, in as many rounds fewer
TINY = 1e-15


@dataclass(frozen=True)
class Growth:
    """How trees grow."""

    rate: float = 0.05
    leaves: int = 31
    least: int = 10  # rows of a leaf
    share: float = 0.8  # of the columns that a tree looks at
    ridge: float = 0.0
    rounds: int = 1000
    patience: int = 40

    def on(self, rows: int) -> Growth:
        """The same with so many rows."""
        least = min(self.least, max(1, rows // 20))
        if rows < MANY:
            return replace(self, least=least)
        return replace(self, rate=self.rate * QUICK, least=least, rounds=self.rounds // (QUICK + 1))


GROWTH = Growth()
SHALLOW = Growth(rate=0.08, leaves=4, least=20, share=0.5, ridge=1.0, patience=40)


def fit_boosting(task: Task, growth: Growth = GROWTH) -> Member:
    """Boosted trees for each fold."""
    fit_one = _lightgbm if find_spec("lightgbm") is not None else _scikit_learn

    def fit(task: Task, fold: int, learned: Index, held: Index) -> Boosted:
        kept = np.flatnonzero(task.target[learned].any(0)) if task.link == "softmax" else np.arange(task.outputs)
        x, held_x = task.table.plain[learned], task.table.plain[held]
        weight, held_weight = task.weight[learned], task.weight[held]
        models: list[Any] = []
        for y, held_y in _targets(task, kept, learned, held):
            shown = held_weight > 0 if held_y.dtype.kind == "f" else (held_weight > 0) & (held_y >= 0)
            judge = (held_x[shown], held_y[shown], held_weight[shown])
            if len(kept) < 2 and (task.link == "softmax" or (task.link == "log" and not y.any())):
                models.append(Flat(np.log(0.5 / (len(x) + 1))))
                continue
            models.append(fit_one(task, growth.on(len(x)), fold, (x, y, weight), judge, len(kept)))
        return Boosted(tuple(models), task.link, kept, task.outputs, 0.5 / (len(x) + 1))

    return cross_fit(task, fit)


def _targets(task: Task, kept: Index, learned: Index, held: Index) -> list[tuple[Array, Array]]:
    """What one model after the other learns: each output, or the labels, −1 for one that was not learned."""
    if task.link != "softmax":
        return [(column[learned], column[held]) for column in task.target.T]
    place = np.full(task.outputs, -1)
    place[kept] = np.arange(len(kept))
    labels = place[task.target.argmax(1)]
    return [(labels[learned], labels[held])]


@dataclass(frozen=True)
class Boosted:
    """Trees of one fold: a model for each output, or one for all classes that its rows have."""

    models: tuple[Any, ...]
    link: str
    kept: Index
    outputs: int
    rare: float  # the probability of a class that its rows lack

    def __call__(self, view: View) -> Array:
        """Predictions (rows, outputs)."""
        plain = view.plain
        said = np.column_stack([model(plain) for model in self.models])
        if self.link != "softmax":
            return said
        if len(self.kept) == 2 and said.shape[1] == 1:
            said = np.column_stack([-said / 2, said / 2])
        logits = np.full((len(plain), self.outputs), np.log(self.rare))
        logits[:, self.kept] = log_softmax(said, 1)
        return logits


@dataclass(frozen=True)
class Flat:
    """The same for all rows: boosting refuses to learn from one class, and from counts that are all zero."""

    value: float

    def __call__(self, plain: Array) -> Array:
        """The value."""
        return np.full(len(plain), self.value)


@dataclass(frozen=True)
class Native:
    """LightGBM's trees, which speak in the link's units when asked for raw scores."""

    booster: Any
    threads: int

    def __call__(self, plain: Array) -> Array:
        """Raw scores."""
        return np.asarray(self.booster.predict(plain, raw_score=True, num_threads=self.threads))


def _lightgbm(task: Task, growth: Growth, fold: int, learned: Any, held: Any, classes: int) -> Native:
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

    def rows(part: Any, like: Any = None) -> Any:
        x, y, weight = part
        return lightgbm.Dataset(x, y, weight=weight, reference=like, categorical_feature=categories, params=options)

    train = rows(learned)
    if not len(held[0]):
        return Native(lightgbm.train(options, train, max(1, growth.rounds // 10)), task.threads)
    watch: list[Any] = [lightgbm.early_stopping(growth.patience, verbose=False), lambda state: task.check_time()]
    trees = lightgbm.train(options, train, growth.rounds, valid_sets=[rows(held, train)], callbacks=watch)
    return Native(trees, task.threads)


@dataclass(frozen=True)
class Histogram:
    """scikit-learn's trees."""

    trees: Any
    link: str

    def __call__(self, plain: Array) -> Array:
        """Predictions in the link's units."""
        if self.link == "softmax":
            return np.log(np.maximum(self.trees.predict_proba(plain), TINY))
        said = np.asarray(self.trees.predict(plain))
        return said if self.link == "identity" else np.log(np.maximum(said, TINY))


def _scikit_learn(task: Task, growth: Growth, fold: int, learned: Any, held: Any, classes: int) -> Histogram:
    growth = replace(growth, rate=2 * growth.rate, rounds=growth.rounds // 2, patience=growth.patience // 2)  # slower
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
    judged: dict[str, Any] = {"X_val": held[0], "y_val": held[1], "sample_weight_val": held[2]}
    if not len(held[0]) or (task.link == "log" and not held[1].any()):  # scikit-learn refuses counts that are all zero
        judged, options["max_iter"] = {}, max(1, growth.rounds // 10)
    if task.link == "softmax":
        trees: Any = HistGradientBoostingClassifier(early_stopping=bool(judged), **options)
    else:
        loss = {"identity": "squared_error", "log": "poisson", "gamma": "gamma"}[task.link]
        trees = HistGradientBoostingRegressor(loss=loss, early_stopping=bool(judged), **options)
    x, y, weight = learned
    empty = np.isnan(x).all(0)  # scikit-learn finds no bins for a column without values
    x = np.where(empty, 0.0, x) if empty.any() else x
    return Histogram(trees.fit(x, y, sample_weight=weight, **judged), task.link)


def fit_shallow(task: Task) -> Member:
    """Boosted trees of few leaves: what is left to trees where most of a target is noise."""
    return fit_boosting(task, SHALLOW)
