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
_WORDS = 5  # of a column that are entries of their own, if they are repeated; the others are one
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
    suspicious = np.zeros(rows, bool)
    suspicious[list(reasons)] = True
    groups = _groups([first for first, *_ in reasons.values()])

    def explain(top: Index) -> Iterator[Explained]:
        for row in top.tolist():
            first = reasons[row][0]
            yield Explained(_headline(first), reasons[row], far=_UNREAD, group=groups[first.what, first.value])

    return Finding(
        "cells",
        "Cells of another type than their column",
        counted(len(reasons), "row holds", "rows hold") + " a value that does not belong in its column.",
        numbers={"rows": len(reasons), "cells": len(columns.odd), "ragged": len(ragged)},
        **worst_first("cells", suspicious.astype(np.float64), suspicious, explain, most=None),
    )


def _headline(reason: Reason) -> str:
    return reason.expected if reason.what == _LONG else f"{reason.what} is {reason.value!r}: {reason.expected}"


def _groups(reasons: list[Reason]) -> dict[tuple[str, str], str]:
    """What the rows with each value share: the same word, if it is one of the frequent ones, else the column."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for reason in reasons:
        counts[reason.what][reason.value] += 1
    groups = {}
    for reason in reasons:
        frequent = counts[reason.what].most_common(_WORDS)
        same = any(word == reason.value and times > 1 for word, times in frequent)
        shared = _headline(reason) if same else f"{reason.what} is {reason.expected}"
        groups[reason.what, reason.value] = "more fields than the header" if reason.what == _LONG else shared
    return groups
