"""Categories: how surprising a level is, counted against how surprising the levels of other rows are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from likely._typing import Array


@dataclass(frozen=True)
class Levels:
    """The surprise of each level of a category, in nats.

    A level that c rows have is as surprising as the share of rows that have a level as rare: minus the log of that
    share, with half a row added to it. Rows are counted as if each had been left out, so that a level that was never
    seen is as surprising as the levels that are seen once: where every row has a level of its own, not at all.
    """

    codes: dict[Any, int]
    nats: Array  # by code, and last of a level that was never seen
    unseen: Array  # what a row of the level has if it is left out
    usual: float

    @classmethod
    def learn(cls, codes: dict[Any, int], column: Array, weight: Array) -> Self:
        """From the codes of a column, NaN where a value is missing."""
        seen = ~np.isnan(column)
        mass = np.bincount(column[seen].astype(np.intp), weight[seen], minlength=len(codes) + 1).astype(np.float64)
        order = np.argsort(mass)
        below = np.append(0.0, np.cumsum(mass[order]))

        def surprise(count: Array) -> Array:
            rarer = below[np.searchsorted(mass[order], count + 1 + 1e-9, "right")]
            found: Array = -np.log((rarer + 0.5) / (below[-1] + 0.5))
            return found

        nats = surprise(mass)
        usual = float(mass @ nats / below[-1]) if below[-1] > 0 else 0.0
        return cls(codes, nats, surprise(np.maximum(mass - 1, 0.0)), usual)
