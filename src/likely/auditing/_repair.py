"""Which single change makes an odd row ordinary: another value, a factor, a sign, or two columns swapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from likely._typing import Array
from likely.auditing._neighbours import Neighbours
from likely.auditing._pattern import Pattern

# Factors, what they are called, and by how many nats one must be better to be preferred to the first.
_FACTORS = (
    (0.1, "÷10", 0.0),
    (10.0, "×10", 0.0),
    (0.001, "÷1,000", 0.5),
    (1000.0, "×1,000", 0.5),
    (-1.0, "the other sign", 0.5),
    (0.01, "÷100", 1.5),
    (100.0, "×100", 1.5),
)
_TIMES = np.array([factor for factor, _, _ in _FACTORS])
_FAR = 1e150  # further out is not told apart, so that factors stay finite
_SWAP = 0.5  # nats that a swap must be better than a factor
_NARROW = 25  # columns of numbers, of which each may be swapped with each
_SWAPS = 200.0  # pairs of columns that cost no more
_GENERIC = 4.0  # nats that any other value must be better than one that a slip explains
_BLAMED = 10  # cells of a row that are tried: the rarest, and those furthest out
RARE = 3.0  # nats from which a value is rare: one in twenty has more


class Change(NamedTuple):
    """A change of a row that makes it ordinary, or nearly.

    Args:
        column: place of the column whose value is changed.
        left: nats of surprise that are left in the row.
        hint: the slip that would explain the value, such as "÷10"; empty if none does.
        swapped: place of the column it is swapped with; -1 if it is not.
    """

    column: int
    left: float
    hint: str = ""
    swapped: int = -1


def surprise(nats: Array) -> Array:
    """What a row's values are rarer than usual, in nats, all columns together."""
    return np.asarray(np.maximum(nats - RARE, 0).sum(-1))


@dataclass(frozen=True)
class Repairs:
    """Tries changes of single rows under the pattern of a table.

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

    def best(self, row: int) -> Change:
        """The change that leaves the least surprise in a row.

        Args:
            row: place of the row.

        Returns:
            The change; one that a usual slip explains is preferred to any other.
        """
        at = np.array([row])
        z = self.table.points(at)
        judged = self.pattern.judge(z, at)
        # A wrong value far out in its column makes others look worse than itself.
        out = np.where([unit is None for unit in self.table.units], 0.0, np.nan_to_num(np.abs(z[0])))
        leading = [np.argsort(-own, kind="stable")[:_BLAMED] for own in (judged.nats[0], out)]
        blamed = np.unique(np.concatenate(leading))
        blamed = blamed[judged.nats[0][blamed] > 0]
        tried = [*self._other_values(z, judged.expected, blamed), *self._slips(row, z, blamed)]
        if not tried:
            return Change(0, 0.0)
        changed = np.array([z_changed for _, z_changed, _ in tried])
        left = surprise(self.pattern.judge(changed, np.repeat(at, len(tried))).nats)
        cost = left + np.array([price for _, _, price in tried])
        chosen = int(np.argmin(cost))
        return tried[chosen][0]._replace(left=float(left[chosen]))

    def _other_values(self, z: Array, expected: Array, blamed: NDArray[np.intp]) -> list[tuple[Change, Array, float]]:
        """Each blamed value in turn as the others say it should be."""
        found = []
        for j in blamed.tolist():
            changed = z[0].copy()
            changed[j] = expected[0, j]
            found.append((Change(j, 0.0), changed, _GENERIC))
        return found

    def _slips(self, row: int, z: Array, blamed: NDArray[np.intp]) -> list[tuple[Change, Array, float]]:
        """Factors and signs of each blamed number, and swaps of it with each other."""
        table, found = self.table, []
        values = np.clip([float(own[row]) for own in table.values], -_FAR, _FAR)
        numbers = [j for j, unit in enumerate(table.units) if unit is not None and table.names[j] not in table.dates]
        candidates = [j for j in blamed.tolist() if j in numbers]
        # Of very many swaps one fits by chance: those of wide tables are few, and cost more.
        partners = [k for k in (numbers if len(numbers) <= _NARROW else candidates) if not np.isnan(values[k])]
        price_of_swap = _SWAP + float(np.log(max(1.0, len(numbers) ** 2 / _SWAPS)))
        # Each value of the row in the units of each column.
        put = {k: unit(values) for k in {*partners, *candidates} if (unit := table.units[k]) is not None}
        for j in candidates:
            unit = table.units[j]
            scaled = unit(values[j] * _TIMES) if unit is not None and values[j] else []
            for (_, hint, price), value in zip(_FACTORS, scaled, strict=False):
                changed = z[0].copy()
                changed[j] = value
                found.append((Change(j, 0.0, hint), changed, price))
            for k in partners:
                if values[k] != values[j]:
                    changed = z[0].copy()
                    changed[j], changed[k] = put[j][k], put[k][j]
                    found.append((Change(j, 0.0, "swapped", k), changed, price_of_swap))
        return found
