"""The folds of an audit."""

from collections.abc import Iterator

import numpy as np

from likely._rows.contents import deal
from likely._typing import Index

FOLDS = 5
FITTED = 20_000  # rows a model is fitted to, at most; all rows are predicted


def fold_out(n: int, seed: int, most: int = FITTED, groups: Index | None = None) -> Iterator[tuple[Index, Index]]:
    """Rows to fit, at most so many, and rows to predict, for each fold; rows of one group are in the same fold.

    >>> [(len(fit), len(held)) for fit, held in fold_out(1000, seed=0, most=500)]
    [(500, 200), (500, 200), (500, 200), (500, 200), (500, 200)]
    """
    random = np.random.RandomState(seed)
    member = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    for fold in deal(int(member.max()) + 1, FOLDS, random):
        inside = np.isin(member, fold)
        yield np.sort(random.permutation(np.flatnonzero(~inside))[:most]), np.flatnonzero(inside)
