"""What an audit returns, and the three files it is written to: a page for people, a CSV, a JSON for programs."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from likely._destination import keep_inputs, writable, write_together
from likely._page.html import render
from likely.auditing._finding import EXPLAINED, KINDS, Finding, Suspect

Progress = Callable[[str, float], None]
FILES = PAGE, SCORES, SUMMARY = "report.html", "scores.csv", "summary.json"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_CELLS = 24  # values of a row that are shown; those named in its reasons come first
_LONG = 200  # signs of a cell


@dataclass(frozen=True)
class Audit:
    """What was found in some data. ``save`` writes a page, a CSV of scores and a JSON summary.

    ``findings`` has one :class:`Finding` per kind of problem, ``suspects`` the suspicious rows with reasons, the surest
    first, ``scores`` a frame with a row for every row of the data (0 is the first).

    >>> import likely, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 2))
    >>> table = {"a": x[:, 0], "b": x[:, 1], "price": 20 + x.sum(1) + 0.1 * rng.normal(size=300)}
    >>> table["price"][7] *= 10
    >>> audit = likely.audit(table, target="price")
    >>> audit.suspects[0].row, audit.suspects[0].kind
    (7, 'targets')
    >>> sorted(audit.summary())
    ['data', 'findings', 'notes', 'rows', 'share_suspicious', 'suspicious', 'target', 'task']
    """

    name: str
    rows: int
    task: str
    target: str | None
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    values: pd.DataFrame | None = None
    thumbnails: Callable[[int], str | None] | None = field(default=None, compare=False)
    source: Path | None = None

    def __post_init__(self) -> None:
        place = list(KINDS).index
        object.__setattr__(self, "findings", tuple(sorted(self.findings, key=lambda finding: place(finding.name))))

    @property
    def suspects(self) -> list[Suspect]:
        """Suspicious rows with reasons, the surest first; a row may be suspicious in more than one way."""
        suspects = [suspect for finding in self.findings for suspect in finding.suspects]
        return sorted(suspects, key=lambda suspect: -suspect.score)

    @property
    def suspicious(self) -> NDArray[np.int64]:
        """All suspicious rows."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(finding.rows for finding in self.findings)]))

    @property
    def share(self) -> float:
        """The share of rows that are suspicious."""
        return len(self.suspicious) / self.rows

    @property
    def scores(self) -> pd.DataFrame:
        """The scores of every row."""
        columns: dict[str, Any] = {"suspicious": np.isin(np.arange(self.rows), self.suspicious)}
        for finding in self.findings:
            columns |= finding.scores
        why = np.full(self.rows, "", dtype=object)
        for suspect in reversed(self.suspects):
            why[suspect.row] = suspect.headline
        return pd.DataFrame(columns | {"why": why}).rename_axis("row")

    def summary(self) -> dict[str, Any]:
        """What was found, in numbers."""
        return {
            "data": self.name,
            "rows": self.rows,
            "task": self.task,
            "target": self.target,
            "suspicious": len(self.suspicious),
            "share_suspicious": self.share,
            "findings": {finding.name: dict(finding.numbers) for finding in self.findings},
            "notes": list(self.notes),
        }

    def save(self, folder: str | os.PathLike[str], command: str = "") -> Path:
        """Write report.html, scores.csv and summary.json, and return the path of the page.

        All three are written or none, and never over the data.
        """
        folder = Path(folder)
        keep_inputs([folder / name for name in FILES], {"the data": self.source})
        with writable(folder, create=True):
            summary = json.dumps(_plain(self.summary()), indent=1, ensure_ascii=False, allow_nan=False)
            texts = {SCORES: scores_csv(self.scores), SUMMARY: summary + "\n", PAGE: page(self, command)}
            # The name of a file may hold what is no Unicode.
            write_together({folder / name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()})
        return folder / PAGE


def page(audit: Audit, command: str = "") -> str:
    """One HTML file that needs nothing but itself, and may not fetch anything even if it wanted to."""
    folder = Path(__file__).parent
    style, script = (folder.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    suspects = audit.suspects[:EXPLAINED]
    return render(
        folder / "page.html.jinja",
        audit=audit,
        lines=[(suspect, _cells(audit, suspect)) for suspect in suspects],
        kinds=KINDS,
        shown=list(dict.fromkeys(suspect.kind for suspect in suspects)),
        total=sum(len(finding.rows) for finding in audit.findings),
        command=command,
        style=Markup(style),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _cells(audit: Audit, suspect: Suspect) -> list[tuple[str, str]]:
    """The values of a row that the page shows, by column."""
    if audit.values is None:
        return []
    columns = audit.values.columns
    first = [name for name in (audit.target, *(reason.what for reason in suspect.reasons)) if name in columns]
    names = list(dict.fromkeys([*first, *columns[:_CELLS]]))[:_CELLS]
    row = audit.values.iloc[suspect.row]
    return [(name, _cell(row[name])) for name in names]


def _cell(value: Any) -> str:
    missing = pd.isna(value) if pd.api.types.is_scalar(value) else False
    text = "missing" if missing else str(value)
    if isinstance(value, float | np.floating):
        text = text.removesuffix(".0")
    return text if len(text) <= _LONG else text[:_LONG] + "…"


def scores_csv(scores: pd.DataFrame) -> str:
    """A CSV in which no cell is a formula."""
    safe = scores.rename(columns=lambda name: harmless(str(name)))
    for name in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[name].dtype):
            safe[name] = [harmless(value) if isinstance(value, str) else value for value in safe[name]]
    return safe.to_csv(lineterminator="\n", quoting=csv.QUOTE_MINIMAL, float_format="%.6g")


def harmless(text: str) -> str:
    """The text, after an apostrophe if a spreadsheet would take it for a formula, and without line ends.

    >>> harmless("=1+1"), harmless("fine"), harmless(" @SUM(A1)")
    ("'=1+1", 'fine', "' @SUM(A1)")
    """
    guarded = "'" + text if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text
    return guarded.replace("\r", " ").replace("\n", " ")


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, and what is not finite as null, which JSON lacks a word for."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value
