"""The report: the paper's tables and figures on one page, made from the records in a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from experiments.entries.entry import Entry
from experiments.entries.page import CSS_CLASS, Item, write_page
from experiments.entries.record import load_or_tell
from experiments.paper._compared import COMPARED

PAPER = "It Is Likely That Your Loss Should be a Likelihood"


def write_report(entries: Sequence[Entry], out: Path, command: str) -> Path:
    """Write OUT/report.html from the records in OUT/results and return its path."""
    items = [Item(entry, load_or_tell(entry.name, out / "results"), COMPARED.get(entry.name)) for entry in entries]
    return write_page(
        out / "report.html",
        items,
        title=PAPER,
        kind="reproduction",
        summary=_summary(items),
        command=command,
        records="results/",
    )


def _summary(items: Sequence[Item]) -> str:
    kinds = Counter(item.entry.kind for item in items)
    states = Counter(item.state for item in items)
    counts = []
    for state in (*CSS_CLASS, "not run"):
        if states[state]:
            verb = state if states[state] == 1 else state.replace("holds", "hold").replace("does", "do")
            counts.append(f"{states[state]} {verb}")
    return f"Its {kinds['Table']} tables and {kinds['Figure']} figures, redone: {', '.join(counts)}."
