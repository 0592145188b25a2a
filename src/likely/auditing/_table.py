"""The audit of a table."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

import pandas as pd

from likely.auditing._audit import Audit, Progress
from likely.auditing._columns import Columns, read_columns
from likely.auditing._duplicates import find_twins
from likely.auditing._finding import Finding
from likely.auditing._identity_search import find_identities
from likely.auditing._known import RowNames
from likely.auditing._neighbours import Neighbours
from likely.auditing._one_entry import one_entry_per_row
from likely.auditing._read import read_table
from likely.auditing._rows import odd_rows
from likely.auditing._source import Table, counted, listed, readable
from likely.auditing._target_checks import check_target
from likely.auditing.checks._cells import odd_cells
from likely.auditing.checks._copies import across, repeated_rows
from likely.auditing.checks._drift import drift
from likely.auditing.checks._faulty_columns import faulty_columns
from likely.auditing.checks._gaps import gaps
from likely.auditing.checks._groups import groups_of
from likely.auditing.checks._order import order
from likely.auditing.checks._overview import overview
from likely.auditing.checks._sums import broken_sums

TASKS = ("auto", "classification", "regression")


def audit_data(
    data: Any,
    target: str | None,
    task: str,
    test: Any,
    seed: int,
    progress: Progress,
    id: str | None = None,
) -> Audit:
    """Audit a table: what is in it, rows, cells and copies; with a target, labels or targets, noise and leaks."""
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    progress("reading", 0.0)
    table, second = read_table(data), _second(test)
    target, id = _settled_names(table, target, id)
    columns = read_columns(table.frame, id)
    n = len(table.frame)
    notes = [*table.notes, *_left_out(columns, target), *_shared_names(table.frame, id)]
    progress("looking for copies", 0.0)
    twins = find_twins(columns, target)
    identities = find_identities(columns)
    findings = [odd_cells(columns, table.ragged, n), broken_sums(columns, identities)]
    findings.append(repeated_rows(columns, twins, target))
    if second is not None:
        findings += [across(table.frame, second, target, id), drift(table.frame, second, target, id)]
    progress("looking for odd rows", 0.0)
    findings.append(odd_rows(columns, {target} if target else set(), twins.first, identities))
    notes += [f"{second.name}: {note}" for note in second.notes] if second is not None else []
    if target is None:
        judged, task = [], "none"
        notes.append("No target was named, so no labels, targets, noise or leaks were looked for.")
    else:
        task = settle(columns, target, task)
        judged = check_target(columns, twins.groups, target, task, seed, progress, notes, identities)
        findings.append(groups_of(columns, target, judged))
    progress("looking at columns", 0.0)
    findings += first_questions(table.frame, columns, target, task)
    present = tuple(one_entry_per_row([finding for finding in (*judged, *findings) if finding is not None]))
    return Audit(
        table.name,
        n,
        task,
        target,
        present,
        tuple(notes),
        table.frame,
        source=table.path,
        id=id,
        neighbours=lambda rows: Neighbours.of(columns).compare(rows),
    )


def _second(test: Any) -> Table | None:
    """The second table, under a name that tells it from the first."""
    if test is None:
        return None
    table = read_table(test)
    return table if table.path is not None else replace(table, name="the test table")


def _settled_names(table: Table, target: str | None, id: str | None) -> tuple[str | None, str | None]:
    """The target and the column that names the rows, both of which must be there."""
    if target is not None:
        target = _known(readable(str(target)), list(table.frame.columns))
        table.check_single(target)
    if id is not None:
        id = _known(readable(str(id)), list(table.frame.columns))
        if id == target:
            raise ValueError(f"{id!r} cannot both name the rows and be the target")
    return target, id


def first_questions(frame: pd.DataFrame, columns: Columns, target: str | None, task: str) -> list[Finding | None]:
    """Answer what people ask first of a table: what is in it, what is missing, and does its order matter."""
    return [
        overview(columns, target, task),
        gaps(columns, target, task),
        faulty_columns(frame, columns, target),
        order(columns, target),
    ]


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
        raise ValueError(
            f"the target {target!r} holds text, which cannot be a regression target: use task='classification'"
        )
    if task != "auto":
        return task
    few = not words and values.nunique() <= min(20, max(2, len(values) // 20)) and bool((values % 1 == 0).all())
    return "classification" if words or few else "regression"


def _shared_names(frame: pd.DataFrame, id: str | None) -> list[str]:
    """What is to be told of names of rows that do not tell rows apart."""
    shared = int(RowNames(frame, id).shared.sum())
    rows = counted(shared, "row has a name that others share", "rows have names that others share")
    return [f"In {id}, {rows}; they are shown with their row number."] if shared else []


def _left_out(columns: Columns, target: str | None) -> list[str]:
    reasons = {
        "identifier": ("has a different value in every row", "have a different value in every row"),
        "text": ("is text", "are text"),
        "constant": ("has the same value in every row", "have the same value in every row"),
        "empty": ("is empty", "are empty"),
    }
    notes = []
    for kind, (singular, plural) in reasons.items():
        names = [name for name in columns.named(kind) if name != target]
        if names:
            notes.append(f"Left out of the models: {listed(names)}, which {singular if len(names) == 1 else plural}.")
    return notes


def _known(name: str, names: list[str]) -> str:
    if name in names:
        return name
    lowered = {column.lower(): column for column in reversed(names)}
    close = difflib.get_close_matches(name.lower(), lowered, n=1)
    hint = (
        f"did you mean {lowered[close[0]]!r}?"
        if close
        else f"the columns are {listed([repr(column) for column in names])}"
    )
    raise ValueError(f"there is no column {name!r}; {hint}")
