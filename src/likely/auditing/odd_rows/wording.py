"""Odd rows in the data's own words, and whether a value is probably wrong or the row only odd."""

from __future__ import annotations

from collections import Counter
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
_PART = 0.2  # of the surprise of its rarest value may be left in a row that one change is said to mend
_REASONS = 5
_OUT = 2.0  # usual deviations: a value nearer than that is not far out
_OFF = 0.1  # of the range of other values: a value further out than that stands for something, and is no number


@dataclass(frozen=True)
class RowWords:
    """Explains odd rows.

    A value is called wrong if changing it alone makes its row ordinary, and it lies apart from what similar rows have.
    How far off it is was judged by the tail of such deviations, so the extreme of a heavy tail is not called wrong. A
    row that is odd in many columns together is odd, and may be right.
    """

    search: SlipSearch

    @property
    def table(self) -> Neighbours:
        """The rows, and the sample that they are compared with."""
        return self.search.table

    def explain(self, rows: Index, certainty: Array) -> list[Explained]:
        """Explain some rows that break the pattern so surely."""
        z, limit = self.table.points(rows), self._ordinary()
        judged = self.search.pattern.judge(z, rows)
        self.search.look(rows, z, judged, placebos=False)
        explained = list[Explained]()
        for at, row in enumerate(rows.tolist()):
            nats, change = judged.nats[at], self.search.best(row, z[at], judged.of_row(at))
            order = [change.column, *(j for j in np.argsort(-nats, kind="stable").tolist() if j != change.column)]
            reasons, apart = self._reasons(row, change, nats, order[:_REASONS])
            headline, group = self._far_out(row, z[at]), ""
            if certainty[at] >= _BROKEN or change.hint:
                mended = change.hint or change.left <= max(limit, _PART * nats.max())
                combined = not mended and (nats > RARE).sum() > 2
                headline, group = self._combination(order) if combined else self._headline(row, change)
            wrong = bool(certainty[at] >= _SURE and change.left <= limit and apart)
            explained.append(Explained(headline, reasons, float(np.sqrt(2 * nats.max())), wrong, group))
        often = Counter(row.group for row in explained)
        return [row if often[row.group] > 1 else row._replace(group="") for row in explained]

    def _ordinary(self) -> float:
        """How surprising an ordinary row may be, in nats."""
        rows = self.table.sample
        return float(np.quantile(surprise(self.search.pattern.judge(self.table.points(rows), rows).nats), _ORDINARY))

    def _combination(self, order: list[int]) -> tuple[str, str]:
        worst = [self.table.names[j] for j in order[:3]]
        return f"{worst[0]}, {worst[1]} and {worst[2]} are an odd combination", ""

    def _headline(self, row: int, change: Change) -> tuple[str, str]:
        """The headline of a row that breaks the pattern, and the group that it may share with others."""
        table, j = self.table, change.column
        name, usual = table.names[j], table.usual(row, table.names[j])
        if change.swapped >= 0:
            pair = f"{name} and {table.names[change.swapped]} look swapped"
            return pair, pair
        value = f"{name} = {table.shown(row, name)}"
        beside = f", where similar rows have {usual}" if usual is not None else ""
        if isinstance(usual, Usual) and usual.low <= table.values[j][row] <= usual.high and len(table.names) > 1:
            other = table.names[int(table.weights[j].argmax())]
            beside = f" does not match {other} = {table.shown(row, other)}"
        if change.hint:
            return f"{value}{beside}; {change.hint} would fit", f"{change.hint} would fit {name}"
        return f"{value}{beside}", f"{value}, unlike similar rows" if self._sentinel(row, j) else ""

    def _sentinel(self, row: int, j: int) -> bool:
        """Whether a number is isolated in its column, so that all rows with it share one problem."""
        value, column = self.table.values[j][row], self.table.values[j][self.table.sample]
        others = column[(column != value) & ~np.isnan(column)]
        if self.table.units[j] is None or not len(others):
            return False
        low, high = np.quantile(others, [0.01, 0.99])
        return not low - _OFF * (high - low) <= value <= high + _OFF * (high - low)

    def _far_out(self, row: int, z: Array) -> str:
        """The headline of a row that is extreme, but consistent with the others."""
        out = np.nan_to_num(np.where([unit is None for unit in self.table.units], 0.0, np.abs(z)))
        first, *others = np.argsort(-out, kind="stable")[:2]
        names = [self.table.names[j] for j in (first, *others) if j == first or out[j] >= _OUT]
        return " and ".join(f"{name} = {self.table.shown(row, name)}" for name in names) + ": extreme, but consistent"

    def _reasons(self, row: int, change: Change, nats: Array, order: list[int]) -> tuple[list[Reason], bool]:
        """The values to blame beside those of similar rows, and whether the first is unlike all of these."""
        blamed = [j for j in order if nats[j] > RARE or j == change.column]
        # One wrong value makes others look wrong: its share is the part that changing it removes.
        mended = float(np.clip(1 - change.left / max(float(surprise(nats)), 1e-300), 0, 1))
        shares = (1 - mended) * np.square(nats[blamed]) / max(float(np.square(nats[blamed]).sum()), 1e-300)
        shares[0] += mended
        cells = self.table.compare([row], [self.table.names[j] for j in blamed])[0]
        reasons = [
            Reason(cell.column, cell.value, f"similar rows have {cell.usual}" if cell.usual else "", float(share))
            for cell, share in zip(cells, shares, strict=True)
        ]
        return reasons, cells[0].unusual or change.swapped >= 0
