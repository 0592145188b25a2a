"""Cells that are not of their column's kind, and rows that are not of the table's width."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely.auditing._columns import Columns
from likely.auditing._finding import Finding, Reason, worst_first


def odd_cells(columns: Columns, ragged: dict[int, str], rows: int) -> Finding | None:
    """A word in a column of numbers, an infinity, a row with a field too many."""
    reasons: dict[int, list[Reason]] = defaultdict(list)
    for cell in columns.odd:
        reasons[cell.row].append(Reason(cell.column, cell.value, cell.reason, 1.0))
    for row, text in ragged.items():
        reasons[row].append(Reason("the row", "too long", text, 1.0))
    if not reasons:
        return None
    suspicious = np.zeros(rows, bool)
    suspicious[list(reasons)] = True

    def explain(top: NDArray[np.int64]) -> Any:
        for row in top:
            first = reasons[int(row)][0]
            yield f"{first.what} is {first.value!r}: {first.expected}", reasons[int(row)]

    return Finding(
        "cells",
        "Cells that are not of their column's kind",
        f"{len(reasons):,} rows hold a value that does not belong in its column.",
        numbers={"rows": len(reasons), "cells": len(columns.odd), "ragged": len(ragged)},
        **worst_first("cells", suspicious.astype(np.float64), suspicious, explain),
    )
