"""The scores of all rows of a table, of which the highest and some of the others are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from likely._typing import Array

_KEPT = 1_000_000  # values that stand for all
_HIGHEST = 100_000  # values that are kept as they are, of more


class Weighted(NamedTuple):
    """Values, and the number of rows that each stands for; None if it is one."""

    values: Array
    weights: Array | None


@dataclass
class Spread:
    """Values of all rows: the highest as they are, and every so many-th of the others, each for as many.

    >>> spread = Spread(3_000_000)
    >>> for start in range(0, 3_000_000, 1_000_000):
    ...     spread.add(np.arange(start, start + 1_000_000) % 7)
    >>> values, weights = spread.summary()
    >>> round(float(weights.sum())) == 3_000_000, float(values.max())
    (True, 6.0)
    """

    rows: int
    _highest: Array = field(default_factory=lambda: np.zeros(0))
    _others: list[Array] = field(default_factory=list)
    _seen: int = 0

    @classmethod
    def of(cls, values: Any, rows: int) -> Self:
        """Of one block."""
        spread = cls(rows)
        spread.add(values)
        return spread

    def add(self, values: Any) -> None:
        """Take in further rows."""
        scores = np.asarray(values, np.float64)
        stride = max(1, self.rows // _KEPT)
        self._others.append(scores[-self._seen % stride :: stride])
        self._seen += len(scores)
        if stride > 1:
            both = np.concatenate([self._highest, scores])
            self._highest = np.partition(both, -_HIGHEST)[-_HIGHEST:] if len(both) > _HIGHEST else both

    def summary(self) -> Weighted:
        """Values, and of how many rows each is."""
        others = np.concatenate([np.zeros(0), *self._others])
        if not len(self._highest):
            return Weighted(others, None)
        others = others[others < self._highest.min()]
        left = self._seen - len(self._highest)
        weight = np.full(len(others), left / max(1, len(others)))
        if left and not len(others):  # all others equal the lowest of the highest
            others, weight = self._highest.min(keepdims=True), np.array([float(left)])
        values = np.concatenate([self._highest, others])
        return Weighted(values, np.concatenate([np.ones(len(self._highest)), weight]))
