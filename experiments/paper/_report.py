"""The report: the verdicts of the stored full run on one page, and beside each what a run here saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from experiments.entries.entry import Entry
from experiments.entries.page import page_css
from experiments.entries.parts_html import to_html
from experiments.entries.record import load_or_tell, write_text
from experiments.paper._published import (
    COMMAND,
    RESULTS,
    SUBSETS,
    Published,
    count_verdicts,
    published,
    where_and_when,
)
from experiments.paper._rule import RULE
from experiments.paper._shown import HERE, Shown, entry_css
from likely._page.html import render
from likely._page.machine import machine

PAPER = "It Is Likely That Your Loss Should be a Likelihood"


def write_report(entries: Sequence[Entry], out: Path, command: str) -> Path:
    """Write OUT/report.html from the stored full run and the records in OUT/results, and return its path."""
    items = [Shown(entry, _stored(entry), load_or_tell(entry.name, out / "results"), "results/") for entry in entries]
    html = render(
        HERE / "report.html.jinja",
        to_html,
        title=PAPER,
        items=items,
        css=page_css() + entry_css(),
        verdicts=_verdicts([item.stored for item in items if item.stored]),
        subsets=f"It was run {SUBSETS}; every entry says what it departs from.",
        rule=RULE,
        ran=what_was_run(items),
        command=command,
        stored_command=COMMAND,
        machine=machine(),
    )
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "report.html", html)
    return out / "report.html"


def _stored(entry: Entry) -> Published | None:
    return published(entry) if RESULTS.joinpath(f"{entry.name}.json").is_file() else None


def _verdicts(run: Sequence[Published]) -> str:
    if not run:
        return "There is no stored full run of these entries."
    return f"The paper, judged by the stored full run ({where_and_when(run)}): {count_verdicts(run)}."


def what_was_run(items: Sequence[Shown]) -> str:
    """One sentence: how many entries ran here, on what, and what that is good for."""
    runs = [item.run for item in items if item.run]
    failed = sum(run.error is not None for run in runs)
    count = f"{len(runs)} of {len(items)} entries"
    if not runs:
        return "Nothing was run here."
    missing = len(items) - len(runs)
    ending = "".join(f"; {number} {what}" for number, what in ((failed, "failed"), (missing, "not run")) if number)
    kinds = Counter(run.quick for run in runs)
    if not kinds[False]:
        return (
            f"What was run here is a quick run of {count} (few seeds and steps, on small or stand-in data), which "
            "checks that "
            f"everything runs and does not judge the paper{ending}."
        )
    quick = f" ({kinds[True]} of them quick ones, which do not judge the paper)" if kinds[True] else ""
    return f"What was run here are {count}{quick}, beside the stored run{ending}."
