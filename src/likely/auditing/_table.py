"""The audit of a table."""

from __future__ import annotations

import difflib
from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely.auditing._audit import Audit, Progress
from likely.auditing._columns import Columns, read_columns
from likely.auditing._duplicates import across, find_twins, repeated_rows
from likely.auditing._finding import Explained, Finding, Reason, worst_first
from likely.auditing._read import read_table
from likely.auditing._rows import odd_rows
from likely.auditing._source import listed
from likely.auditing._target_checks import check_target

TASKS = ("auto", "classification", "regression")


def audit_table(data: Any, target: str | None, task: str, test: Any, seed: int, progress: Progress) -> Audit:
    """Rows, cells and copies; with a target, labels or targets, noise, calibration and leaks."""
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    progress("reading", 0.0)
    table = read_table(data)
    second = read_table(test) if test is not None else None
    if target is not None:
        target = _known(str(target), list(table.frame.columns))
        table.check_single(target)
    columns = read_columns(table.frame)
    n = len(table.frame)
    progress("looking for copies", 0.0)
    twins = find_twins(columns, target)
    findings = [odd_cells(columns, table.ragged, n), repeated_rows(columns, twins, target)]
    if second is not None:
        findings.append(across(table.frame, second, target))
    progress("looking for odd rows", 0.0)
    findings.append(odd_rows(columns, {target} if target else set(), twins.first))
    notes = [*table.notes, *_left_out(columns, target)]
    notes += [f"{second.name}: {note}" for note in second.notes] if second is not None else []
    if target is None:
        judged, task = [], "none"
        notes.append("No target was named, so no labels, targets, noise or leaks were looked for.")
    else:
        task = settle(columns, target, task)
        judged = check_target(columns, twins.groups, target, task, seed, progress, notes)
    found = tuple(finding for finding in (*judged, *findings) if finding is not None)
    return Audit(table.name, n, task, target, found, tuple(notes), table.frame, source=table.path)


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
            yield Explained(f"{first.what} is {first.value!r}: {first.expected}", reasons[int(row)])

    return Finding(
        "cells",
        "Cells that are not of their column's kind",
        f"{len(reasons):,} rows hold a value that does not belong in its column.",
        numbers={"rows": len(reasons), "cells": len(columns.odd), "ragged": len(ragged)},
        **worst_first("cells", suspicious.astype(np.float64), suspicious, explain),
    )


def settle(columns: Columns, target: str, task: str) -> str:
    """Classification for words and for a few whole numbers, else regression."""
    kind = columns.kinds[target]
    values = columns.typed[target].dropna()
    if kind in ("constant", "empty") or not len(values):
        raise ValueError(f"the target {target!r} has the same value in every row, or none: there is nothing to predict")
    if kind in ("text", "identifier"):
        raise ValueError(f"the target {target!r} has a different value in nearly every row: name another column")
    words = not pd.api.types.is_numeric_dtype(values.dtype)
    if task == "regression" and words:
        raise ValueError(f"the target {target!r} holds words, which cannot be regressed: use task='classification'")
    if task != "auto":
        return task
    few = not words and values.nunique() <= min(20, max(2, len(values) // 20)) and bool((values % 1 == 0).all())
    return "classification" if words or few else "regression"


def _left_out(columns: Columns, target: str | None) -> list[str]:
    reasons = {
        "identifier": "has a value of its own in every row",
        "text": "is text",
        "constant": "has the same value in every row",
        "empty": "is empty",
    }
    notes = []
    for kind, reason in reasons.items():
        names = [name for name in columns.named(kind) if name != target]
        if names:
            notes.append(f"Left out of the models: {listed(names)}, which {reason}.")
    return notes


def _known(name: str, names: list[str]) -> str:
    if name in names:
        return name
    lowered = {own.lower(): own for own in reversed(names)}
    (close,) = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.0)
    raise ValueError(f"there is no column {name!r}; did you mean {lowered[close]!r}? There are {len(names)} columns")
