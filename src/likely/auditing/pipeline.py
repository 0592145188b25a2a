"""The audit of a table: models are fitted to a sample, score all rows block by block, and findings are told.

A table in memory is its own sample.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from likely._files import TemporaryParquet
from likely._rows.blocks import is_one_file
from likely._rows.reading.read_table import read_table, source_name
from likely._rows.reading.table import Table, counted, listed, readable
from likely._rows.sources import Source, source_of
from likely._typing import Index
from likely.auditing._checks import MAX_COPIED, ROW_CHECKS, SAMPLE_CHECKS, CopyCheck, RowCheck, Scorer, framed
from likely.auditing.checks.copies import find_twins
from likely.auditing.checks.faulty_columns import WORDS
from likely.auditing.columns.kinds import Columns, StandIns, Words, read_columns
from likely.auditing.expected_values.similar_rows import Neighbours
from likely.auditing.identities.search import find_identities
from likely.auditing.results.accepted import Accepted, Earlier, RowNames
from likely.auditing.results.audit import Audit, Compare, LongAudit, Progress
from likely.auditing.results.finding import Finding, each_once, one_entry_per_row
from likely.auditing.sample import Sample, Told

TASKS = ("auto", "classification", "regression")
AT_ONCE = 1 << 26  # numbers of a table that is read at once, for which an audit takes about 3.5 GB
SAMPLE = 100_000  # rows of a longer table that models are fitted on, about
SAMPLE_NUMBERS = 1 << 23  # numbers that the sample holds at most, but for
LEAST_SAMPLE = 10_000  # rows
LISTED = 2_000  # rows outside the sample that are told of, of each kind of problem


def audit(
    data: Any = None,
    target: str | None = None,
    *,
    task: str = "auto",
    logits: Any = None,
    labels: Any = None,
    features: Any = None,
    classes: Sequence[str] | None = None,
    id_column: str | None = None,
    missing: Sequence[str | float] | None = None,
    accepted: Earlier | None = None,
    previous: Earlier | None = None,
    random_state: int = 0,
    progress: Progress = lambda _what, _share: None,
) -> Audit:
    """Find what is wrong with a data set: odd rows, wrong labels and targets, noise, copies, leaks.

    Pass one of two kinds of input:

    - ``data``, a table (a path to CSV, Parquet or Arrow, a pandas, Polars or Arrow frame, an array, a mapping of
      columns; a folder, glob, URL or list of Parquet, Feather or CSV files, a Dask array or frame) and, to judge its
      labels or targets, ``target``, the name of that column;
    - ``logits`` and ``labels`` (arrays or .npy files) of a classifier on rows it was not trained on, with ``features``
      (its last layer's input) if there are any.

    A table of more than 2²⁶ (67 million) numbers that is not in memory is read in blocks: models are fitted to a
    sample of about 100,000 rows, and all rows are scored by them. The result then lists the worst rows, and ``save``
    writes all scores as Parquet.

    Predictions are out of fold throughout: no row is judged by a model that was trained on it. Nothing is written to
    disk; call ``save`` on the result.

    Args:
        data: a table.
        target: the name of the column to judge.
        task: ``"classification"`` or ``"regression"``; ``"auto"`` (the default) decides by the target's values.
        logits: a classifier's outputs, of the shape (rows, classes).
        labels: their labels, as class numbers.
        features: the input of the classifier's last layer, of the shape (rows, width).
        classes: the names of the classes, for ``logits``; None numbers them.
        id_column: the column that names rows. Rows are reported by that name, and no model uses the column.
        missing: words and numbers that stand for a missing value, such as ``["NA", "-999"]``; empty if there are none.
            None (the default) takes the usual words for that, and the report says which.
        accepted: findings that were marked as fine, to be left out: the file that the page saves, or its content.
        previous: an earlier audit's ``summary.json``, or its content: what it found is left out.
        random_state: seed of all random choices.
        progress: function that is called with the name of each step and the share of it that is done.

    Returns:
        An :class:`~likely.auditing.Audit` with the findings, the suspicious rows and reasons, and scores of all rows.

    Raises:
        ValueError: if the input cannot be audited; the message has the reason and the remedy.

    >>> import likely, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 400)
    >>> table = {"x": truth + 0.1 * rng.normal(size=400), "z": rng.normal(size=400), "label": np.where(truth, "a", "b")}
    >>> table["label"][3] = "b" if truth[3] else "a"
    >>> audit = likely.audit(table, target="label")
    >>> [suspect.row for suspect in audit.suspects if suspect.kind == "labels"]
    [3]
    """
    earlier = Accepted.read(accepted, "accepted") | Accepted.read(previous, "previous")
    table = {"data": data, "target": target, "id_column": id_column, "missing": missing}
    table["task"] = None if task == "auto" else task
    outputs = {"logits": logits, "labels": labels, "features": features, "classes": classes}
    of_table, of_outputs = ([name for name, own in given.items() if own is not None] for given in (table, outputs))
    if of_table and of_outputs:
        both = f"{of_table[0]} is for a table and {of_outputs[0]} for a model's outputs"
        raise ValueError(f"{both}: give a table, or logits and labels, not both")
    if of_outputs:
        if logits is None or labels is None:
            raise ValueError("logits and labels go together: give both")
        from likely.auditing.outputs import audit_logits

        result = audit_logits(logits, labels, features, classes, random_state, progress)
    elif data is None:
        raise ValueError(f"{of_table[0]} needs a table" if of_table else "give a table, or logits and labels")
    else:
        result = audit_table(data, target, task, random_state, progress, id_column, missing)
    return result.without(earlier)


def audit_table(
    data: Any,
    target: str | None,
    task: str,
    seed: int,
    progress: Progress,
    id: str | None = None,
    missing: Sequence[str | float] | None = None,
) -> Audit:
    """Audit a table: what is in it, rows, cells and copies; with a target, labels or targets and leaks."""
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    progress("reading", 0.0)
    source, stride, gaps = _beyond_memory(data), 1, None
    stand_ins = StandIns.of(missing, [readable(str(name)) for name in (target, id) if name is not None])
    if source is None:
        table = read_table(data)
        frame, found = stand_ins.blanked(table.frame)
        table, words = replace(table, frame=frame), (found,)
    else:
        stride = _stride(source)
        sampled = functools.partial(_sampled, stand_ins=stand_ins, stride=stride)
        missing, words, parts = zip(*_each(source, sampled, "reading", progress), strict=True)
        gaps, frame = sum(missing) / len(source), pd.concat(parts, ignore_index=True)
        table = replace(read_table(frame), name=source_name(data))
        if list(table.frame.columns) != list(frame.columns):
            raise ValueError("columns of a table that is read in blocks need unique names: rename them")
    target, id = _settled_names(table, target, id)
    columns = read_columns(table.frame, id)
    progress("looking for copies", 0.0)
    twins, identities = find_twins(columns, target), find_identities(columns)
    task = "none" if target is None else settle(columns, target, task)
    rows = len(table.frame) if source is None else len(source)
    sample = Sample(
        table, columns, target, task, id, twins, identities, seed, progress, stride, rows, gaps, stand_ins, words
    )
    checks = [check for kind in ROW_CHECKS if (check := kind.fit(sample)) is not None]
    told, about = Told(sample, table.frame, columns), (table.name, rows, task, target)
    if source is None:
        findings, notes, compare = _findings(told, checks), _notes(sample), _compare(told)
        return Audit(*about, findings, notes, table.frame, source=table.path, id=id, neighbours=compare)
    file = TemporaryParquet(_each(source, Scorer(sample, checks), "scoring all rows", progress))
    for check in checks:
        check.scores = file
    named = _named(file, checks)
    for check, of_check in zip(checks, named, strict=True):
        check.of_all = len(of_check), rows
    told = _with_worst(told, source, named, checks)
    findings = tuple(_in_table(finding, told) for finding in _findings(told, checks))
    flagged = each_once(named)
    return LongAudit(
        *about,
        findings,
        (*_notes_of_blocks(sample), *_notes(sample)),
        told.frame,
        id=id,
        neighbours=_compare(told),
        parts=functools.partial(_written, file, checks, flagged, id),
        flagged=len(flagged),
        read=len(sample),
        paths=tuple(source.paths),
    )


def _findings(told: Told, checks: Iterable[RowCheck]) -> tuple[Finding, ...]:
    """Everything that is told of a table."""
    findings = [finding for check in checks for finding in check.tell(told)]
    told.sample.progress("looking at columns", 0.0)
    findings += [check(told.sample) for check in SAMPLE_CHECKS]
    return tuple(one_entry_per_row([finding for finding in findings if finding is not None]))


def _compare(told: Told) -> Compare:
    """The values of rows beside those of similar rows of the sample."""

    def compare(rows: Any) -> Any:
        table = Neighbours.of(told.sample.columns, told.sample.leave_out)  # as those of the headlines
        if len(told.further):
            table = table.extended(told.further)
        return table.compare(pd.Index(told.rows).get_indexer(rows).tolist())

    return compare


def _beyond_memory(data: Any) -> Source | None:
    """The blocks of a table that is too large to be read at once."""
    if is_one_file(data) and Path(data).suffix.lower() not in (".parquet", ".pq"):
        return None
    source = source_of(data)
    return source if source is not None and len(source) * source.width > AT_ONCE else None


def _stride(source: Source) -> int:
    """Every how many-th row is in the sample."""
    return max(1, -(-len(source) // max(LEAST_SAMPLE, min(SAMPLE, SAMPLE_NUMBERS // source.width))))


def _sampled(block: Any, start: int, stand_ins: StandIns, stride: int) -> tuple[pd.Series[int], Words, pd.DataFrame]:
    """How many values of each column a block lacks, what stands for some of them, and its rows in the sample."""
    frame, words = stand_ins.blanked(framed(block))
    return frame.isna().sum(), words, frame.iloc[-start % stride :: stride].copy()


def _each(source: Source, compute: Any, what: str, progress: Progress) -> Iterator[Any]:
    """What is computed of every block; how far it is, is told."""
    done = 0
    for rows, part in zip(source.sizes, source.each(compute, source.starts), strict=True):
        yield part
        done += rows
        progress(what, done / len(source))


def _named(file: TemporaryParquet, checks: list[RowCheck]) -> list[Index]:
    """The rows that each check names, the worst first."""

    def of_part(check: RowCheck, part: pd.DataFrame) -> pd.Series[float]:
        judged = check.judge(part)
        return pd.Series(np.asarray(judged.harm), part["row"])[np.asarray(judged.named)]

    parts = [[of_part(check, part) for check in checks] for part in file]
    harms = [pd.concat(of_check) for of_check in zip(*parts, strict=True)]
    return [harm.sort_values(ascending=False, kind="stable").index.to_numpy() for harm in harms]


def _picked(block: Any, start: int, stand_ins: StandIns, rows: Index) -> pd.DataFrame:
    """Some rows of a block."""
    return stand_ins.blanked(framed(block).iloc[rows[(rows >= start) & (rows < start + len(block))] - start])[0]


def _with_worst(told: Told, source: Source, named: list[Index], checks: list[RowCheck]) -> Told:
    """The sample, and below it the worst rows of all others, which are read once more, and those that they repeat."""
    sample = told.sample
    rows = each_once(of_check[:LISTED] for of_check in named)
    for check in checks:
        if isinstance(check, CopyCheck) and not check.ordinary:
            leaders = check.of[np.union1d(rows, told.rows * sample.stride)]
            rows = np.union1d(rows, leaders[leaders >= 0][:LISTED])
    rows = rows[rows % sample.stride != 0]
    if not len(rows):
        return told
    picked = functools.partial(_picked, stand_ins=sample.stand_ins, rows=rows)
    parts = _each(source, picked, "looking at the worst rows", sample.progress)
    return Told.of(sample, pd.concat(parts, ignore_index=True).set_index(pd.Index(rows)))


def _written(file: TemporaryParquet, checks: list[RowCheck], flagged: Index, id: str | None) -> Iterator[pd.DataFrame]:
    """The scores of all rows as they are written, part by part."""
    for part in file:
        columns = {} if id is None else {id: part["id"]}
        columns["suspicious"] = part["row"].isin(flagged)
        for check in checks:
            columns |= check.judge(part).written
        frame = pd.DataFrame(columns).set_index(part["row"])
        yield frame.astype(dict.fromkeys(frame.columns[frame.dtypes == np.float64], np.float32))


def _in_table(finding: Finding, told: Told) -> Finding:
    """A finding about rows that are told of, under their places in the table."""
    rows = told.rows
    suspects = tuple(replace(suspect, row=int(rows[suspect.row])) for suspect in finding.suspects)
    return replace(finding, rows=rows[finding.rows], suspects=suspects, scores={})


def _notes_of_blocks(sample: Sample) -> Iterator[str]:
    """What is to be told of how a long table was read."""
    n = len(sample)
    spacing = f": one in {sample.stride:,}, evenly spread" if sample.stride > 1 else ""
    yield (
        f"The models were fitted to {n:,} of {sample.rows:,} rows{spacing}. They scored all rows. Missing values and "
        f"exact copies are those of all rows; everything else is of the {n:,}."
    )
    if sample.rows > MAX_COPIED:
        yield "Copies were not looked for: there are too many rows."


def _settled_names(table: Table, target: str | None, id: str | None) -> tuple[str | None, str | None]:
    """The target and the column that names the rows, both of which must be there."""
    names = list(table.frame.columns)
    target, id = (None if name is None else _known(readable(str(name)), names) for name in (target, id))
    if target is not None:
        table.check_single(target)
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
    if kind == "date":
        raise ValueError(f"the target {target!r} holds dates: give the days since one of them, as numbers")
    words = not pd.api.types.is_numeric_dtype(values.dtype)
    if task == "regression" and words:
        raise ValueError(
            f"the target {target!r} holds text, which cannot be a regression target: use task='classification'"
        )
    if task != "auto":
        return task
    few = not words and values.nunique() <= min(20, max(2, len(values) // 20)) and (values % 1 == 0).all()
    return "classification" if words or few else "regression"


def _notes(sample: Sample) -> tuple[str, ...]:
    """What is to be told of what was read, and what was left out."""
    columns, target = sample.columns, sample.target
    notes = list(sample.table.notes)
    for kind in ("identifier", "text", "constant", "empty"):
        names = columns.named(kind, but={target})
        notes += [f"Left out of the models: {listed(names)} ({WORDS.get(kind, kind)})."] if names else []
    if shared := RowNames(sample.table.frame, sample.id).shared.sum():
        rows = counted(shared, "row has a name that others share", "rows have names that others share")
        notes.append(f"In {sample.id}, {rows}; they are shown with their row number.")
    if target is None:
        notes.append("No target was named, so no labels, targets, noise or leaks were looked for.")
    elif missing := columns.typed[target].isna().sum():
        notes.append(f"{counted(missing, 'row has', 'rows have')} no {target}: nothing is judged there.")
    return tuple(notes)


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
