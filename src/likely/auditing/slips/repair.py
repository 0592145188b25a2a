"""Which single change makes an odd row ordinary: another value, a factor, a sign, or two columns swapped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from likely._typing import Array, Places
from likely.auditing.expected_values.additive_model import Judged, Pattern
from likely.auditing.expected_values.similar_rows import Neighbours
from likely.auditing.expected_values.tails import surprise
from likely.auditing.slips.row_slips import Change, undone
from likely.auditing.slips.search import SlipSearch

_GENERIC = 4.0  # price, in nats, of replacing a value by the expected one: a slip is preferred
_GAIN = 7.0  # nats that a slip must remove from a row: of many slips, one removes a few nats by chance
_BLAMED = 10  # values of a row that may be changed: as many of the rarest, and of those furthest out


@dataclass(frozen=True)
class Repairs:
    """Finds the single change of a row that makes it most ordinary under the pattern of a table.

    >>> import pandas as pd
    >>> from likely.auditing.columns.kinds import read_columns
    >>> rng = np.random.default_rng(0)
    >>> height = rng.normal(170, 8, 500)
    >>> frame = pd.DataFrame({"height": height, "weight": 0.9 * height - 80 + 3 * rng.normal(size=500)})
    >>> frame.loc[7, "height"] *= 10
    >>> table = Neighbours.of(read_columns(frame))
    >>> repairs, row = Repairs(table, pattern := Pattern.of(table)), np.array([7])
    >>> repairs.look(row, table.points(row), pattern.judge(table.points(row), row))
    >>> change = repairs.best(7)
    >>> change.column, change.hint
    (0, '÷10')
    """

    table: Neighbours
    pattern: Pattern

    @cached_property
    def _search(self) -> SlipSearch:
        return SlipSearch(self.table, self.pattern)

    def look(self, rows: Places, z: Array, judged: Judged) -> None:
        """Search rows for slips that mend them, before their best changes are asked for."""
        self._search.look(rows, z, judged, placebos=False)

    def best(self, row: int, slip: Change | None = None) -> Change:
        """Return the change that leaves the least surprise in a row; ``slip`` is one that is known to mend it."""
        at = np.array([row])
        z = self.table.points(at)
        judged = self.pattern.judge(z, at)
        # A wrong value far out in its column makes others look worse than itself.
        out = np.where([unit is None for unit in self.table.units], 0.0, np.nan_to_num(np.abs(z[0])))
        leading = [np.argsort(-nats, kind="stable")[:_BLAMED] for nats in (judged.nats[0], out)]
        blamed = np.unique(np.concatenate(leading))
        blamed = blamed[judged.nats[0][blamed] > 0]
        changes, changed = [Change(int(j), 0.0) for j in blamed], np.repeat(z, len(blamed), axis=0)
        changed[np.arange(len(blamed)), blamed] = judged.expected[0][blamed]
        if slip is None and self._search.gains[0][row] > _GAIN:
            slip = self._search.change(row)
        if slip is not None:
            changes, changed = [*changes, slip], np.vstack([changed, undone(self.table, row, z[0], slip)])
        if not changes:
            return Change(0, 0.0)
        left = surprise(self.pattern.judge(changed, np.repeat(at, len(changed))).nats)
        # Of two values that contradict each other, the one that is rare in its own column is to blame.
        prices = [0.0 if change.hint else _GENERIC for change in changes]
        chosen = int(np.argmin(left + surprise(self.pattern.margins.nats(changed)) + np.array(prices)))
        return changes[chosen]._replace(left=float(left[chosen]))
