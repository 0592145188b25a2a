"""What an audit returns, and the three files it is written to: a page for people, a CSV, a JSON for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from likely._destination import keep_inputs, writable, write_together
from likely._rows.reading.table import counted
from likely._typing import Index
from likely.auditing.page.report import extract, page
from likely.auditing.results.accepted import Accepted, RowNames
from likely.auditing.results.finding import KINDS, Finding, Suspect, plain, verdict
from likely.auditing.results.ranking import Entry, entries

Progress = Callable[[str, float], None]
PAGE, SUMMARY = "report.html", "summary.json"
FILES = PAGE, "scores.csv", "scores.parquet", SUMMARY  # one of the two files of scores is written
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
# For each of some rows: every column, its value, what rows like it have there, and whether this differs.
Compare = Callable[[Sequence[int]], Sequence[Sequence[tuple[str, str, str, bool]]]]


@dataclass(frozen=True, repr=False)
class Audit:
    """What was found in some data.

    Attributes:
        name: the name of the data, such as that of its file.
        rows: the number of rows.
        task: ``"regression"``, ``"classification"`` or ``"none"``.
        target: the name of the target, or None.
        notes: sentences about what was read and left out.
        values: a frame of the values that the page shows, or None.
        source: the path of the data, or None for what was in memory.
        id: the name of the column that identifies rows, or None for row numbers.
        accepted: what was marked as fine before.
        neighbours: the comparison of a row with similar ones, or None.
        findings: one :class:`Finding` per kind of problem, and per question about the table as a whole.
        entries: one list across kinds, what does most harm first; rows with the same problem are one entry.
        suspects: the suspicious rows with reasons, in the same order.
        scores: a frame with a row for every row of the data (0 is the first).

    >>> import likely, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 2))
    >>> table = {"a": x[:, 0], "b": x[:, 1], "price": 20 + x.sum(1) + 0.1 * rng.normal(size=300)}
    >>> table["price"][7] *= 10
    >>> report = likely.audit(table, target="price")
    >>> report.suspects[0].row, report.suspects[0].kind
    (7, 'targets')
    >>> list(report.frame().columns)
    ['row', 'kind', 'verdict', 'certainty', 'far', 'harm', 'group', 'what']
    >>> sorted(report.summary())[:4]
    ['data', 'entries', 'findings', 'known']
    """

    name: str
    rows: int
    task: str
    target: str | None
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    values: pd.DataFrame | None = None
    source: Path | None = None
    id: str | None = None
    accepted: Accepted = field(default_factory=Accepted)
    neighbours: Compare | None = field(default=None, compare=False)
    scores_file: ClassVar[str] = "scores.csv"  # holds the scores of all rows

    def __post_init__(self) -> None:
        places = {kind: place for place, kind in enumerate(KINDS)}
        ordered = sorted(self.findings, key=lambda finding: places.get(finding.name, len(places)))
        object.__setattr__(self, "findings", tuple(ordered))

    def without(self, accepted: Accepted) -> Self:
        """The same audit without what is known.

        Args:
            accepted: what was found before, or marked as fine.

        Returns:
            An audit whose findings leave these out; what they were computed from stays.
        """
        stripped = tuple(accepted.strip(finding, self.names) for finding in self.findings)
        return replace(self, findings=stripped, accepted=self.accepted | accepted)

    @cached_property
    def names(self) -> RowNames:
        """How rows are told from each other."""
        return RowNames(self.values, self.id)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Everything found about rows, what does most harm first; rows with the same problem are one entry."""
        return entries(self.findings)

    @cached_property
    def keys(self) -> dict[int, str]:
        """Of each suspicious row, what it is known by: worked out for all at once, which is quick."""
        return dict(zip(self.suspicious.tolist(), self.names.keys(self.suspicious), strict=True))

    @property
    def suspects(self) -> list[Suspect]:
        """Suspicious rows with reasons, in the order of the entries; a row may be suspicious in more than one way."""
        return [suspect for entry in self.entries for suspect in entry.suspects]

    @property
    def suspicious(self) -> Index:
        """All suspicious rows."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(finding.rows for finding in self.findings)]))

    @property
    def share(self) -> float:
        """The share of rows that are suspicious."""
        return self.count / self.rows

    @property
    def count(self) -> int:
        """How many rows are suspicious."""
        return len(self.suspicious)

    @property
    def hidden(self) -> int:
        """How many findings about rows are left out because they are known."""
        return sum(finding.known for finding in self.findings)

    @property
    def scores(self) -> pd.DataFrame:
        """The scores of every row."""
        columns: dict[str, Any] = {"suspicious": np.isin(np.arange(self.rows), self.suspicious)}
        if self.id is not None and self.values is not None:
            columns = {self.id: self.values[self.id].to_numpy(), **columns}
        for finding in self.findings:
            columns |= finding.scores
        why = np.full(self.rows, "", dtype=object)
        for suspect in reversed(self.suspects):
            why[suspect.row] = suspect.headline
        return pd.DataFrame(columns | {"why": why}).rename_axis("row")

    def frame(self) -> pd.DataFrame:
        """The suspects as a frame, in their order.

        Returns:
            A frame with the place of each row, its name if rows have names, the kind of problem, "wrong" or "odd", how
            sure that is, how far off the value is in usual deviations, the harm by which the list is sorted, what
            rows with the same problem share, and the headline.
        """
        suspects = self.suspects
        named = {} if self.id is None else {self.id: [self.names.written(suspect.row) for suspect in suspects]}
        return pd.DataFrame(
            {
                "row": [suspect.row for suspect in suspects],
                **named,
                "kind": [suspect.kind for suspect in suspects],
                "verdict": [verdict(suspect.wrong) for suspect in suspects],
                "certainty": [suspect.score for suspect in suspects],
                "far": [suspect.far for suspect in suspects],
                "harm": [suspect.harm for suspect in suspects],
                "group": [suspect.group for suspect in suspects],
                "what": [suspect.headline for suspect in suspects],
            }
        )

    def summary(self) -> dict[str, Any]:
        """Return the findings as numbers and words, for the JSON file.

        Returns:
            A dictionary with, among others, ``"rows"``, ``"findings"`` and ``"entries"`` in the order of the
            page.
        """
        return {
            "data": self.name,
            "rows": self.rows,
            "task": self.task,
            "target": self.target,
            "suspicious": self.count,
            "share_suspicious": self.share,
            "known": self.hidden,
            "findings": {finding.name: dict(finding.numbers) for finding in self.findings},
            "entries": [self._entry_summary(entry) for entry in self.entries],
            "notes": list(self.notes),
        }

    def _entry_summary(self, entry: Entry) -> dict[str, Any]:
        keys = {row: self.keys[row] for row in entry.rows.tolist()}
        marks = [self.names.mark(suspect, keys.pop(suspect.row)) for suspect in entry.suspects]
        return {
            "kind": entry.kind,
            "what": entry.headline,
            "verdict": verdict(entry.wrong),
            "rows": len(entry.rows),
            "first": int(entry.rows[0]),
            "certainty": entry.score,
            "harm": entry.harm,
            "marks": [*marks, *({"kind": entry.kind, "key": key} for key in keys.values())],
        }

    def __repr__(self) -> str:
        lines = [f"Audit of {self.name}: {self.lede()}"]
        lines += [f"  {verdict(entry.wrong):>5}  {self._line(entry)}" for entry in self.entries[:10]]
        more = len(self.entries) - 10
        return "\n".join([*lines, *([f"  and {more:,} more"] if more > 0 else [])])

    def _line(self, entry: Entry) -> str:
        """An entry in one line: an entry of several rows says how many they are."""
        return entry.headline if len(entry.rows) > 1 else f"{self.names.called(int(entry.rows[0]))}: {entry.headline}"

    def lede(self) -> str:
        """Return the findings in one sentence.

        Returns:
            The sentence that the page begins with.

        >>> Audit("tidy", 10, "none", None, ()).lede()
        'no row of 10 is suspicious.'
        """
        rows: dict[str, list[Index]] = {"copy": [], "wrong": [], "odd": []}
        for entry in self.entries:
            rows["copy" if entry.kind in ("duplicates", "overlap") else verdict(entry.wrong)].append(entry.rows)
        copies, wrong, odd = (
            np.unique(np.concatenate([np.zeros(0, np.int64), *of_verdict])) for of_verdict in rows.values()
        )
        parts = [
            (len(wrong), "is probably wrong", "are probably wrong"),
            (len(np.setdiff1d(odd, wrong)), "is odd but may be right", "are odd but may be right"),
            (len(copies), "repeats another row", "repeat other rows"),
        ]
        clauses = [counted(count, singular, plural) for count, singular, plural in parts if count]
        news = f"; {counted(self.hidden, 'known before is', 'known before are')} not shown" if self.hidden else ""
        if not clauses:
            judged = "" if all(finding.judged for finding in self.findings) else ", as far as could be judged"
            return f"no row of {self.rows:,} is suspicious{judged}{news}."
        last = " and ".join([", ".join(clauses[:-1]), clauses[-1]]) if len(clauses) > 1 else clauses[0]
        return f"of {self.rows:,} rows, {last}{news}."

    def save(self, folder: str | os.PathLike[str], command: str = "") -> Path:
        """Write report.html, scores.csv and summary.json: all three or none, and never over the data.

        The scores of a table that was read in blocks are written to scores.parquet instead.

        Args:
            folder: where to write; it is made if it is not there.
            command: what made the audit, to be shown on the page.

        Returns:
            The path of the page.
        """
        folder = Path(folder)
        files = (PAGE, self.scores_file, SUMMARY)
        keep_inputs([folder / name for name in files], {f"the data ({path})": path for path in self.inputs})
        with writable(folder, create=True):
            texts = {SUMMARY: _json(plain(self.summary())), PAGE: page(self, command)}
            # The name of a file may hold what is no Unicode.
            self._write(
                folder, {folder / name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
            )
        return folder / PAGE

    @property
    def inputs(self) -> tuple[str | os.PathLike[str], ...]:
        """The files that were read."""
        return () if self.source is None else (self.source,)

    def _write(self, folder: Path, contents: dict[Path, bytes]) -> None:
        """Write the scores and these files, all or none."""
        scores = scores_csv(self.scores).encode("utf-8", "backslashreplace")
        write_together({folder / self.scores_file: scores, **contents})

    def _repr_html_(self) -> str:
        return extract(self)


def _json(summary: dict[str, Any]) -> str:
    """A summary that people can read, with a line per entry: there may be a hundred thousand marks."""

    def written(value: Any, indent: int | None = 1) -> str:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)

    lines = {key: written(value) for key, value in summary.items()}
    lines["entries"] = "[" + ",".join(f"\n  {written(entry, None)}" for entry in summary["entries"]) + "]"
    return "{\n " + ",\n ".join(f"{written(key)}: {text}" for key, text in lines.items()) + "\n}\n"


def scores_csv(scores: pd.DataFrame) -> str:
    """A CSV in which no cell is a formula, by column: pandas takes three times as long for a million rows."""
    names = [scores.index.name or "", *map(str, scores.columns)]
    columns = [_cells(scores.index.to_series()), *(_cells(scores[name]) for name in scores.columns)]
    return "\n".join([",".join(map(_quoted, names)), *map(",".join, zip(*columns, strict=True)), ""])


def _cells(column: pd.Series[Any]) -> list[str]:
    """The values of a column as they are written; a missing one is empty."""
    if pd.api.types.is_float_dtype(column.dtype):
        return ["" if value != value else f"{value:.6g}" for value in column.tolist()]
    if pd.api.types.is_numeric_dtype(column.dtype) and not column.hasnans:
        return list(map(str, column.tolist()))
    codes, levels = pd.factorize(column)  # most texts, such as a kind of finding, are those of many rows
    return np.array([*(_quoted(str(level)) for level in levels), ""], object)[codes].tolist()


def _quoted(text: str) -> str:
    text = harmless(text)
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def harmless(text: str) -> str:
    """The text, after an apostrophe if a spreadsheet would take it for a formula, and without line ends.

    >>> harmless("=1+1"), harmless("fine"), harmless(" @SUM(A1)")
    ("'=1+1", 'fine', "' @SUM(A1)")
    """
    guarded = "'" + text if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text
    return guarded.replace("\r", " ").replace("\n", " ")
