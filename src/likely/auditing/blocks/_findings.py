"""What is told of a long table: of all rows what was scored, and of a sample what only a whole table shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._rows.sources import Source
from likely.auditing._audit import Audit
from likely.auditing._columns import Columns
from likely.auditing._duplicates import ORDINARY
from likely.auditing._finding import Explained, Finding, Reason, worst_first
from likely.auditing._neighbours import Neighbours
from likely.auditing._source import counted, listed
from likely.auditing.blocks._answer import BlocksAudit, KeptRows
from likely.auditing.blocks._columns import BlockColumns
from likely.auditing.blocks._passes import LISTED, Fitted, Scored, framed, named_wrong
from likely.auditing.blocks._rows import NAMED, extended
from likely.auditing.blocks._sums import Sums
from likely.auditing.blocks._targets import LabelScores
from likely.auditing.checks._sums import breaks, tell_broken

_OF_ALL = ("rows", "targets", "labels", "duplicates", "sums")  # findings that are about all rows
_OF_TARGETS = ("target_wrong", "target_nll", "expected", "label_wrong", "label_nll", "temperature")
_ALIKE, _CONTRARY = 0.05, 0.3  # how far off a copy is, and one with another target


def tell_all(
    source: Source, name: str, sample: Audit, columns: Columns, sums: Sums, fitted: Fitted, scored: Scored
) -> BlocksAudit:
    """The audit of a long table."""
    copies = _copies(scored, sums.rows)
    leaders = scored.copies[copies] if scored.copies is not None else copies
    from_sample = [_moved(finding, fitted.stride) for finding in sample.findings if finding.name not in _OF_ALL]
    wanted = [
        scored.odd.rows,
        scored.wrong.rows,
        scored.broken.rows,
        copies,
        leaders,
        *(finding.rows for finding in from_sample),
    ]
    kept_rows = _taken(source, np.unique(np.concatenate(wanted)), fitted.sampled)
    all_rows = _Told(sample, sums, fitted, scored, kept_rows)
    findings: list[Finding | None] = [
        all_rows.overview(finding) if finding.name == "overview" else finding for finding in from_sample
    ]
    findings += [all_rows.rows(), all_rows.target(), all_rows.broken(), all_rows.repeated(copies, leaders)]
    whole, table = BlockColumns.of(columns), Neighbours.of(columns)
    below = extended(table, whole, whole.typed(kept_rows.frame))
    return BlocksAudit(
        name,
        sums.rows,
        sample.task,
        sample.target,
        tuple(finding for finding in findings if finding is not None),
        (*all_rows.notes(), *sample.notes),
        cast(Any, kept_rows),  # as much of a frame as is asked of it
        id=sample.id,
        neighbours=lambda rows: below.compare(kept_rows.below(rows, fitted.places(np.asarray(rows)))),
        kept=kept_rows,
        file=scored.file,
        finish=all_rows.finish,
        flagged=scored.flagged,
        read=fitted.sampled,
        inputs=tuple(source.paths),
    )


def _copies(scored: Scored, rows: int) -> NDArray[np.int64]:
    """The first of the rows that repeat an earlier one, unless copies are ordinary."""
    if scored.copies is None:
        return np.zeros(0, np.int64)
    repeats = np.flatnonzero(scored.copies >= 0)
    return repeats[:LISTED] if len(repeats) <= rows * ORDINARY else repeats[:0]


def _moved(finding: Finding, stride: int) -> Finding:
    """A finding about rows of the sample, under their places in the table."""
    suspects = tuple(replace(suspect, row=suspect.row * stride) for suspect in finding.suspects[:LISTED])
    rows, certainty = finding.rows[:LISTED] * stride, finding.certainty[:LISTED]
    return replace(finding, rows=rows, certainty=certainty, suspects=suspects, scores={})


@dataclass(frozen=True)
class _Taken:
    rows: NDArray[np.int64]

    def __call__(self, block: Any, start: int) -> pd.DataFrame:
        in_block = self.rows[(self.rows >= start) & (self.rows < start + len(block))]
        return framed(block).iloc[in_block - start].copy()


def _taken(source: Source, rows: NDArray[np.int64], sampled: int) -> KeptRows:
    """Rows that are read once more, to be shown."""
    frame = pd.concat(list(source.each(_Taken(rows), source.starts)), ignore_index=True)
    return KeptRows(frame, {int(row): place for place, row in enumerate(rows)}, sampled)


@dataclass(frozen=True)
class _Told:
    sample: Audit
    sums: Sums
    fitted: Fitted
    scored: Scored
    kept: KeptRows

    def notes(self) -> list[str]:
        """What is to be told of how the table was read."""
        n, rows, stride = self.fitted.sampled, self.sums.rows, self.fitted.stride
        spacing = f": one in {stride:,}, evenly spread" if stride > 1 else ""
        sentences = [
            f"The models were fitted to {n:,} of {rows:,} rows{spacing}. They scored all rows. Missing values, ranges, "
            f"constant columns and exact copies are those of all rows; everything else is of the {n:,}."
        ]
        if self.scored.copies is None:
            sentences.append("Copies were not looked for: there are too many rows.")
        if constant := self.sums.constant:
            are = "has the same value in all rows" if len(constant) == 1 else "have the same value in all rows"
            sentences.append(f"{listed(constant)} {are}.")
        if infinite := [name for name, sums in self.sums.columns.items() if sums.infinite]:
            sentences.append(f"{listed(infinite)} {'holds' if len(infinite) == 1 else 'hold'} infinite numbers.")
        return sentences

    def overview(self, of_sample: Finding) -> Finding:
        """What is in the table, by sums over all rows."""
        cells, gaps = self.sums.rows * len(self.sums.columns), sum(self.sums.gaps.values())
        empty = f"{gaps / cells:.2%} of the cells are empty ({gaps:,})" if gaps else "No cell is empty"
        size = f"{counted(self.sums.rows, 'row')}, {counted(len(self.sums.columns), 'column')}."
        shares = {name: round(count / self.sums.rows, 4) for name, count in self.sums.gaps.items()}
        return replace(
            of_sample,
            summary=f"{size} {empty}. The second table is of {self.fitted.sampled:,} rows.",
            numbers={**of_sample.numbers, "rows": self.sums.rows, "gaps": shares},
            tables=(self.sums.table(), *of_sample.tables),
        )

    def rows(self) -> Finding | None:
        """The rows that do not fit the rest."""
        if self.fitted.rows is None or self.scored.certainty is None:
            return None
        rows, frame = self._listed(self.scored.odd.rows)
        if not len(rows):
            summary = "No row is further out than chance explains."
            numbers = {"rows": 0, "wrong": 0, "columns": len(self.fitted.columns.kinds)}
            return Finding("rows", "Rows that do not fit the rest", summary, numbers=numbers)
        typed, places = self.fitted.columns.typed(frame), self.fitted.places(rows)
        scores = pd.DataFrame(self.fitted.rows(typed, places))
        nats = scores["nats"].to_numpy() if "nats" in scores else None
        broken, sure = self.scored.certainty(scores["row_scale"].to_numpy(), nats)
        # What was named once is named, whatever rounding does.
        scores = scores.assign(broken=broken, row_odd=np.maximum(sure, NAMED))
        finding = self.fitted.rows.finding(typed, places, scores, self.scored.odd.count, self.sums.rows)
        return _at(finding, rows)

    def target(self) -> Finding | None:
        """The targets or labels that are probably wrong, with the pictures of the sample."""
        judge = self.fitted.target
        if judge is None:
            return None
        rows, frame = self._listed(self.scored.wrong.rows)
        name = "labels" if isinstance(judge, LabelScores) else "targets"
        drawn = next(candidate for candidate in self.sample.findings if candidate.name == name)
        if not len(rows):
            numbers = {**drawn.numbers, "rows": 0}
            none = replace(drawn, rows=rows, certainty=np.zeros(0), suspects=(), scores={}, numbers=numbers)
            return none if not drawn.numbers["rows"] else replace(none, summary="No row of the whole table is listed.")
        typed, places = self.fitted.columns.typed(frame), self.fitted.places(rows)
        targets: Any = judge.given(frame)
        finding = judge.finding(typed, targets, places, self.scored.wrong.count, self.sums.rows)
        return replace(_at(finding, rows), pictures=drawn.pictures)

    def broken(self) -> Finding | None:
        """The rows that break a sum of columns."""
        rows, frame = self._listed(self.scored.broken.rows)
        table, identities = self.fitted.summed(frame), self.fitted.identities
        finding = tell_broken(
            table,
            identities,
            breaks(table, identities),
            self.scored.breaking,
            self.scored.broken.count,
            self.sums.rows,
        )
        return None if finding is None else _at(finding, rows)

    def repeated(self, copies: NDArray[np.int64], leaders: NDArray[np.int64]) -> Finding | None:
        """The rows that repeat an earlier one, exactly."""
        count = 0 if self.scored.copies is None else int((self.scored.copies >= 0).sum())
        if not count:
            return None
        title, sentence = "Duplicate rows", f"{counted(count, 'row repeats', 'rows repeat')} an earlier one"
        if not len(copies):
            summary = f"{sentence}: with so few columns or values, that is expected."
            return Finding("duplicates", title, summary, numbers={"rows": 0, "repeated": count})
        target = self.sample.target
        shown = self.kept.frame[target].to_numpy(object) if target is not None else np.zeros(len(self.kept.frame))
        values, leader_values = (shown[[self.kept.place[int(row)] for row in rows]] for rows in (copies, leaders))
        differ = ~((values == leader_values) | (pd.isna(values) & pd.isna(leader_values)))

        def explain(rows: NDArray[np.int64]) -> Iterator[Explained]:
            for at in rows:
                which = f"row {leaders[at]}"
                reasons = [Reason("all columns", f"as in {which}", share=1.0)]
                headline, group, far = f"equals {which}", "equal to another row", _ALIKE
                if differ[at]:
                    headline, far = f"{headline}, but has a different {target}", _CONTRARY
                    group = f"{group} but for the target"
                    reasons.append(Reason(str(target), str(values[at]), f"{leader_values[at]} in {which}", 1.0))
                yield Explained(headline, reasons, far, wrong=False, group=group)

        ranked = worst_first("duplicates", np.where(differ, 1.0, 0.99), np.ones(len(copies), bool), explain, most=None)
        more = f"; the first {len(copies):,} are listed" if len(copies) < count else ""
        numbers = {"rows": count, "near": 0, "other_target": int(differ.sum()), "by_noise": False}
        return _at(Finding("duplicates", title, f"{sentence}{more}.", numbers=numbers, **ranked), copies)

    def finish(self, start: int, part: pd.DataFrame) -> dict[str, Any]:
        """The columns of the file of scores, for some rows of what was written while they were scored."""
        columns: dict[str, Any] = {} if self.fitted.id is None else {str(self.fitted.id): part["id"]}
        marked = np.zeros(len(part), bool)
        columns["suspicious"] = marked
        if self.scored.certainty is not None:
            nats = part["nats"].to_numpy() if "nats" in part else None
            _, sure = self.scored.certainty(part["row_scale"].to_numpy(), nats)
            columns |= {"row_scale": part["row_scale"], "row_odd": sure.astype(np.float32)}
            marked |= sure >= NAMED
        if self.fitted.target is not None:
            marked |= named_wrong(part)
            columns |= {name: part[name] for name in _OF_TARGETS if name in part}
        if isinstance(self.fitted.target, LabelScores):
            names = np.array([*self.fitted.target.classes, ""], dtype=object)
            columns["suggested"] = pd.Series(names[part["suggested"].to_numpy()], dtype=str)
        if "broken" in part:
            marked |= part["broken"].to_numpy() > 0
        if self.scored.copies is not None:
            columns["repeats_row"] = self.scored.copies[start : start + len(part)]
            if not self.scored.ordinary:
                marked |= columns["repeats_row"] >= 0
        return columns

    def _listed(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], pd.DataFrame]:
        return rows, self.kept.iloc[rows.tolist()].reset_index(drop=True)


def _at(finding: Finding, rows: NDArray[np.int64]) -> Finding:
    """A finding about some rows, under their places in the table."""
    suspects = tuple(replace(suspect, row=int(rows[suspect.row])) for suspect in finding.suspects)
    return replace(finding, rows=rows[finding.rows], suspects=suspects)
