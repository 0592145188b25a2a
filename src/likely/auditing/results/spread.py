"""The scores of all rows of a table, of which the highest and some of the others are kept."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from likely._typing import Array

_KEPT = 1_000_000  # values that stand for all
_HIGHEST = 100_000  # values that are kept as they are, of more


class Weighted(NamedTuple):
    """Values, and the number of rows that each stands for; None if it is one."""

    values: Array
    weights: Array | None


class Spread(NamedTuple):
    """Values of all rows.

    >>> values, weights = Spread.of(np.arange(3_000_000) % 7).summary()
    >>> round(float(weights.sum())) == 3_000_000, float(values.max())
    (True, 6.0)
    """

    values: Array

    @classmethod
    def of(cls, values: Any, _rows: int = 0) -> Self:
        """From the values of all rows."""
        return cls(np.asarray(values, np.float64))

    def summary(self) -> Weighted:
        """The values, and of how many rows each is: of very many the highest, and every so many-th of the others."""
        n, stride = len(self.values), max(1, len(self.values) // _KEPT)
        if stride == 1:
            return Weighted(self.values, None)
        highest = np.partition(self.values, -_HIGHEST)[-_HIGHEST:]
        others = self.values[::stride]
        others = others[others < highest.min()]
        if not len(others):  # all others equal the lowest of the highest
            others = highest.min(keepdims=True)
        weights = np.full(len(others), (n - _HIGHEST) / len(others))
        return Weighted(np.append(highest, others), np.append(np.ones(_HIGHEST), weights))
