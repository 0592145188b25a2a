"""What a page shows of one table or figure: its stored full run, and beside it what a run here saw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markupsafe import Markup

from experiments.entries.entry import Entry
from experiments.entries.page import CSS_CLASS, shortened
from experiments.entries.parts import Table
from experiments.entries.parts_html import to_html
from experiments.entries.record import Record
from experiments.paper._published import Published
from experiments.paper.letter import LETTERS, Letter
from likely._page.html import render
from likely._page.machine import machine, versions

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Shown:
    """An entry on a page.

    Args:
        entry: The table or figure.
        stored: Its stored full run, by which the paper is judged; None for an entry that has none.
        run: What a run here came to, if there was one.
        folder: Where the records of that run are, seen from the page; "" on a page about the stored run alone.
    """

    entry: Entry
    stored: Published | None
    run: Record | None = None
    folder: str = ""

    @property
    def state(self) -> str:
        """The verdict of the stored run: never that of a quick one."""
        return self.stored.result.verdict if self.stored else "no stored run"

    @property
    def css(self) -> str:
        """The class of the state's chip."""
        return self.chip(self.state)

    @staticmethod
    def chip(state: str) -> str:
        """The class of a chip."""
        return CSS_CLASS.get(state, "idle")

    @property
    def kind_of_run(self) -> str:
        """What the run here was."""
        return "this quick run" if self.run and self.run.quick else "this run"

    @property
    def letter(self) -> Letter | None:
        """What the paper fixes and leaves open, and what we did; None where that is not written down."""
        return LETTERS.get(self.entry.name)

    @property
    def departs(self) -> str:
        """Where the stored run departs from what the paper fixes, or nothing."""
        return "; ".join(self.letter.departs) if self.letter else ""

    @property
    def contents(self) -> str:
        """What there is of the run here, in words."""
        result = self.run.result if self.run else None
        if result is None:
            return ""
        counted = ((len(result.pictures), "picture"), (len(result.tables), "table"))
        return ", ".join(["its reasons", *(f"{n} {word}{'s'[: n > 1]}" for n, word in counted if n)])

    @property
    def elsewhere(self) -> str:
        """The versions and the machine of a run that was not made with these, else nothing."""
        if self.run is None or (self.run.versions, self.run.machine) == _here():
            return ""
        return ", ".join(f"{name} {value}" for name, value in {**self.run.versions, **self.run.machine}.items())

    @property
    def records(self) -> Table | None:
        """Of the stored run, the table that counts clear differences, if it has one: it is part of the reasons."""
        tables = self.stored.result.tables if self.stored else ()
        return next((table for table in tables if "clearly better – neither – clearly worse" in table.caption), None)

    @property
    def tables(self) -> list[Table]:
        """The other tables of the stored run."""
        return [table for table in self.stored.result.tables if table is not self.records] if self.stored else []

    @staticmethod
    def named(table: Table) -> str:
        """What is in a table: how its caption begins."""
        return shortened(table.caption.split(". ")[0].rstrip("."))

    @property
    def body(self) -> Markup:
        """The entry as HTML: the claim, the verdict, a picture, a small table, and the rest folded."""
        return Markup(render(HERE / "entry.html.jinja", to_html, item=self, folder=self.folder))


def entry_css() -> Markup:
    """The style sheet of an entry."""
    return Markup(HERE.joinpath("entry.css").read_text(encoding="utf-8"))


@cache
def _here() -> tuple[dict[str, str], dict[str, str | int]]:
    return versions(), machine()
