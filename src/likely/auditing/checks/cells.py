"""Cells of another kind than their column's: a word among numbers, an infinity, a row with a field too many."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from likely._rows.reading.table import counted
from likely._typing import Index
from likely.auditing.columns.kinds import Columns
from likely.auditing.results.finding import Explained, Finding, Reason, worst_first

_UNREAD = 10.0  # deviations off is what a cell counts that cannot be read
_LONG = "the row"  # what is too long


def odd_cells(columns: Columns, ragged: dict[int, str], rows: int) -> Finding | None:
    """Report a word in a column of numbers, an infinity, a row with a field too many."""
    reasons: dict[int, list[Reason]] = defaultdict(list)
    for cell in columns.odd:
        reasons[cell.row].append(Reason(cell.column, cell.value, cell.reason, 1.0))
    for row, text in ragged.items():
        reasons[row].append(Reason(_LONG, "too long", text, 1.0))
    if not reasons:
        return None
    suspicious = np.isin(np.arange(rows), list(reasons))
    words = Counter((first.what, first.value) for first, *_ in reasons.values())

    def explain(top: Index) -> Iterator[Explained]:
        for row in top.tolist():
            first = reasons[row][0]
            headline = f"{first.what} is {first.value!r}: {first.expected}"
            group = headline if words[first.what, first.value] > 1 else f"{first.what} is {first.expected}"
            if first.what == _LONG:
                headline, group = first.expected, "more fields than the header"
            yield Explained(headline, reasons[row], far=_UNREAD, group=group)

    return Finding(
        "cells",
        "Cells of another type than their column",
        counted(len(reasons), "row holds", "rows hold") + " a value that does not belong in its column.",
        numbers={"rows": len(reasons), "cells": len(columns.odd), "ragged": len(ragged)},
        **worst_first("cells", suspicious.astype(np.float64), suspicious, explain, most=None),
    )
