"""Folds that do not depend on the order of rows, and a test of which columns tell about a target."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from likely._rows.contents import frame_keys
from likely._rows.folds import deal
from likely._typing import Index

Progress = Callable[[float], None]
Groups = Index | None

FOLDS = 5
FITTED = 20_000  # rows a model is fitted to, at most; all rows are predicted


def fold_out(n: int, seed: int, most: int = FITTED, groups: Groups = None) -> Iterator[tuple[Index, Index]]:
    """Rows to fit, at most so many, and rows to predict, for each fold; rows of one group are in the same fold.

    >>> [(len(fit), len(held)) for fit, held in fold_out(1000, seed=0, most=500)]
    [(500, 200), (500, 200), (500, 200), (500, 200), (500, 200)]
    """
    random = np.random.RandomState(seed)
    member = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    for fold in deal(int(member.max()) + 1, FOLDS, random):
        inside = np.isin(member, fold)
        yield np.sort(random.permutation(np.flatnonzero(~inside))[:most]), np.flatnonzero(inside)


def by_content(typed: pd.DataFrame, rows: Index) -> Index:
    """Row numbers in an order that follows from what the rows hold, so that folds do not depend on where a row stands.

    Equal rows stay in the order they had.

    >>> table = pd.DataFrame({"a": [3.0, 1.0, 2.0]})
    >>> order = by_content(table, np.arange(3))
    >>> turned = by_content(table[::-1].reset_index(drop=True), np.arange(3))
    >>> bool((table["a"].to_numpy()[order] == table["a"].to_numpy()[::-1][turned]).all())
    True
    """
    return np.asarray(rows[np.argsort(frame_keys(typed)[rows], kind="stable")])


def screening(test: Any) -> Any:
    """A screening test under which a column that does not vary tells nothing, instead of NaN and a warning."""

    def score(X: Any, y: Any) -> Any:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.nan_to_num(test(X, y)[0], nan=-1.0)

    return score
