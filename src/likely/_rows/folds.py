"""Folds: which rows are held out together, dealt by what they hold.

A row's fold follows from its numbers, not from its place: the order of rows does not matter, and a row that is there
twice is in one fold, as a row of weight two is.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely._rows.contents import Keys, mixed, row_keys
from likely._typing import Index

Split = tuple[Index, Index]
_MANY = 100  # different rows per fold, from which folds are about equal however rows are dealt


def fold_numbers(
    keys: Keys, cv: int, *, random_state: int = 0, ties: NDArray[Any] | None = None, strata: NDArray[Any] | None = None
) -> Index:
    """Return the fold of every row: equal rows share one, unless there are fewer than two kinds of row per fold.

    Without ``strata`` classes are not spread evenly. With equal shares of every class, held-out rows would repeat the
    class frequencies of the rows fitted, and biases that follow chance frequencies would look good.

    Args:
        keys: what :func:`~likely._rows.contents.contents` makes of the rows.
        cv: number of folds.
        random_state: another number deals the rows otherwise.
        ties: a number per row, such as its label, that orders equal rows where these have to be dealt out.
        strata: the group of each row, such as its class, where every group is to be spread over the folds.

    Returns:
        Array of shape (rows,), from 0 to ``cv`` - 1.
    """
    shuffled = mixed(keys ^ mixed(np.full(1, random_state % 2**63, dtype=np.uint64)))
    ties = np.zeros(len(keys)) if ties is None else ties
    if strata is None:
        return _places(shuffled, 2 * cv, cv, ties) % cv
    number, start = np.empty(len(keys), dtype=np.intp), 0
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        place = _places(shuffled[rows], cv, cv, ties[rows])
        number[rows] = (start + place) % cv
        start = (start + int(place.max()) + 1) % cv
    return number


def _places(keys: Keys, kinds_needed: int, cv: int, ties: NDArray[Any]) -> Index:
    """Numbers that deal rows to folds by their remainders; equal rows share one where there are kinds enough."""
    kinds, kind = np.unique(keys, return_inverse=True)
    if len(kinds) >= _MANY * cv:
        # By the key itself: a row that changes, if only in a last digit, moves no other. Folds are not quite equal.
        return (keys >> np.uint64(2)).astype(np.intp)
    if len(kinds) >= kinds_needed:
        return kind.reshape(-1)
    place = np.empty(len(keys), dtype=np.intp)
    place[np.lexsort((ties, keys))] = np.arange(len(keys))
    return place


def splits_of(number: Index) -> list[Split]:
    """Return the rows outside and inside each fold that has any."""
    return [(np.flatnonzero(number != fold), np.flatnonzero(number == fold)) for fold in np.unique(number)]


def split_by_content(X: Any, cv: int, strata: NDArray[Any] | None = None) -> list[Split]:
    """Return the numbers of training and test rows of each fold of a table of any kind that scikit-learn takes.

    A class (``strata``) with fewer different rows than folds has its rows dealt one by one.
    """
    return splits_of(fold_numbers(row_keys(X), cv, strata=strata))


def deal(n: int, cv: int, random: np.random.RandomState) -> list[NDArray[np.int64]]:
    """Return row numbers dealt at random into folds, for rows of which nothing else is known."""
    dealt = random.permutation(n)
    return [dealt[k::cv] for k in range(min(cv, n))]


def deals_itself(cv: Any) -> bool:
    """Return whether ``cv`` leaves the dealing of rows to us: a number of folds, None, or ``"prefit"``."""
    return cv is None or isinstance(cv, Integral | str)
