"""Labels and targets as models expect them that have not seen them: out of fold, and for changed or further rows.

Probabilities of labels are the mean of two models that err differently. They are not calibrated, on purpose. Where one
label in twenty is wrong, a calibrated model is nowhere surer than 95%, and no label surprises it; how sure the models
may be is left to the fit that also knows of wrong labels.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from likely._typing import Array, Floats, Index, Places
from likely.auditing.target import held_out
from likely.auditing.target.held_out import FITTED, fold_out
from likely.auditing.target.label_verdict import judge_labels
from likely.tabular import LikelihoodRegressor

TREES, ROUNDS = 100, 100  # of forests, of boosting
DEALS = 3  # of folds, where rows are few; in the later ones labels count as they are likely to be right
FEW = 2_000  # rows up to which folds are dealt several times, and all kinds of models of a target are tried
_MANY = 10_000  # rows from which boosting is stronger than a forest, and far quicker
WIDE = 300  # columns from which trees alone are better than with a line, and quicker
_FLOOR = 1e-4  # of a probability: a forest that never saw a class here has not ruled it out
_DOUBTED = 0.02  # weight of a label that is surely wrong
_FARTHEST = 12.0  # squashed units: a target further out counts as so far
_CLIP_SCALES = 3.0  # the same for boosting, which has no doubts of its own
Progress = Callable[[float], None]
Groups = Index | None


class LabelForecast(NamedTuple):
    """The log-probability of every class for every row; ``again`` predicts further rows."""

    log_p: Array
    again: Callable[[Any], Array]


class TargetForecast(NamedTuple):
    """The expected target of every row and, to a common factor, its deviation; ``again`` predicts further rows."""

    mean: Array
    scale: Array | None
    again: Callable[[Any], tuple[Array, Array | None]]

    def expected(self, rows: Any) -> Array:
        """The expected targets of changed rows."""
        return self.again(rows)[0]


def classify(
    X: Floats, y: Places, seed: int, progress: Progress = lambda _: None, groups: Groups = None
) -> LabelForecast:
    """Predict the log-probabilities of labels out of fold.

    Where rows are few, folds are dealt several times, and in the later deals a label weighs as much as it is likely to
    be right by the earlier ones: a wrong label misleads the models that are to find the others.
    """
    classes, deals = int(y.max()) + 1, DEALS if len(y) <= FEW else 1
    weight = np.ones(len(y))
    for number in range(deals):
        if number < 2:  # what models of the first deal say is bent by labels that were then found to be wrong
            total = np.zeros((len(y), classes))
        fitted: list[Any] = []
        for done, (fit, rows) in enumerate(fold_out(len(y), seed + number, groups=groups), start=1):
            models = _fit_classifiers(X[fit], y[fit], weight[fit])
            total[rows] += _mean_probabilities(models, X[rows], classes)
            fitted = models if len(y) > FITTED else fitted + models  # of so many rows those of a fold learn enough
            progress((number + done / held_out.FOLDS) / deals)
        if number + 1 < deals:
            wrong = judge_labels(_bounded_logs(total), y, None, seed).wrong
            weight = np.maximum(1 - np.nan_to_num(wrong), _DOUBTED)  # nothing speaks against what is not judged
    return LabelForecast(_bounded_logs(total), lambda rows: _bounded_logs(_mean_probabilities(fitted, rows, classes)))


def _fit_classifiers(X: Floats, y: Places, weight: Array) -> list[Any]:
    """A forest, or boosting where rows are many, and a line, unless columns are many."""
    if len(np.unique(y)) == 1:
        return [DummyClassifier().fit(X, y)]
    trees: Any = ExtraTreesClassifier(TREES, min_samples_leaf=2, random_state=0)
    if len(y) >= _MANY:
        trees = HistGradientBoostingClassifier(max_iter=ROUNDS, early_stopping=False, random_state=0)
    tamed = FunctionTransformer(np.clip, kw_args={"a_min": -5, "a_max": 5})
    models = [
        make_pipeline(_filled(add_indicator=True), trees),
        make_pipeline(_filled(), StandardScaler(), tamed, LogisticRegression(C=0.3, max_iter=300)),
    ]
    models = models[:1] if X.shape[1] > WIDE else models
    return [model.fit(X, y, **{f"{model.steps[-1][0]}__sample_weight": weight}) for model in models]


def _mean_probabilities(models: list[Any], X: Any, classes: int) -> Array:
    mean = np.zeros((len(X), classes))
    for model in models:
        mean[:, model.classes_] += model.predict_proba(X) / len(models)
    return mean


def _filled(**options: Any) -> SimpleImputer:
    return SimpleImputer(strategy="median", keep_empty_features=True, **options)


def _bounded_logs(p: Array) -> Array:
    """Logarithms of probabilities, none of which is zero."""
    floored = np.maximum(p / p.sum(1, keepdims=True), _FLOOR / p.shape[1])
    return np.log(floored / floored.sum(1, keepdims=True))


def regress(X: Any, u: Array, seed: int, progress: Progress = lambda _: None, groups: Groups = None) -> TargetForecast:
    """Predict squashed targets out of fold."""
    if len(u) > FITTED or X.shape[1] > WIDE:
        return _boosted(X, u, seed, progress, groups)
    kinds: Any = "auto" if len(u) < FEW else ["linear", "kernel", "boosting"]
    several = groups if groups is not None and 1 < len(np.unique(groups)) < len(groups) else None
    model = LikelihoodRegressor(kinds, cv=held_out.FOLDS, random_state=seed)
    model.fit(X, np.clip(u, -_FARTHEST, _FARTHEST), groups=several)
    return TargetForecast(model.out_of_fold_, model.out_of_fold_std_, lambda rows: model.predict(rows, return_std=True))


def _boosted(X: Any, u: Array, seed: int, progress: Progress, groups: Groups) -> TargetForecast:
    """Boosting alone, where rows or columns are many, fitted to some rows of each fold: scales are left to a line."""
    X, mean = np.asarray(X), np.empty(len(u))
    models = []
    for done, (fit, rows) in enumerate(fold_out(len(u), seed, groups=groups), start=1):
        boosting = HistGradientBoostingRegressor(max_iter=ROUNDS, early_stopping=False, random_state=0)
        model = make_pipeline(_filled(add_indicator=True), boosting)
        models.append(model.fit(X[fit], np.clip(u[fit], -_CLIP_SCALES, _CLIP_SCALES)))
        mean[rows] = model.predict(X[rows])
        progress(done / held_out.FOLDS)
    kept = models[:1] if len(u) > FITTED else models  # five take five times as long
    return TargetForecast(mean, None, lambda rows: (np.mean([model.predict(rows) for model in kept], axis=0), None))
