"""What an audit found: findings, one list of them across kinds, and the same as a frame and as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from likely._typing import Index
from likely.auditing._finding import KINDS, Finding, Suspect
from likely.auditing._known import Accepted, RowNames
from likely.auditing._ranking import Entry, entries
from likely.auditing._source import counted

# For each of some rows: every column, its value, what rows like it have there, and whether this differs.
Compare = Callable[[Sequence[int]], Sequence[Sequence[tuple[str, str, str, bool]]]]


@dataclass(frozen=True, repr=False)
class Found:
    """What was found in some data, in the order in which it is told.

    The fields are those of :class:`likely.auditing.Audit`, which writes it to files.
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

        >>> Found("tidy", 10, "none", None, ()).lede()
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


def verdict(wrong: bool) -> str:
    """In a word, what is thought of a row."""
    return "wrong" if wrong else "odd"


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, and what is not finite as null, which JSON lacks a word for."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value
