"""What an audit returns, and the three files it is written to: a page for people, a CSV, a JSON for programs."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from likely._files import keep_inputs, replacing, spreadsheet, writable, write_parquet, write_together
from likely._rows.reading.table import counted, listed
from likely._typing import FilePath, Index
from likely.auditing.page import page
from likely.auditing.results.accepted import Accepted, RowNames
from likely.auditing.results.finding import KINDS, Entry, Finding, Suspect, each_once, entries, plain, verdict

Progress = Callable[[str, float], None]
_NAMED = 3  # rows of an entry that are printed
PAGE, SUMMARY = "report.html", "summary.json"
FILES = PAGE, "scores.csv", "scores.parquet", SUMMARY  # one of the two files of scores is written
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
        return each_once(finding.rows for finding in self.findings)

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
        return self._with_reasons(pd.DataFrame(columns).rename_axis("row"))

    def _with_reasons(self, scores: pd.DataFrame) -> pd.DataFrame:
        """The scores of some rows, and why they are suspicious."""
        why = {suspect.row: suspect.headline for suspect in reversed(self.suspects)}
        scores = scores.assign(why=[why.get(row, "") for row in scores.index.tolist()])
        for what in ("label", "target"):
            if f"{what}_nll" in scores:
                wrong = scores[f"{what}_wrong"]
                scores[f"{what}_verdict"] = np.select(
                    [scores[f"{what}_nll"].isna(), wrong < 0.5, wrong > 0.5],
                    ["not judged: missing", "right", "wrong"],
                    "not judged: cannot be told",
                )
        return scores

    def frame(self) -> pd.DataFrame:
        """The suspects as a frame, in their order.

        Returns:
            A frame with the place of each row, its name if rows have names, the kind of problem, "wrong" or "odd", how
            sure that is, how far off the value is in usual deviations, the harm by which the list is sorted, what
            rows with the same problem share, and the headline.
        """
        rows = [
            (own.row, own.kind, verdict(own.wrong), own.score, own.far, own.harm, own.group, own.headline)
            for own in self.suspects
        ]
        names = ["row", "kind", "verdict", "certainty", "far", "harm", "group", "what"]
        frame = pd.DataFrame(rows, columns=names)
        if self.id is not None:
            frame.insert(1, self.id, [self.names.written(row) for row in frame["row"]])
        return frame

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
        for entry in self.entries[:6]:
            rows = ", ".join(self.names.called(row) for row in entry.rows[:_NAMED].tolist())
            if len(entry.rows) > _NAMED:
                rows += ", …"
            line = f"{entry.headline} ({rows})" if len(entry.rows) > 1 else f"{rows}: {entry.headline}"
            lines.append(f"  {verdict(entry.wrong):>5}  {line}")
        more = len(self.entries) - 6
        return "\n".join([*lines, *([f"  and {more:,} more"] if more > 0 else [])])

    def lede(self) -> str:
        """Return the findings in one sentence.

        Returns:
            The sentence that the page begins with.

        >>> Audit("tidy", 10, "none", None, ()).lede()
        'no row of 10 is suspicious.'
        """
        rows: dict[str, set[int]] = {"copy": set(), "wrong": set(), "odd": set()}
        for entry in self.entries:
            rows["copy" if entry.kind == "duplicates" else verdict(entry.wrong)].update(entry.rows.tolist())
        parts = [
            (len(rows["wrong"]), "is probably wrong", "are probably wrong"),
            (len(rows["odd"] - rows["wrong"]), "is odd but may be right", "are odd but may be right"),
            (len(rows["copy"]), "repeats another row, or nearly", "repeat other rows, or nearly"),
        ]
        clauses = [counted(count, singular, plural) for count, singular, plural in parts if count]
        news = f"; {counted(self.hidden, 'known before is', 'known before are')} not shown" if self.hidden else ""
        if not clauses:
            judged = "" if all(finding.judged for finding in self.findings) else ", as far as could be judged"
            return f"no row of {self.rows:,} is suspicious{judged}{news}."
        return f"of {self.rows:,} rows, {listed(clauses, last=' and ')}{news}."

    def save(self, folder: FilePath, command: str = "") -> Path:
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
        if linked := [folder / name for name in files if (folder / name).is_symlink()]:
            raise ValueError(f"{linked[0]} is a link to another file, which would be overwritten: remove the link")
        with writable(folder, create=True):
            summary = json.dumps(plain(self.summary()), indent=1, ensure_ascii=False, allow_nan=False)
            texts = {SUMMARY: summary + "\n", PAGE: page(self, command)}
            # The name of a file may hold what is no Unicode.
            self._write(
                folder, {folder / name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
            )
        return folder / PAGE

    @property
    def inputs(self) -> tuple[FilePath, ...]:
        """The files that were read."""
        return () if self.source is None else (self.source,)

    def _write(self, folder: Path, contents: dict[Path, bytes]) -> None:
        """Write the scores and these files, all or none."""
        scores = spreadsheet(self.scores).encode("utf-8", "backslashreplace")
        write_together({folder / self.scores_file: scores, **contents})


@dataclass(frozen=True, repr=False)
class LongAudit(Audit):
    """What was found in a table that was read by blocks.

    Attributes:
        findings: of the worst rows of each kind; ``summary`` and ``numbers`` of each count all.
        scores: a frame of the rows that are listed; ``save`` writes ``scores.parquet`` with all rows.
        listed: how many rows are listed.
        parts: a function that yields the scores of all rows, part by part.
        flagged: how many rows are suspicious.
        read: how many rows the models were fitted on.
        paths: the local files of the table.
    """

    parts: Callable[[], Iterator[pd.DataFrame]] = field(default=lambda: iter(()), compare=False)
    flagged: int = 0
    read: int = 0
    paths: tuple[str, ...] = ()
    scores_file: ClassVar[str] = "scores.parquet"

    @property
    def listed(self) -> int:
        """How many suspicious rows are listed."""
        return len(self.suspicious)

    @property
    def count(self) -> int:
        """How many rows are suspicious, listed or not."""
        return max(self.flagged - self.hidden, self.listed)

    @property
    def scores(self) -> pd.DataFrame:
        """The scores of the rows that are listed."""
        listed = [part[part.index.isin(self.suspicious)] for part in self.parts()]
        return self._with_reasons(pd.concat(listed))

    def lede(self) -> str:
        """What was found, in one sentence."""
        more, sentence = self.count - self.listed, super().lede()
        beyond = f"; {more:,} more, with less certainty, are in {self.scores_file}."
        return sentence if more <= 0 else sentence[:-1] + beyond

    def summary(self) -> dict[str, Any]:
        """What was found, in numbers and in the order of the list."""
        return super().summary() | {"listed": self.listed, "rows_read": self.read}

    @property
    def inputs(self) -> tuple[FilePath, ...]:
        """The files that were read."""
        return self.paths

    def _write(self, folder: Path, contents: dict[Path, bytes]) -> None:
        with replacing(folder / self.scores_file) as beside:
            write_parquet((self._with_reasons(part).reset_index() for part in self.parts()), beside)
            write_together(contents)
