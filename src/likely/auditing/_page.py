"""The page: one HTML file that needs nothing but itself, and may not fetch anything even if it wanted to."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from likely._page.render import render, with_html, with_svg
from likely.auditing._finding import EXPLAINED, Finding, Suspect
from likely.auditing._result import Result

_CELLS = 24  # values of a row that are shown; those named in its reasons come first
_LONG = 200  # signs of a cell
COLOURS = {
    "labels": "red",
    "targets": "red",
    "rows": "violet",
    "duplicates": "gold",
    "overlap": "gold",
    "cells": "green",
}
WORDS = {
    "labels": "label",
    "targets": "target",
    "rows": "odd row",
    "duplicates": "copy",
    "overlap": "in both",
    "cells": "cell",
}


@dataclass(frozen=True)
class Line:
    """A suspicious row as the page shows it."""

    suspect: Suspect
    cells: list[tuple[str, str]]
    image: str | None

    @property
    def kind(self) -> str:
        return WORDS[self.suspect.kind]

    @property
    def colour(self) -> str:
        return COLOURS[self.suspect.kind]

    @property
    def percent(self) -> str:
        return f"{min(self.suspect.score, 0.999):.1%}" if self.suspect.score > 0.99 else f"{self.suspect.score:.0%}"

    @property
    def text(self) -> str:
        """What a filter searches."""
        parts = [f"row {self.suspect.row}", self.kind, self.suspect.headline]
        parts += [f"{reason.what} {reason.value}" for reason in self.suspect.reasons]
        return " ".join(parts + [value for _, value in self.cells]).lower()


def page(audit: Result, command: str = "") -> str:
    """The whole page as HTML."""
    folder = Path(__file__).parent
    style, script = (folder.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    lines = [_line(audit, suspect) for suspect in audit.suspects[:EXPLAINED]]
    return render(
        folder / "page.html.jinja",
        audit=audit,
        found=[_shown(finding) for finding in audit.findings],
        lines=lines,
        kinds={line.suspect.kind: line.kind for line in lines},
        counts={finding.name: len(finding.rows) for finding in audit.findings},
        colours=COLOURS,
        total=sum(len(finding.rows) for finding in audit.findings),
        command=command,
        style=Markup(style),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _line(audit: Result, suspect: Suspect) -> Line:
    image = audit.thumbnails(suspect.row) if audit.thumbnails else None
    if audit.values is None:
        return Line(suspect, [], image)
    named = [reason.what for reason in suspect.reasons if reason.what in audit.values.columns]
    first = [audit.target] if audit.target in audit.values.columns else []
    names = list(dict.fromkeys([*first, *named, *audit.values.columns[:_CELLS]]))[:_CELLS]
    row = audit.values.iloc[suspect.row]
    return Line(suspect, [(name, _cell(row[name])) for name in names], image)


def _cell(value: Any) -> str:
    missing = pd.isna(value) if pd.api.types.is_scalar(value) else False
    text = "missing" if missing else str(value)
    if isinstance(value, float | np.floating):
        text = text.removesuffix(".0")
    return text if len(text) <= _LONG else text[:_LONG] + "…"


def _shown(finding: Finding) -> dict[str, Any]:
    pictures = with_svg((draw() for draw in finding.pictures), finding.name)
    return {"finding": finding, "pictures": pictures, "tables": with_html(finding.tables, finding.name)}
