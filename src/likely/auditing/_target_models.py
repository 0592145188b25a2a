"""Expected targets, and how far off they may be, by the package's own estimator of tables that has not seen them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing

from likely._rows.blocks import row_blocks
from likely._typing import Array
from likely.auditing._out_of_fold import Groups, Progress, screening
from likely.tabular import LikelihoodRegressor

FITTED = 20_000  # rows that models are fitted to, at most; all rows are predicted
FOLDS, FEWER = 5, 3  # folds, and how many where more rows than those fitted are to be predicted
FEW = 2_000  # rows below which all kinds of models are tried
WIDE = 300  # columns that models read; of more, those that tell most about the target in the rows fitted
_FARTHEST = 12.0  # squashed units: a target further out counts as so far
_PREDICTED = 50_000  # rows at a time
_TREES = 100
_LINES = 4  # members that are usually fitted, for the share that is done


@dataclass(frozen=True)
class TargetForecast:
    """The expected target of every row and its deviation (to a common factor); ``again`` predicts changed rows."""

    mean: Array
    scale: Array
    again: Callable[[Any], tuple[Array, Array]]


def regress(X: Any, u: Array, seed: int, progress: Progress = lambda _: None, groups: Groups = None) -> TargetForecast:
    """Predict squashed targets out of fold.

    Args:
        X: frame, or array of numbers with gaps, of shape (rows, columns).
        u: squashed targets of shape (rows,).
        seed: for the folds, and for the rows that are fitted where there are too many.
        progress: is told the share that is done.
        groups: the group of each row; rows of one group are held out together.

    Returns:
        The forecast of every row.
    """
    fit, rest = sampled(len(u), groups, seed)
    tame = np.clip(u, -_FARTHEST, _FARTHEST)
    kinds: Any = "auto" if len(fit) < FEW else ["linear", "kernel", "boosting"]
    if len(rest):
        kinds = ["linear", "boosting"]
    elif X.shape[1] > WIDE:
        kinds = [_screened(ExtraTreesRegressor(_TREES, min_samples_leaf=3, random_state=0))]
    model = LikelihoodRegressor(
        kinds,
        cv=FEWER if len(rest) else FOLDS,
        random_state=seed,
        verbose=_counted(progress, 0.0, 0.5 if len(rest) else 1.0),
    )
    model.fit(_safe_indexing(X, fit), tame[fit], groups=_several(groups, fit))

    def again(rows: Any) -> tuple[Array, Array]:
        mean, deviation = model.predict(rows, return_std=True)
        return mean, deviation

    mean, scale = np.empty(len(u)), np.empty(len(u))
    mean[fit], scale[fit] = model.out_of_fold_, model.out_of_fold_std_
    for part in row_blocks(len(rest), numbers=_PREDICTED):
        mean[rest[part]], scale[rest[part]] = again(_safe_indexing(X, rest[part]))
        progress(0.5 + 0.5 * part.stop / len(rest))
    progress(1.0)
    return TargetForecast(mean, scale, again)


def sampled(n: int, groups: Groups, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to fit, all or at most so many, and the rest: no group has rows in both.

    >>> fit, rest = sampled(50_000, np.arange(50_000) // 2, seed=0)
    >>> len(fit), len(np.intersect1d(fit // 2, rest // 2))
    (20000, 0)
    """
    if n <= FITTED:
        return np.arange(n), np.zeros(0, np.int64)
    member = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    sizes = np.bincount(member)
    order = np.random.RandomState(seed).permutation(len(sizes))
    order = order[sizes[order] <= FITTED // 10]  # the copies of one row are no sample
    chosen = np.zeros(len(sizes), bool)
    chosen[order[np.cumsum(sizes[order]) <= FITTED]] = True
    if not chosen.any():
        chosen[:] = np.random.RandomState(seed).uniform(size=len(sizes)) < 0.5
    return np.flatnonzero(chosen[member]), np.flatnonzero(~chosen[member])


def _screened(forest: Any) -> Any:
    """A forest on the columns that tell most about the target in the rows it is fitted to."""
    filled = SimpleImputer(strategy="median", keep_empty_features=True)
    return make_pipeline(filled, SelectKBest(screening(f_regression), k=WIDE), forest)


def _several(groups: Groups, rows: NDArray[np.int64]) -> Any:
    """The groups of some rows, or None where each is alone or all are together."""
    if groups is None:
        return None
    count = len(np.unique(groups[rows]))
    return groups[rows] if 1 < count < len(rows) else None


def _counted(progress: Progress, begin: float, share: float) -> Callable[[str], None]:
    """Tell the share that is done whenever another member is fitted."""
    done = 0

    def tell(_line: str) -> None:
        nonlocal done
        done += 1
        progress(begin + share * done / (done + max(1, _LINES - done)))

    return tell
