"""The audit of a table that does not fit in memory: models of a sample, and the scores of all rows by blocks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from likely._rows.sources import Source, is_one_file, source_of
from likely.auditing._audit import Progress
from likely.auditing._columns import read_columns
from likely.auditing._duplicates import find_twins
from likely.auditing._read import read_table, source_name
from likely.auditing._table import _settled_names, audit_data
from likely.auditing.blocks._answer import BlocksAudit
from likely.auditing.blocks._findings import tell_all
from likely.auditing.blocks._passes import Fitted, first_pass, second_pass

AT_ONCE = 1 << 26  # numbers of a table that is read at once, for which an audit takes about 3.5 GB
SAMPLE = 100_000  # rows that models are fitted on, about
_NUMBERS, _LEAST = 1 << 23, 10_000  # that the sample holds at most, but for so many rows


def beyond_memory(data: Any) -> Source | None:
    """Return the blocks of a table that is too large to be read at once."""
    if is_one_file(data) and Path(os.fspath(data)).suffix.lower() not in (".parquet", ".pq"):
        return None
    source = source_of(data)
    return source if source is not None and len(source) * source.width > AT_ONCE else None


def audit_source(
    source: Source, data: Any, target: str | None, task: str, seed: int, progress: Progress, id: str | None = None
) -> BlocksAudit:
    """Audit a table by blocks."""
    progress("reading", 0.0)
    rows = len(source)
    stride = max(1, -(-rows // max(_LEAST, min(SAMPLE, _NUMBERS // source.width))))
    sums, frame = first_pass(source, stride, rows, progress)
    table = read_table(frame)
    if list(table.frame.columns) != list(frame.columns):
        raise ValueError("columns of a table that is read in blocks need unique names: rename them")
    target, id = _settled_names(table, target, id)
    sample = audit_data(table.frame, target, task, None, seed, progress, id)
    columns = read_columns(table.frame, id)
    twins = find_twins(columns, target)

    def tell(share: float) -> None:
        progress("fitting models", share)

    fitted = Fitted.of(columns, twins, target, sample.task, id, stride, rows, seed, tell)
    scored = second_pass(source, fitted, rows, progress)
    progress("looking at the worst rows", 0.0)
    return tell_all(source, source_name(data), sample, columns, sums, fitted, scored)
