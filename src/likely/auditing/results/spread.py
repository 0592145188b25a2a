"""The scores of all rows of a table, of which the highest and some of the others are kept."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from likely._typing import Array

_KEPT = 1_000_000  # values that stand for all
_HIGHEST = 100_000  # values that are kept as they are, of more


class Weighted(NamedTuple):
    """Values, and the number of rows that each stands for; None if it is one."""

    values: Array
    weights: Array | None


def spread_of(values: Array) -> Weighted:
    """Scores of all rows, and of how many rows each is: of very many the highest, and every so many-th of the others.

    >>> values, weights = spread_of(np.arange(3_000_000) % 7)
    >>> round(float(weights.sum())) == 3_000_000, float(values.max())
    (True, 6.0)
    """
    n, stride, values = len(values), max(1, len(values) // _KEPT), np.asarray(values, np.float64)
    if stride == 1:
        return Weighted(values, None)
    highest = np.partition(values, -_HIGHEST)[-_HIGHEST:]
    others = values[::stride]
    others = others[others < highest.min()]
    if not len(others):  # all others equal the lowest of the highest
        others = highest.min(keepdims=True)
    weights = np.full(len(others), (n - _HIGHEST) / len(others))
    return Weighted(np.append(highest, others), np.append(np.ones(_HIGHEST), weights))
