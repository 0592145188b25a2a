"""Which values a column of numbers may hold: within its range, whole if all are, not negative if none is."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from likely._typing import Array, Mask

_RULE = 0.97  # least share of values that are whole (or not negative) for that to be a rule of the column
_MOST = 5.0  # most nats that an exception to such a rule counts


class ColumnLimits(NamedTuple):
    """The range of a column, and how rare values in it are that are not whole, or that are negative.

    A tenth of a count of 7 is no count, and no percentage is negative.

    >>> counts = ColumnLimits.of(np.array([*range(100), 5.2]))
    >>> counts(np.array([52.0, 0.7, -7.0])).tolist(), counts.nats(np.array([52.0, 5.2])).round(1).tolist()
    ([True, False, False], [0.0, 4.2])
    """

    low: float
    high: float
    broken: float  # surprise, in nats, of a value that is not whole; zero where that is usual
    negative: float  # surprise, in nats, of a negative value

    @classmethod
    def of(cls, values: Array) -> Self:
        """Read the limits from the values of a column, NaN where one is missing."""
        seen = values[~np.isnan(values)]
        if not len(seen):
            return cls(0.0, 0.0, 0.0, 0.0)
        rules = list[float]()
        for exceptions in (int(_broken(seen).sum()), int((seen < 0).sum())):
            surprise = min(-float(np.log((exceptions + 0.5) / (len(seen) + 1))), _MOST)
            rules.append(surprise if exceptions <= (1 - _RULE) * len(seen) else 0.0)
        return cls(float(seen.min()), float(seen.max()), *rules)

    def __call__(self, values: Array) -> Mask:
        """Whether the column may hold each value."""
        inside = (values >= self.low) & (values <= self.high)
        return np.asarray(inside & ~_broken(values) if self.broken else inside)

    def nats(self, values: Array) -> Array:
        """How surprising it is, in nats, that each value is not whole, or negative."""
        return self.broken * _broken(values) + self.negative * (values < 0)


def _broken(values: Array) -> Mask:
    """Whether each value is not whole, but for rounding."""
    return np.asarray(np.abs(values - np.round(values)) > 1e-6 * np.maximum(1.0, np.abs(values) * 1e-3))
