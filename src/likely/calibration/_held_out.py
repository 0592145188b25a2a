"""Rows held out, dealt by what they hold, and the part of a gain that exceeds its standard errors.

A row's fold follows from its numbers, not from its place: the order of rows does not matter, and a row that is there
twice is in one fold, as a row of weight two is.
"""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._contents import Keys, mixed
from likely._contents import contents as contents
from likely._rows.blocks import Rows


def fold_numbers(keys: Keys, folds: int, seed: int, ties: NDArray[Any]) -> NDArray[np.int64]:
    """Return the fold of every row: equal rows share one, unless there are fewer than two kinds of row per fold.

    The folds are not stratified. With equal shares of every class, held-out rows would repeat the class frequencies of
    the rows fitted, and biases that follow chance frequencies would look good.

    Args:
        keys: what :func:`contents` makes of the rows.
        folds: number of folds.
        seed: another seed deals the rows otherwise.
        ties: a number per row, such as its label, that orders equal rows where these have to be dealt out.

    Returns:
        Array of shape (rows,), from 0 to ``folds`` - 1.
    """
    shuffled = mixed(keys ^ mixed(np.full(1, seed % 2**63, dtype=np.uint64)))
    kinds, kind = np.unique(shuffled, return_inverse=True)
    if len(kinds) >= 2 * folds:
        return kind.reshape(-1) % folds
    number = np.empty(len(keys), dtype=np.int64)
    number[np.lexsort((ties, shuffled))] = np.arange(len(keys)) % folds
    return number


def deal_by_content(keys: Keys, folds: int, seed: int, ties: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Return the row numbers of each fold; see :func:`fold_numbers`."""
    number = fold_numbers(keys, folds, seed, ties)
    return [np.flatnonzero(number == fold) for fold in np.unique(number)]


def deal(n: int, folds: int, random: np.random.RandomState) -> list[NDArray[np.int64]]:
    """Return row numbers dealt at random into folds, for rows of which nothing else is known."""
    dealt = random.permutation(n)
    return [dealt[k::folds] for k in range(min(folds, n))]


@overload
def take(rows: Rows, index: NDArray[np.int64]) -> Rows: ...
@overload
def take(rows: None, index: NDArray[np.int64]) -> None: ...
def take(rows: Rows | None, index: NDArray[np.int64]) -> Rows | None:
    """Some of the rows, in memory."""
    return None if rows is None else rows.taken(index)


def sure(gain: Tensor, margin: float, weight: Tensor | None = None) -> float:
    """The sum of the rows' gains, less ``margin`` standard errors of it; a row of weight two counts as two rows."""
    count = torch.ones_like(gain) if weight is None else weight.to(gain)
    total = float(count.sum())
    mean = float((count * gain).sum()) / total
    spread = math.sqrt(float((count * (gain - mean).square()).sum()) / total)
    return total * mean - margin * math.sqrt(total) * spread
