"""The report: one HTML page that needs nothing but itself, made from the records in a folder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from likely._machine import machine, versions
from likely._page import Picture, Table
from likely._page.html import table_html, words
from likely._page.svg import css_variables, inline
from likely.reproduce._compared import COMPARED, Compared
from likely.reproduce._entry import Entry
from likely.reproduce._record import Record, load_or_tell, write_text

PAPER = "It Is Likely That Your Loss Should be a Likelihood"
# How sentences begin that say of what data the others are.
SETTING = (
    r"Redrawn from|On scikit-learn|On validation|On [\d,]+ (test|validation)|The (pictures|network|first network) |"
    r"The paper does not say"
)
REASON = 170  # characters of a reason, at most
CSS_CLASS = {"holds": "holds", "holds in part": "in-part", "does not hold": "fails", "failed": "fails"}


@dataclass(frozen=True)
class Item:
    """An entry with what the page shows of it; for a benchmark also its bars beside those of the run before."""

    entry: Entry
    record: Record | None
    bars: Sequence[Any] = ()
    last: str = ""

    @property
    def state(self) -> str:
        if self.record is None:
            return "not run"
        return self.record.result.verdict if self.record.result else "failed"

    @property
    def compared(self) -> Compared | None:
        """What the paper prints and what ours is held against; benchmarks say it in their claim."""
        return COMPARED.get(self.entry.name)

    @property
    def reason(self) -> str:
        """The first thing the notes say of the verdict, in a line or two."""
        if self.record is None:
            return ""
        if self.record.result is None:
            return shortened(self.record.error or "")
        sentences = re.split(r"(?<=\.) (?=[A-Z`'])", self.record.result.notes)
        own = [one for one in sentences if not re.match(SETTING, one)]
        enough = next((n for n in range(1, len(own)) if len(" ".join(own[:n])) > REASON // 3), len(own))
        return shortened(" ".join(own[:enough]))

    @property
    def css(self) -> str:
        return CSS_CLASS.get(self.state, "idle")

    @property
    def pictures(self) -> list[tuple[Picture, Markup]]:
        result = self.record.result if self.record else None
        found = enumerate(result.pictures if result else (), start=1)
        return [(picture, Markup(inline(picture.svg, f"{self.entry.name}-{n}"))) for n, picture in found]

    @property
    def tables(self) -> list[tuple[Table, Markup]]:
        result = self.record.result if self.record else None
        found = enumerate(result.tables if result else (), start=1)
        return [(table, Markup(table_html(table, f"{self.entry.name}-{n}"))) for n, table in found]

    def elsewhere(self, versions: dict[str, str], machine: dict[str, str | int]) -> str:
        """The versions and the machine of a record that was not made with these, else nothing."""
        if self.record is None or (self.record.versions, self.record.machine) == (versions, machine):
            return ""
        made_with = [f"{name} {version}" for name, version in self.record.versions.items()]
        return ", ".join([*made_with, *(f"{name} {value}" for name, value in self.record.machine.items())])


def write_report(entries: Sequence[Entry], out: Path, command: str) -> Path:
    """Write OUT/report.html from the records in OUT/results and return its path."""
    items = [Item(entry, load_or_tell(entry.name, out / "results")) for entry in entries]
    return write_page(
        out / "report.html",
        items,
        title=PAPER,
        kind="reproduction",
        summary=_summary(items),
        command=command,
        records="results/",
    )


def write_page(
    path: Path, items: Sequence[Item], *, title: str, kind: str, summary: str, command: str, records: str
) -> Path:
    """Write the page and return its path; ``records`` is where the records are, seen from it."""
    template = resources.files("likely.reproduce").joinpath("report.html.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True)
    environment.filters["words"] = words
    html = environment.from_string(template).render(
        title=title,
        kind=kind,
        summary=summary,
        items=items,
        command=command,
        records=records,
        versions=versions(),
        machine=machine(),
        light=css_variables(dark=False),
        dark=css_variables(dark=True),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, html + "\n")
    return path


def shortened(text: str) -> str:
    """The clauses that fit, or else the words.

    >>> shortened("It holds; and this is why.")
    'It holds; and this is why.'
    """
    if len(text) <= REASON:
        return text
    cut = text[:REASON]
    end = next((at for mark in ("; ", ", ", " ") if (at := cut.rfind(mark)) > REASON // 2), REASON)
    ended = cut[:end]
    return f"{ended}`…" if ended.count("`") % 2 else f"{ended}…"


def _summary(items: Sequence[Item]) -> str:
    kinds = Counter(item.entry.kind for item in items)
    states = Counter(item.state for item in items)
    counts = []
    for state in (*CSS_CLASS, "not run"):
        if states[state]:
            verb = state if states[state] == 1 else state.replace("holds", "hold").replace("does", "do")
            counts.append(f"{states[state]} {verb}")
    return f"Its {kinds['Table']} tables and {kinds['Figure']} figures, redone: {', '.join(counts)}."
