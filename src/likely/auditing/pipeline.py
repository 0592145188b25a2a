"""The audit of a table: models are fitted to a sample, score all rows block by block, and findings are told.

A table in memory is its own sample, and one block.
"""

from __future__ import annotations

import difflib
import functools
import operator
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from likely._rows.reading.read_table import read_table, source_name
from likely._rows.reading.table import Table, counted, listed, readable
from likely._rows.sources import Source, is_one_file, source_of
from likely._typing import Index
from likely.auditing._row_checks import CopyCheck, RowCheck, Scorer, WrongTargetCheck, framed, row_checks
from likely.auditing.checks import SAMPLE_CHECKS
from likely.auditing.checks.groups import groups_of
from likely.auditing.columns.kinds import Columns, read_columns
from likely.auditing.columns.sums import Sums
from likely.auditing.copies.twins import find_twins
from likely.auditing.expected_values.similar_rows import Neighbours
from likely.auditing.identities.search import find_identities
from likely.auditing.results.accepted import RowNames
from likely.auditing.results.audit import Audit, Compare, Progress
from likely.auditing.results.finding import Finding
from likely.auditing.results.long_audit import LongAudit
from likely.auditing.results.score_file import ScoreFile, Worst
from likely.auditing.sample import Sample, Told
from likely.auditing.slips.one_cause_per_row import one_entry_per_row
from likely.auditing.target.target_check import LabelCheck, TargetCheck, TargetData

TASKS = ("auto", "classification", "regression")
AT_ONCE = 1 << 26  # numbers of a table that is read at once, for which an audit takes about 3.5 GB
SAMPLE = 100_000  # rows of a longer table that models are fitted on, about
SAMPLE_NUMBERS = 1 << 23  # numbers that the sample holds at most, but for
LEAST_SAMPLE = 10_000  # rows
LISTED = 2_000  # rows outside the sample that are told of, of each kind of problem


def audit_table(
    data: Any, target: str | None, task: str, test: Any, seed: int, progress: Progress, id: str | None = None
) -> Audit:
    """Audit a table: what is in it, rows, cells and copies; with a target, labels or targets and leaks."""
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    progress("reading", 0.0)
    source = _beyond_memory(data)
    if source is None:
        table, rows, stride, sums = read_table(data), 0, 1, None
    else:
        if test is not None:
            raise ValueError("test is for tables that fit in memory, and this one is read in blocks: leave it out")
        rows, stride = len(source), _stride(source)
        sums, frame = _first_pass(source, stride, progress)
        table = replace(read_table(frame), name=source_name(data))
        if list(table.frame.columns) != list(frame.columns):
            raise ValueError("columns of a table that is read in blocks need unique names: rename them")
    target, id = _settled_names(table, target, id)
    columns = read_columns(table.frame, id)
    progress("looking for copies", 0.0)
    twins, identities = find_twins(columns, target), find_identities(columns)
    second = None if test is None else _second(test)
    task = "none" if target is None else settle(columns, target, task)
    rows = rows or len(table.frame)
    sample = Sample(table, columns, target, task, id, twins, identities, seed, progress, second, stride, rows)
    judge = _judge(sample)
    progress("looking for odd rows", 0.0)
    checks = row_checks(sample, judge, rows)
    if source is None or sums is None:
        return _whole_audit(sample, checks, judge)
    return _long_audit(source, sums, sample, checks, judge)


def _judge(sample: Sample) -> TargetCheck | LabelCheck | None:
    """The models of the target, and what they say of it."""
    if sample.target is None:
        return None
    identities = sample.identities
    data = TargetData.of(sample.columns, sample.twins.groups, sample.target, sample.seed, sample.progress, identities)
    return TargetCheck.fit(data) if sample.task == "regression" else LabelCheck.fit(data)


def _findings(
    told: Told, checks: Iterable[RowCheck], counts: Iterable[int | None], judge: TargetCheck | LabelCheck | None
) -> list[Finding]:
    """Everything that is told of a table."""
    sample = told.sample
    of_rows = {check: check.tell(told, count) for check, count in zip(checks, counts, strict=True)}
    findings = [*of_rows.values()]
    sample.progress("looking at columns", 0.0)
    findings += [check(sample) for check in SAMPLE_CHECKS]
    if judge is not None and sample.target is not None:
        judged = next(finding for check, finding in of_rows.items() if isinstance(check, WrongTargetCheck) and finding)
        of_sample = replace(judged, scores={name: values[: len(sample)] for name, values in judged.scores.items()})
        findings += [*judge.others(), groups_of(sample.columns, sample.target, [of_sample])]
    return one_entry_per_row([finding for finding in findings if finding is not None])


def _whole_audit(sample: Sample, checks: list[RowCheck], judge: TargetCheck | LabelCheck | None) -> Audit:
    """The audit of a table in memory."""
    told, columns, table = Told.of(sample), sample.columns, sample.table
    return Audit(
        table.name,
        sample.rows,
        sample.task,
        sample.target,
        tuple(_findings(told, checks, [None] * len(checks), judge)),
        tuple(_notes(sample)),
        table.frame,
        source=table.path,
        id=sample.id,
        neighbours=lambda rows: Neighbours.of(columns).compare(rows),
    )


def _long_audit(
    source: Source, sums: Sums, sample: Sample, checks: list[RowCheck], judge: TargetCheck | LabelCheck | None
) -> LongAudit:
    """The audit of a table that is read in blocks."""
    file = _second_pass(source, Scorer(sample, checks), checks, sample)
    worst, flagged = _ranked(file, checks)
    sample.progress("looking at the worst rows", 0.0)
    told = Told.of(sample, _taken(source, sample, worst, checks))
    findings = [
        _in_table(_overview(finding, sums, sample) if finding.name == "overview" else finding, told)
        for finding in _findings(told, checks, [of_check.count for of_check in worst], judge)
    ]
    return LongAudit(
        sample.table.name,
        sample.rows,
        sample.task,
        sample.target,
        tuple(findings),
        (*_notes_of_blocks(sums, sample, checks), *_notes(sample)),
        told.frame,
        id=sample.id,
        neighbours=_compare(told),
        file=file,
        checks=tuple(checks),
        flagged=flagged,
        read=len(sample),
        paths=tuple(source.paths),
    )


def _beyond_memory(data: Any) -> Source | None:
    """The blocks of a table that is too large to be read at once."""
    if is_one_file(data) and Path(os.fspath(data)).suffix.lower() not in (".parquet", ".pq"):
        return None
    source = source_of(data)
    return source if source is not None and len(source) * source.width > AT_ONCE else None


def _stride(source: Source) -> int:
    """Every how many-th row is in the sample."""
    return max(1, -(-len(source) // max(LEAST_SAMPLE, min(SAMPLE, SAMPLE_NUMBERS // source.width))))


class _First:
    """Sums over a block, and its rows in the sample."""

    def __init__(self, stride: int) -> None:
        self.stride = stride

    def __call__(self, block: Any, start: int) -> tuple[Sums, pd.DataFrame]:
        frame = framed(block)
        return Sums.of(frame), frame.iloc[-start % self.stride :: self.stride].copy()


def _first_pass(source: Source, stride: int, progress: Progress) -> tuple[Sums, pd.DataFrame]:
    """Sums over all rows, and the sample."""
    sums, parts, rows, done = list[Sums](), list[pd.DataFrame](), len(source), 0
    for block_sums, part in source.each(_First(stride), source.starts):
        sums.append(block_sums)
        parts.append(part)
        done += block_sums.rows
        progress("reading", done / rows)
    return functools.reduce(operator.add, sums), pd.concat(parts, ignore_index=True)


def _second_pass(source: Source, scorer: Scorer, checks: list[RowCheck], sample: Sample) -> ScoreFile:
    """The scores of all rows, in a file."""
    file = ScoreFile()
    for scores in source.each(scorer, source.starts):
        for check in checks:
            check.take(scores)
        file.append(scores or {"none": np.zeros(0, bool)})
        sample.progress("scoring all rows", file.rows / sample.rows)
    file.close()
    return file


def _ranked(file: ScoreFile, checks: list[RowCheck]) -> tuple[list[Worst], int]:
    """The worst rows by each check, and how many rows are suspicious."""
    worst, flagged = [Worst(LISTED) for _ in checks], 0
    for start, part in file.batches():
        marked = np.zeros(len(part), bool)
        for check, of_check in zip(checks, worst, strict=True):
            named, far = check.named(start, part)
            of_check.add(start, named, far)
            marked |= named
        flagged += int(marked.sum())
    return worst, flagged


class _Taken:
    """Some rows of a block."""

    def __init__(self, rows: Index) -> None:
        self.rows = rows

    def __call__(self, block: Any, start: int) -> pd.DataFrame:
        in_block = self.rows[(self.rows >= start) & (self.rows < start + len(block))]
        return framed(block).iloc[in_block - start].copy()


def _taken(source: Source, sample: Sample, worst: list[Worst], checks: list[RowCheck]) -> pd.DataFrame | None:
    """The worst rows outside the sample, which are read once more, and those that they repeat."""
    rows = np.unique(np.concatenate([of_check.rows for of_check in worst]))
    copies = next(check for check in checks if isinstance(check, CopyCheck))
    if not copies.ordinary:
        leaders = copies.of[np.union1d(rows, sample.stride * np.arange(len(sample)))]
        rows = np.union1d(rows, leaders[leaders >= 0][:LISTED])
    rows = rows[rows % sample.stride != 0]
    if not len(rows):
        return None
    frame = pd.concat(list(source.each(_Taken(rows), source.starts)), ignore_index=True)
    return frame.set_index(pd.Index(rows))


def _in_table(finding: Finding, told: Told) -> Finding:
    """A finding about rows that are told of, under their places in the table."""
    rows = told.rows
    suspects = tuple(replace(suspect, row=int(rows[suspect.row])) for suspect in finding.suspects)
    return replace(finding, rows=rows[finding.rows], suspects=suspects, scores={})


def _compare(told: Told) -> Compare:
    """The values of rows beside those of similar rows of the sample."""
    columns, n = told.sample.columns, len(told.sample)
    place = {int(row): at for at, row in enumerate(told.rows)}
    table = Neighbours.of(columns)
    below = table.extended(told.further) if len(told.frame) > n else table
    return lambda rows: below.compare([place[int(row)] for row in rows])


def _overview(finding: Finding, sums: Sums, sample: Sample) -> Finding:
    """What is in the table, by sums over all rows."""
    cells, gaps = sums.rows * len(sums.columns), sum(sums.gaps.values())
    empty = f"{gaps / cells:.2%} of the cells are empty ({gaps:,})" if gaps else "No cell is empty"
    size = f"{counted(sums.rows, 'row')}, {counted(len(sums.columns), 'column')}."
    shares = {name: round(count / sums.rows, 4) for name, count in sums.gaps.items()}
    return replace(
        finding,
        summary=f"{size} {empty}. The second table is of {len(sample):,} rows.",
        numbers={**finding.numbers, "rows": sums.rows, "gaps": shares},
        tables=(sums.table(), *finding.tables),
    )


def _notes_of_blocks(sums: Sums, sample: Sample, checks: list[RowCheck]) -> list[str]:
    """What is to be told of how a long table was read."""
    n = len(sample)
    spacing = f": one in {sample.stride:,}, evenly spread" if sample.stride > 1 else ""
    notes = [
        f"The models were fitted to {n:,} of {sums.rows:,} rows{spacing}. They scored all rows. Missing values, "
        f"ranges and exact copies are those of all rows; everything else is of the {n:,}."
    ]
    if any(isinstance(check, CopyCheck) and not check.looked for check in checks):
        notes.append("Copies were not looked for: there are too many rows.")
    if infinite := sums.columns.index[sums.columns["infinite"] > 0].tolist():
        notes.append(f"{listed(infinite)} {'holds' if len(infinite) == 1 else 'hold'} infinite numbers.")
    return notes


def _second(test: Any) -> Table:
    """The second table, under a name that tells it from the first."""
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


def _notes(sample: Sample) -> list[str]:
    """What is to be told of what was read, and what was left out."""
    columns, target, second = sample.columns, sample.target, sample.second
    shared = int(RowNames(sample.table.frame, sample.id).shared.sum())
    rows = counted(shared, "row has a name that others share", "rows have names that others share")
    notes = [*sample.table.notes, *_left_out(columns, target)]
    notes += [f"In {sample.id}, {rows}; they are shown with their row number."] if shared else []
    notes += [f"{second.name}: {note}" for note in second.notes] if second is not None else []
    if target is None:
        notes.append("No target was named, so no labels, targets, noise or leaks were looked for.")
    elif missing := int(columns.typed[target].isna().sum()):
        notes.append(f"{missing:,} rows have no {target}; they are not judged.")
    return notes


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
