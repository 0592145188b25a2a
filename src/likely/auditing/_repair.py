"""Which single change makes an odd row ordinary: another value, a factor, a sign, or two columns swapped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likely._typing import Array
from likely.auditing._neighbours import Neighbours
from likely.auditing._pattern import Pattern
from likely.auditing._row_slips import Change, Trial, slips, undone

__all__ = ["RARE", "Change", "Repairs", "surprise"]

_GENERIC = 4.0  # price, in nats, of replacing a value by the expected one: a slip is preferred
_GAIN = 7.0  # nats that a slip must remove from a row: of many slips, one removes a few nats by chance
_PART = 0.5  # share of the surprise of a row that a slip may leave
_BLAMED = 10  # values of a row that may be changed: as many of the rarest, and of those furthest out
RARE = 3.0  # nats from which a value is rare: one in twenty has more


def surprise(nats: Array) -> Array:
    """How surprising each row is: the nats by which its values exceed ``RARE``, summed over columns."""
    return np.asarray(np.maximum(nats - RARE, 0).sum(-1))


@dataclass(frozen=True)
class Repairs:
    """Finds the single change of a row that makes it most ordinary under the pattern of a table.

    >>> import pandas as pd
    >>> from likely.auditing._columns import read_columns
    >>> rng = np.random.default_rng(0)
    >>> height = rng.normal(170, 8, 500)
    >>> frame = pd.DataFrame({"height": height, "weight": 0.9 * height - 80 + 3 * rng.normal(size=500)})
    >>> frame.loc[7, "height"] *= 10
    >>> table = Neighbours.of(read_columns(frame))
    >>> change = Repairs(table, Pattern.of(table)).best(7)
    >>> change.column, change.hint
    (0, '÷10')
    """

    table: Neighbours
    pattern: Pattern

    def best(self, row: int, slip: Change | None = None) -> Change:
        """Return the change that leaves the least surprise in a row."""
        at = np.array([row])
        z = self.table.points(at)
        judged = self.pattern.judge(z, at)
        rare = self.pattern.margins.nats(z)
        # A wrong value far out in its column makes others look worse than itself.
        out = np.where([unit is None for unit in self.table.units], 0.0, np.nan_to_num(np.abs(z[0])))
        leading = [np.argsort(-nats, kind="stable")[:_BLAMED] for nats in (judged.nats[0], out)]
        blamed = np.unique(np.concatenate(leading))
        blamed = blamed[judged.nats[0][blamed] > 0]
        tried = [*_other_values(z[0], judged.expected[0], blamed)]
        if slip is None:
            tried += slips(self.table, row, z[0], blamed)
        else:
            tried.append(Trial(slip, undone(self.table, row, z[0], slip), 0.0))
        if not tried:
            return Change(0, 0.0)
        changed = np.array([trial.z for trial in tried])
        left = surprise(self.pattern.judge(changed, np.repeat(at, len(tried))).nats)
        # Of two values that contradict each other, the one that is rare in its own column is to blame.
        cost = left + surprise(self.pattern.margins.nats(changed)) + np.array([trial.price for trial in tried])
        before = float(surprise(judged.nats)[0] + surprise(rare)[0])
        enough = min(before - _GAIN, _PART * before)
        allowed = np.array([not trial.change.hint or trial.change == slip for trial in tried]) | (cost <= enough)
        chosen = int(np.argmin(np.where(allowed, cost, np.inf)))
        return tried[chosen].change._replace(left=float(left[chosen]))


def _other_values(z: Array, expected: Array, blamed: NDArray[np.intp]) -> Iterator[Trial]:
    """Yield the row with each blamed value in turn replaced by the one expected from the other columns."""
    for j in blamed.tolist():
        changed = z.copy()
        changed[j] = expected[j]
        yield Trial(Change(j, 0.0), changed, _GENERIC)
