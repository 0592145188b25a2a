"""Folds: rows that are held out together, assigned by their contents.

The fold of a row depends on its values, not on its position: the order of rows does not matter, and two equal rows are
in the same fold, as a row of weight two is.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely._rows.contents import Keys, mixed, row_keys
from likely._typing import Index

Split = tuple[Index, Index]
MIN_HASHED_ROWS = 100  # distinct rows per fold from which folds of hashed rows have about equal size


def fold_numbers(
    keys: Keys, cv: int, *, random_state: int = 0, ties: NDArray[Any] | None = None, strata: NDArray[Any] | None = None
) -> Index:
    """Return the fold of every row: equal rows share one, unless there are fewer than two distinct rows per fold.

    Without ``strata`` classes are not spread evenly. With equal shares of every class, held-out rows would repeat the
    class frequencies of the rows fitted, and biases that follow chance frequencies would look good.
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
    """Return numbers whose remainders are the folds; equal rows share one if there are enough distinct rows."""
    kinds, kind = np.unique(keys, return_inverse=True)
    if len(kinds) >= MIN_HASHED_ROWS * cv:
        # By the key itself, so that a change of one row does not move others; folds are not exactly equal in size.
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

    The rows of a class (``strata``) with fewer distinct rows than folds are assigned one by one.
    """
    return splits_of(fold_numbers(row_keys(X), cv, strata=strata))


def deal(n: int, cv: int, random: np.random.RandomState) -> list[NDArray[np.int64]]:
    """Return random folds of row numbers, for rows of which only the number is known."""
    dealt = random.permutation(n)
    return [dealt[k::cv] for k in range(min(cv, n))]


def deals_itself(cv: Any) -> bool:
    """Return whether ``cv`` leaves the assignment of rows to us: a number of folds, None, or ``"prefit"``."""
    return cv is None or isinstance(cv, Integral | str)
