"""Odd rows in the data's own words, and whether a value is probably wrong or the row only odd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from likely._typing import Array, Index
from likely.auditing.expected_values.similar_rows import Neighbours, Usual
from likely.auditing.expected_values.tails import RARE, surprise
from likely.auditing.results.finding import Explained, Reason
from likely.auditing.slips.search import Change, SlipSearch

_SURE = 0.98  # the certainty of being odd from which a value may be called wrong
_BROKEN = 0.8  # the certainty from which a row is said to break the pattern
_ORDINARY = 0.95  # of the rows are surprising to at most this degree: a mended row has to be one of them
_APART = 0.5  # of the range of similar rows, by which a value has to lie outside of all of theirs
_FEW = 0.1  # of the similar rows may share the very value, say a zero that stands for a gap
_PART = 0.2  # of the surprise of its rarest value may be left in a row that one change is said to mend
_REASONS = 5
_SAME = 0.9  # of the similar rows have another level than one that is called wrong
_OUT = 2.0  # usual deviations: a value nearer than that is not far out
_BODY, _OFF = 0.01, 0.1  # a column's body leaves out so many of its rows at each end; a sentinel is so much further out


@dataclass(frozen=True)
class RowWords:
    """Explains odd rows.

    A value is called wrong if changing it alone makes its row ordinary, and it lies apart from what all similar rows
    have. How far off it is was judged by the tail of such deviations, so the extreme of a heavy tail is not called
    wrong. A row that is odd in many columns together is odd, and may be right.
    """

    search: SlipSearch

    @property
    def table(self) -> Neighbours:
        """The rows, and the sample that they are compared with."""
        return self.search.table

    def explain(self, rows: Index, certainty: Array) -> Iterator[Explained]:
        """Explain some rows that break the pattern so surely."""
        z = self.table.points(rows)
        judged = self.search.pattern.judge(z, rows)
        self.search.look(rows, z, judged, placebos=False)
        limit = self._ordinary()
        changes, wrong, headlines = list[Change](), list[bool](), list[tuple[str, str]]()
        for at, row in enumerate(rows.tolist()):
            change, nats = self.search.best(row, z[at], judged.of_row(at)), judged.nats[at]
            changes.append(change)
            wrong.append(bool(certainty[at] >= _SURE and change.left <= limit and self._apart(row, change)))
            if certainty[at] >= _BROKEN or change.hint:
                headlines.append(self._headline(row, change, nats, change.left <= max(limit, _PART * nats.max())))
            else:
                headlines.append((self._far_out(row, z[at]), ""))
        often = Counter(group for _, group in headlines)
        for at, (row, (headline, group)) in enumerate(zip(rows.tolist(), headlines, strict=True)):
            far = float(np.sqrt(2 * judged.nats[at].max()))
            reasons = self._reasons(row, changes[at], judged.nats[at])
            yield Explained(headline, reasons, far, wrong[at], group if often[group] > 1 else "")

    def _ordinary(self) -> float:
        """How surprising an ordinary row may be, in nats."""
        rows = self.table.sample
        return float(np.quantile(surprise(self.search.pattern.judge(self.table.points(rows), rows).nats), _ORDINARY))

    def _apart(self, row: int, change: Change) -> bool:
        """Whether the value that is to blame is unlike all those of similar rows."""
        j = change.column
        alike = self.table.nearest(row, [self.table.names[j]])[0]
        if not len(alike):
            return False
        near, value, unit = self.table.values[j][alike], self.table.values[j][row], self.table.units[j]
        same = near == value
        if same.mean() > _FEW:
            return False
        if change.swapped >= 0:
            return True
        if unit is None:  # a level is wrong only where nearly all rows have the same other one
            return float(np.unique(near, return_counts=True)[1].max()) >= _SAME * len(near)
        others = np.sort(unit(near[~same]))
        end = round(0.1 * (len(others) - 1))
        margin = _APART * (others[-1 - end] - others[end])
        return bool(unit(value) < others[0] - margin or unit(value) > others[-1] + margin)

    def _headline(self, row: int, change: Change, nats: Array, mended: bool) -> tuple[str, str]:
        """The headline of a row that breaks the pattern, and the group that it may share with others."""
        j = change.column
        name, usual = self.table.names[j], self.table.usual(row, self.table.names[j])
        if not mended and not change.hint and (nats > RARE).sum() > 2:
            order = [j, *(k for k in np.argsort(-nats, kind="stable").tolist() if k != j)]  # as the reasons have it
            worst = [self.table.names[k] for k in order[:3]]
            return f"{worst[0]}, {worst[1]} and {worst[2]} are an odd combination", ""
        if change.swapped >= 0:
            pair = f"{name} and {self.table.names[change.swapped]} look swapped"
            return pair, pair
        value = f"{name} = {self.table.shown(row, name)}"
        beside = f", where similar rows have {usual}" if usual is not None else ""
        if isinstance(usual, Usual) and usual.low <= self.table.values[j][row] <= usual.high and len(nats) > 1:
            other = self.table.names[int(self.table.weights[j].argmax())]
            beside = f" does not match {other} = {self.table.shown(row, other)}"
        if change.hint:
            return f"{value}{beside}; {change.hint} would fit", f"{change.hint} would fit {name}"
        return f"{value}{beside}", f"{value}, unlike similar rows" if self._sentinel(row, j) else ""

    def _sentinel(self, row: int, j: int) -> bool:
        """Whether a value is isolated in its column, so that all rows with it share one problem."""
        value, column = self.table.values[j][row], self.table.values[j][self.table.sample]
        others = column[(column != value) & ~np.isnan(column)]
        if self.table.units[j] is None:  # a level: apart if next to no row has it
            return len(others) >= (1 - _BODY) * len(column)
        if not len(others):
            return False
        low, high = np.quantile(others, [_BODY, 1 - _BODY])
        return not low - _OFF * (high - low) <= value <= high + _OFF * (high - low)

    def _far_out(self, row: int, z: Array) -> str:
        """The headline of a row that is extreme, but consistent with the others."""
        out = np.array([0.0 if unit is None else abs(value) for unit, value in zip(self.table.units, z, strict=True)])
        first, second = (*np.argsort(-np.nan_to_num(out), kind="stable")[:2], -1)[:2]
        names = [self.table.names[j] for j in (first, second) if j == first or (j >= 0 and out[j] >= _OUT)]
        return " and ".join(f"{name} = {self.table.shown(row, name)}" for name in names) + ": extreme, but consistent"

    def _reasons(self, row: int, change: Change, nats: Array) -> list[Reason]:
        """The values to blame, the one that explains the others first, with those of similar rows."""
        order = [change.column, *(j for j in np.argsort(-nats, kind="stable").tolist() if j != change.column)]
        blamed = [j for j in order[:_REASONS] if nats[j] > RARE or j == change.column]
        # One wrong value makes others look wrong: its share is the part that changing it removes.
        before = max(float(surprise(nats)), 1e-300)
        mended = float(np.clip(1 - change.left / before, 0, 1))
        rest = np.square(nats[blamed]) / max(float(np.square(nats[blamed]).sum()), 1e-300)
        shares = (1 - mended) * rest + mended * (np.array(blamed) == change.column)
        names = [self.table.names[j] for j in blamed]
        compared = self.table.compare([row], names)[0]
        return [
            Reason(cell.column, cell.value, f"similar rows have {cell.usual}" if cell.usual else "", float(share))
            for cell, share in zip(compared, shares, strict=True)
        ]
