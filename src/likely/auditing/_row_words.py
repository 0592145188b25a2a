"""Odd rows in the data's own words, and whether a value is probably wrong or the row only odd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likely._typing import Array
from likely.auditing._finding import Explained, Reason
from likely.auditing._neighbours import Neighbours, Usual
from likely.auditing._pattern import Judged, Pattern
from likely.auditing._repair import RARE, Change, Repairs, surprise
from likely.auditing._tails import Tail

_SURE = 0.98  # the certainty of being odd from which a value may be called wrong
_ORDINARY = 0.95  # of the rows are surprising to at most this degree: a mended row has to be one of them
_EDGE = 0.01  # of the values of a column on either side are its ends
_APART = 0.5  # of the range of similar rows, by which a value has to lie outside of all of theirs
_FEW = 0.1  # of the similar rows may share the very value, say a zero that stands for a gap
_TOLD = 0.95  # the certainty of being odd from which a slip is named that would explain it
_REASONS = 5


@dataclass(frozen=True)
class RowWords:
    """Explains odd rows.

    A value is called wrong if changing it alone makes its row ordinary, and it lies apart from what all similar rows
    have, and further out than the tail of its column reaches. A row that is odd in many columns together, or the
    extreme of a heavy tail, is odd, and may be right.

    Args:
        table: the table.
        pattern: how its columns hang together.
        certainty: of every row of the table, how surely it breaks the pattern.
    """

    table: Neighbours
    pattern: Pattern
    certainty: Array

    def explain(self, rows: NDArray[np.int64]) -> Iterator[Explained]:
        """Headline, reasons, distance and verdict of some rows, those of which much is said alike in one group."""
        z = self.table.points(rows)
        judged = self.pattern.judge(z, rows)
        repairs = Repairs(self.table, self.pattern)
        changes = [repairs.best(int(row)) for row in rows]
        limit, tails = self._ordinary()
        wrong = [
            self.certainty[row] >= _SURE and change.left <= limit and self._apart(int(row), z[at], change, tails)
            for at, (row, change) in enumerate(zip(rows, changes, strict=True))
        ]
        said = [
            self._headline(int(row), change, is_wrong, judged.nats[at])
            for at, (row, change, is_wrong) in enumerate(zip(rows, changes, wrong, strict=True))
        ]
        often = Counter(group for _, group in said)
        for at, (row, (headline, group)) in enumerate(zip(rows, said, strict=True)):
            far = float(np.sqrt(2 * judged.nats[at].max()))
            reasons = self._reasons(int(row), at, changes[at], judged)
            yield Explained(headline, reasons, far, bool(wrong[at]), group if often[group] > 1 else "")

    def _ordinary(self) -> tuple[float, list[tuple[float, float, Tail, Tail] | None]]:
        """How surprising an ordinary row may be, and of each number its ends and how it goes on beyond them."""
        rows = self.table.sample
        z = self.table.points(rows)
        limit = float(np.quantile(surprise(self.pattern.judge(z, rows).nats), _ORDINARY))
        tails: list[tuple[float, float, Tail, Tail] | None] = []
        for own, unit in zip(z.T, self.table.units, strict=True):
            seen = own[~np.isnan(own)]
            low, high = np.quantile(seen, [_EDGE, 1 - _EDGE])
            tails.append(None if unit is None else (float(low), float(high), Tail.of(-seen), Tail.of(seen)))
        return limit, tails

    def _apart(self, row: int, z: Array, change: Change, tails: list[tuple[float, float, Tail, Tail] | None]) -> bool:
        """Whether the value that is to blame is unlike all those of similar rows, and no member of a heavy tail."""
        j, tail = change.column, tails[change.column]
        alike = self.table.nearest(row, [self.table.names[j]])[0]
        if not len(alike):
            return False
        near, value = self.table.values[j][alike], self.table.values[j][row]
        same = near == value
        if same.mean() > _FEW:
            return False
        if tail is None or change.swapped >= 0:
            return True
        unit = self.table.units[j]
        others = np.sort(unit(near[~same]) if unit is not None else near[~same])
        end = round(0.1 * (len(others) - 1))
        margin = _APART * (others[-1 - end] - others[end])
        low, high, below, above = tail
        beyond = (z[j] < low and below.nats(-z[j]) < self._chance) or (z[j] > high and above.nats(z[j]) < self._chance)
        return bool((z[j] < others[0] - margin or z[j] > others[-1] + margin) and not beyond)

    @property
    def _chance(self) -> float:
        """Nats beyond which not one value of a column is expected."""
        return float(np.log(2 * self.table.rows))

    def _headline(self, row: int, change: Change, wrong: bool, nats: Array) -> tuple[str, str]:
        """What is said of a row, and what of that it may share with others."""
        name, usual = self.table.names[change.column], self.table.usual(row, self.table.names[change.column])
        value, slip = self.table.shown(row, name), self.certainty[row] >= _TOLD
        if not wrong and change.left > 0 and (nats > RARE).sum() > 2:
            worst = [self.table.names[j] for j in np.argsort(-nats, kind="stable")[:3]]
            return f"{worst[0]}, {worst[1]} and {worst[2]} are odd together", ""
        if slip and change.swapped >= 0:
            pair = f"{name} and {self.table.names[change.swapped]} look swapped"
            return pair, pair
        if isinstance(usual, Usual) and usual.low <= self.table.values[change.column][row] <= usual.high:
            return f"{name} = {value} is odd, though not for rows like it, which have {usual}", ""
        beside = f", where rows like it have {usual}" if usual is not None else ""
        if slip and change.hint:
            return f"{name} = {value}{beside}; {change.hint} would fit", f"{change.hint} would fit {name}"
        return f"{name} = {value}{beside}", f"{name} = {value}, unlike rows like these"

    def _reasons(self, row: int, at: int, change: Change, judged: Judged) -> list[Reason]:
        """The values that are to blame, that which explains the others first, beside those of similar rows."""
        nats = judged.nats[at]
        order = [change.column, *(j for j in np.argsort(-nats, kind="stable").tolist() if j != change.column)]
        blamed = [j for j in order[:_REASONS] if nats[j] > RARE or j == change.column]
        # One value that is wrong makes others look so.
        weight = np.array([max(nats[j], nats.max() if j == change.column else 0.0) for j in blamed])
        shares = np.square(weight) / max(float(np.square(weight).sum()), 1e-300)
        names = [self.table.names[j] for j in blamed]
        compared = self.table.compare([row], names)[0]
        return [
            Reason(cell.column, cell.value, f"rows like it have {cell.usual}" if cell.usual else "", float(share))
            for cell, share in zip(compared, shares, strict=True)
        ]
