"""One HTML page that needs nothing but itself, made from records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from experiments.entries.entry import Entry
from experiments.entries.parts import Picture, Table
from experiments.entries.parts_html import to_html
from experiments.entries.record import Record, write_text
from likely._page.html import render
from likely._page.machine import machine

# How sentences begin that say of what data the others are.
SETTING = (
    r"Redrawn from|On scikit-learn|On validation|On [\d,]+ (test|validation)|The (pictures|network|first network) |"
    r"The paper does not say"
)
REASON = 170  # characters of a reason, at most
CSS_CLASS = {"holds": "holds", "holds in part": "in-part", "does not hold": "fails", "failed": "fails"}


@dataclass(frozen=True)
class Item:
    """A benchmark with what the page shows of it.

    ``bars`` are beside those of the run before, and ``last`` says which run that was.
    """

    entry: Entry
    record: Record | None
    bars: Sequence[Any] = ()
    last: str = ""

    @property
    def state(self) -> str:
        """The verdict, or why there is none."""
        if self.record is None:
            return "not run"
        return self.record.result.verdict if self.record.result else "failed"

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
        """The class of the state's chip."""
        return CSS_CLASS.get(self.state, "idle")

    @property
    def pictures(self) -> Sequence[Picture]:
        """The pictures that the entry has made."""
        result = self.record.result if self.record else None
        return result.pictures if result else ()

    @property
    def tables(self) -> Sequence[Table]:
        """The tables that the entry has made."""
        result = self.record.result if self.record else None
        return result.tables if result else ()

    def elsewhere(self, versions: dict[str, str], machine: dict[str, str | int]) -> str:
        """The versions and the machine of a record that was not made with these, else nothing."""
        if self.record is None or (self.record.versions, self.record.machine) == (versions, machine):
            return ""
        made_with = [f"{name} {version}" for name, version in self.record.versions.items()]
        return ", ".join([*made_with, *(f"{name} {value}" for name, value in self.record.machine.items())])


def write_page(
    path: Path, items: Sequence[Item], *, title: str, kind: str, summary: str, command: str, records: str
) -> Path:
    """Write the page and return its path; ``records`` is where the records are, seen from it."""
    html = render(
        Path(__file__).with_name("page.html.jinja"),
        to_html,
        css=page_css(),
        title=title,
        kind=kind,
        summary=summary,
        items=items,
        command=command,
        records=records,
        machine=machine(),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, html)
    return path


def page_css() -> Markup:
    """The style sheet of every page of records."""
    return Markup(Path(__file__).with_name("page.css").read_text(encoding="utf-8"))


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
