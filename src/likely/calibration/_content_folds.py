"""Folds of a table by what its rows hold: in any order, with a row twice or of weight two, they are the same."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely._contents import row_keys

Split = tuple[NDArray[np.intp], NDArray[np.intp]]


def split_by_content(X: Any, folds: int, codes: NDArray[np.int64] | None = None) -> list[Split]:
    """Return training and test rows of each fold; equal rows share a fold, and classes are spread evenly.

    Args:
        X: table of any kind that scikit-learn takes.
        folds: number of folds.
        codes: the class of each row as an integer; None where there are no classes.

    Returns:
        A list of pairs of row numbers. A class with fewer different rows than folds has its rows dealt one by one.
    """
    keys = row_keys(X)
    number, start = np.empty(len(keys), dtype=np.intp), 0
    codes = np.zeros(len(keys), dtype=np.int64) if codes is None else codes
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        kinds, kind = np.unique(keys[rows], return_inverse=True)
        if len(kinds) < folds:
            kind = np.empty(len(rows), dtype=np.intp)
            kind[np.argsort(keys[rows], kind="stable")] = np.arange(len(rows))
        number[rows] = (start + kind.reshape(-1)) % folds
        start += int(kind.max()) + 1
    everyone = np.arange(len(keys))
    parts = [everyone[number == fold] for fold in range(folds)]
    return [(everyone[number != fold], part) for fold, part in enumerate(parts) if len(part)]


def deals_itself(cv: Any) -> bool:
    """Return whether ``cv`` leaves the dealing of rows to us: a number of folds, None, or ``"prefit"``."""
    return cv is None or isinstance(cv, Integral | str)
