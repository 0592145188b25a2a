"""Probabilities of labels by models that have not seen them: the mean of two that err differently.

They are not calibrated, on purpose. Where one label in twenty is wrong, a calibrated model is nowhere surer than 95%,
and no label surprises it; how sure the models may be is left to the fit that also knows of wrong labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from likely._rows.blocks import row_blocks
from likely._typing import Array, Places
from likely.auditing.target.folds import FOLDS, Groups, Progress, fold_out, screening
from likely.auditing.target.label_verdict import judge_labels

TREES, ROUNDS = 100, 100  # of forests, of boosting
DEALS = 3  # of folds, where rows are few; in the later ones labels count as they are likely to be right
_FEW = 2_000
_MANY = 10_000  # rows from which boosting is stronger than a forest, and far quicker
_WIDE = 300  # columns models read; of more, those that tell most about the labels in the rows fitted
_PREDICTED = 100_000  # rows at a time
_FLOOR = 1e-4  # of a probability: a forest that never saw a class here has not ruled it out
_DOUBTED = 0.02  # weight of a label that is surely wrong


@dataclass(frozen=True)
class LabelForecast:
    """The log-probability of every class for every row; ``again`` predicts changed rows."""

    log_p: Array
    again: Callable[[NDArray[np.float32]], Array]


def classify(
    X: NDArray[np.float32],
    y: Places,
    seed: int,
    progress: Progress = lambda _: None,
    groups: Groups = None,
) -> LabelForecast:
    """Predict the log-probabilities of labels out of fold.

    Where rows are few, folds are dealt several times, and in the later deals a label weighs as much as it is likely to
    be right by the earlier ones: a wrong label misleads the models that are to find the others.
    """
    classes, deals = int(y.max()) + 1, DEALS if len(y) <= _FEW else 1
    total, weight = np.zeros((len(y), classes)), np.ones(len(y))
    fitted: list[Any] = []
    for number in range(deals):
        # What models of the first deal say is bent by labels that were then found to be wrong.
        total = total if number > 1 else np.zeros((len(y), classes))
        fitted = []
        for done, (fit, rows) in enumerate(fold_out(len(y), seed + number, groups=groups), start=1):
            models = fit_models(X[fit], y[fit], weight[fit])
            for part in row_blocks(len(rows), numbers=_PREDICTED):
                total[rows[part]] += mean_probabilities(models, X[rows[part]], classes)
            fitted += models
            progress((number * FOLDS + done) / (deals * FOLDS))
        if number + 1 < deals:
            weight = np.maximum(1 - judge_labels(bounded_logs(total), y, None, seed).wrong, _DOUBTED)
    return LabelForecast(bounded_logs(total), lambda rows: bounded_logs(mean_probabilities(fitted, rows, classes)))


def fit_models(X: NDArray[np.float32], y: Places, weight: Array) -> list[Any]:
    """A forest, or boosting where rows are many, and a line."""
    if len(np.unique(y)) == 1:
        return [DummyClassifier().fit(X, y)]
    forest = make_pipeline(_filled(add_indicator=True), ExtraTreesClassifier(TREES, min_samples_leaf=2, random_state=0))
    boosting = make_pipeline(HistGradientBoostingClassifier(max_iter=ROUNDS, early_stopping=False, random_state=0))
    tamed = FunctionTransformer(np.clip, kw_args={"a_min": -5, "a_max": 5})
    line = make_pipeline(_filled(), StandardScaler(), tamed, LogisticRegression(C=0.3, max_iter=300))
    models = [forest if len(y) < _MANY else boosting, line]
    if X.shape[1] > _WIDE:
        screen = SelectKBest(screening(f_classif), k=_WIDE)
        models = [make_pipeline(_filled(), screen, *(step for _, step in model.steps)) for model in models]
    return [model.fit(X, y, **{f"{model.steps[-1][0]}__sample_weight": weight}) for model in models]


def mean_probabilities(models: list[Any], X: NDArray[np.float32], classes: int) -> Array:
    """The mean of what models say."""
    mean = np.zeros((len(X), classes))
    for model in models:
        mean[:, model.classes_] += model.predict_proba(X) / len(models)
    return mean


def _filled(**options: Any) -> SimpleImputer:
    return SimpleImputer(strategy="median", keep_empty_features=True, **options)


def bounded_logs(p: Array) -> Array:
    """Logarithms of probabilities, none of which is zero."""
    floored = np.maximum(p / p.sum(1, keepdims=True), _FLOOR / p.shape[1])
    return np.asarray(np.log(floored / floored.sum(1, keepdims=True)))
