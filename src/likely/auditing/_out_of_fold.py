"""Predictions for rows that the models were not fitted to: the mean of two that err differently."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from likely._rows.blocks import row_blocks
from likely._rows.contents import frame_keys
from likely._rows.folds import deal
from likely._typing import Array

Progress = Callable[[float], None]
Groups = NDArray[np.int64] | None

FOLDS = 5
FITTED = 20_000  # rows a model is fitted to, at most; all rows are predicted
TREES, ROUNDS = 100, 100  # of forests, of boosting
DEALS = 2  # of folds, where rows are few: the luck of the deal is larger than what a second one costs
_FEW = 2_000
_MANY = 10_000  # rows from which boosting is stronger than a forest, and far quicker
_WIDE = 300  # columns models read; of more, those that tell most about the target in the rows fitted
_PREDICTED = 100_000  # rows at a time
_FLOOR = 1e-4  # of a probability: a forest that never saw a class here has not ruled it out


def fold_out(
    n: int, seed: int, most: int = FITTED, groups: Groups = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows to fit, at most so many, and rows to predict, for each fold; rows of one group are in the same fold.

    >>> [(len(fit), len(held)) for fit, held in fold_out(1000, seed=0, most=500)]
    [(500, 200), (500, 200), (500, 200), (500, 200), (500, 200)]
    """
    random = np.random.RandomState(seed)
    member = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    for fold in deal(int(member.max()) + 1, FOLDS, random):
        inside = np.isin(member, fold)
        yield np.sort(random.permutation(np.flatnonzero(~inside))[:most]), np.flatnonzero(inside)


def by_content(typed: pd.DataFrame, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row numbers in an order that follows from what the rows hold, so that folds do not depend on where a row stands.

    Equal rows stay in the order they had.

    >>> table = pd.DataFrame({"a": [3.0, 1.0, 2.0]})
    >>> order = by_content(table, np.arange(3))
    >>> turned = by_content(table[::-1].reset_index(drop=True), np.arange(3))
    >>> bool((table["a"].to_numpy()[order] == table["a"].to_numpy()[::-1][turned]).all())
    True
    """
    return np.asarray(rows[np.argsort(frame_keys(typed)[rows], kind="stable")])


def classify(
    X: NDArray[np.float32],
    y: NDArray[np.int64],
    seed: int,
    progress: Progress = lambda _: None,
    groups: Groups = None,
) -> Array:
    """The log-probability of every class for every row."""
    classes = int(y.max()) + 1
    mean = np.maximum(_held_out(X, y, seed, progress, groups, classes), _FLOOR / classes)
    return np.asarray(np.log(mean / mean.sum(1, keepdims=True)))


def regress(
    X: NDArray[np.float32], u: Array, seed: int, progress: Progress = lambda _: None, groups: Groups = None
) -> Array:
    """The expected target of every row. Targets beyond 3 count as 3: one with a wrong unit must not bend the model."""
    return _held_out(X, np.clip(u, -3, 3), seed, progress, groups)


def _held_out(
    X: NDArray[np.float32], y: NDArray[Any], seed: int, progress: Progress, groups: Groups, classes: int = 0
) -> Array:
    """The mean over deals and models of what they predict for rows held out: targets, or the share of each class."""
    n = len(y)
    mean = np.zeros((n, classes) if classes else n)
    deals = DEALS if n <= _FEW else 1
    for deal_number in range(deals):
        for done, (fit, rows) in enumerate(fold_out(n, seed + deal_number, groups=groups), start=1):
            models = _models(len(fit), X.shape[1], classify=classes > 0)
            if classes and len(np.unique(y[fit])) == 1:
                models = [DummyClassifier()]
            for model in models:
                fitted = model.fit(X[fit], y[fit])
                for part in row_blocks(len(rows), numbers=_PREDICTED):
                    held = rows[part]
                    if classes:
                        mean[np.ix_(held, fitted.classes_)] += fitted.predict_proba(X[held]) / (len(models) * deals)
                    else:
                        mean[held] += fitted.predict(X[held]) / (len(models) * deals)
            progress((deal_number * FOLDS + done) / (deals * FOLDS))
    return mean


def _models(rows: int, width: int, *, classify: bool) -> list[Any]:
    """Two models that err differently; for targets of many rows, boosting alone."""
    trees, boosted = (
        (ExtraTreesClassifier, HistGradientBoostingClassifier)
        if classify
        else (ExtraTreesRegressor, HistGradientBoostingRegressor)
    )
    forest = make_pipeline(
        _filled(add_indicator=True), trees(TREES, min_samples_leaf=2 if classify else 3, random_state=0)
    )
    boosting = boosted(max_iter=ROUNDS, early_stopping=False, random_state=0)
    tamed = FunctionTransformer(np.clip, kw_args={"a_min": -5, "a_max": 5})
    line = make_pipeline(_filled(), StandardScaler(), tamed, LogisticRegression(C=0.3, max_iter=300))
    few = rows < _MANY
    models = [forest if few else boosting, line] if classify else [boosting, forest] if few else [boosting]
    if width <= _WIDE:
        return models
    test = f_classif if classify else f_regression
    return [make_pipeline(_filled(), SelectKBest(_tells(test), k=_WIDE), model) for model in models]


def _filled(**options: Any) -> SimpleImputer:
    return SimpleImputer(strategy="median", keep_empty_features=True, **options)


def _tells(test: Any) -> Any:
    """A screening test under which a column that does not vary tells nothing, instead of NaN and a warning."""

    def score(X: Any, y: Any) -> Any:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.nan_to_num(test(X, y)[0], nan=-1.0)

    return score
