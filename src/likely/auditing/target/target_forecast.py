"""Expected targets, and how far off they may be, by the package's own estimator of tables that has not seen them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from likely._rows.blocks import row_blocks
from likely._typing import Array
from likely.auditing.target.folds import Groups, Progress, fold_out, screening
from likely.tabular import LikelihoodRegressor

FITTED = 20_000  # rows that models are fitted to, at most; all rows are predicted
FOLDS = 5
FEW = 2_000  # rows below which all kinds of models are tried
WIDE = 300  # columns that models read; of more, those that tell most about the target in the rows fitted
CLIP_SCALES = 3.0  # the same for boosting, which has no doubts of its own
_FARTHEST = 12.0  # squashed units: a target further out counts as so far
_PREDICTED = 50_000  # rows at a time
_TREES, ROUNDS = 100, 100  # of forests of wide tables, of boosting of long ones
_LINES = 4  # members that are usually fitted, for the share that is done


@dataclass(frozen=True)
class TargetForecast:
    """The expected target of every row and, to a common factor, its deviation; ``again`` predicts changed rows."""

    mean: Array
    scale: Array | None
    again: Callable[[Any], tuple[Array, Array]]


def regress(X: Any, u: Array, seed: int, progress: Progress = lambda _: None, groups: Groups = None) -> TargetForecast:
    """Predict squashed targets out of fold."""
    if len(u) > FITTED:
        return _long(X, u, seed, progress, groups)
    kinds: Any = "auto" if len(u) < FEW else ["linear", "kernel", "boosting"]
    if X.shape[1] > WIDE:
        kinds = [_screened(ExtraTreesRegressor(_TREES, min_samples_leaf=3, random_state=0))]
    model = LikelihoodRegressor(kinds, cv=FOLDS, random_state=seed, verbose=_counted(progress))
    model.fit(X, np.clip(u, -_FARTHEST, _FARTHEST), groups=_several(groups))
    progress(1.0)
    return TargetForecast(model.out_of_fold_, model.out_of_fold_std_, lambda rows: model.predict(rows, return_std=True))


def _long(X: Any, u: Array, seed: int, progress: Progress, groups: Groups) -> TargetForecast:
    """Boosting alone, fitted to some rows of each fold: scales are left to a line."""
    mean = np.empty(len(u))
    models = []
    for done, (fit, rows) in enumerate(fold_out(len(u), seed, most=FITTED, groups=groups), start=1):
        model = HistGradientBoostingRegressor(max_iter=ROUNDS, early_stopping=False, random_state=0)
        models.append(model.fit(X[fit], np.clip(u[fit], -CLIP_SCALES, CLIP_SCALES)))
        for part in row_blocks(len(rows), numbers=_PREDICTED):
            mean[rows[part]] = model.predict(X[rows[part]])
        progress(done / FOLDS)

    def again(rows: Any) -> tuple[Array, Array]:
        return np.mean([model.predict(rows) for model in models], axis=0), np.ones(len(rows))

    return TargetForecast(mean, None, again)


def _screened(forest: Any) -> Any:
    """A forest on the columns that tell most about the target in the rows it is fitted to."""
    filled = SimpleImputer(strategy="median", keep_empty_features=True)
    return make_pipeline(filled, SelectKBest(screening(f_regression), k=WIDE), forest)


def _several(groups: Groups) -> Any:
    """The groups of rows, or None where each is alone or all are together."""
    return groups if groups is not None and 1 < len(np.unique(groups)) < len(groups) else None


def _counted(progress: Progress) -> Callable[[str], None]:
    """Tell the share that is done whenever another member is fitted."""
    done = 0

    def tell(_line: str) -> None:
        nonlocal done
        done += 1
        progress(done / (done + max(1, _LINES - done)))

    return tell
