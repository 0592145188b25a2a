"""What the documentation shows of the stored ratios: a table for every place and way, and where ours is slower."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from experiments.benchmarks._loss_cases import CASES, HAND, HAND_AND_STEP
from experiments.benchmarks._size_tables import OURS, RIVAL, by_size, power_of_ten, ratios_of, same_work
from experiments.benchmarks.losses import BY_HAND, JUDGED, kept_from
from experiments.entries.record import table_from_json

NAMES = {
    HAND: "by hand, without a step of the rows",
    **{name: f"`{name}`" for case in CASES.values() for name in case.counterparts},
}


def page(folder: Path) -> str:
    """The tables of all stored records of the benchmark of losses, as Markdown.

    Args:
        folder: where losses.json and, of other machines, losses-*.json are.

    Returns:
        Sections of the third level; one sentence if no record has ratios by size.
    """
    parts = [part for path in sorted(folder.glob("losses*.json")) for part in sections(path)]
    return "\n".join(parts) if parts else "No stored run has ratios by size yet.\n"


def sections(path: Path) -> Iterator[str]:
    """A record's tables, one section for each place and way."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    tables = (stored.get("result") or {}).get("tables", ())
    about, versions = stored["machine"], stored["versions"]
    where = f"{about['cores']} cores, {about['cpu']}, torch {versions['torch']}"
    ran = [f"`{command}`" for command in (stored["command"], *kept_from(stored["result"]["notes"] if tables else ""))]
    for (place, way), rows in ratios_of(map(table_from_json, tables)).groupby(["where", "way"], sort=False):
        title = str(place).replace("CPU", f"CPU beside an {about['gpu']}") if "gpu" in about else place
        yield section(f"{title}, {way}", where, ran, rows, JUDGED[str(way)])


def section(title: str, where: str, commands: list[str], rows: pd.DataFrame, bar: float | None) -> str:
    """A heading, the verdict in a sentence, and the ratios to the loss by hand; the rest is folded."""
    against = rows["against"]
    by_hand = same_work(rows)
    lines = [f"### {title}", "", f"{where}. {verdict(by_hand, bar)}", ""]
    lines += _markdown(by_size(by_hand, OURS, "ratio"), bar)
    others = rows[(against != HAND_AND_STEP) & ((against != HAND) | (rows["parameter"] == "Data"))]
    if len(others):
        lines += folded("Against others", _markdown(by_size(others, RIVAL, "ratio"), None))
    return "\n".join([*lines, *folded("How it was measured", [f"- {command}" for command in commands]), ""])


def folded(title: str, lines: Iterable[str]) -> list[str]:
    """Lines of Markdown that a reader has to open."""
    return ["", f'<details class="numbers"><summary>{title}</summary>', "", *lines, "", "</details>"]


def verdict(rows: pd.DataFrame, bar: float | None) -> str:
    """Where ours takes longer than by hand, in words.

    Args:
        rows: ratios to the loss by hand.
        bar: ratio up to which ours counts as no slower; 1 if None.
    """
    judged, limit = rows[rows["loss"].isin(BY_HAND)], bar or 1.0
    if not len(judged):
        return ""
    slow = judged[judged["ratio"] > limit]
    counted = f"Of {len(judged)} ratios to the loss by hand {len(judged) - len(slow)} are at most {limit:g}"
    if not len(slow):
        return f"{counted}."
    worst = slow.loc[slow.groupby(["loss", "parameter"], sort=False)["ratio"].idxmax()]
    cells = worst[["loss", "parameter", "ratio", "elements"]].itertuples(index=False, name=None)
    said = [f"{loss} {kind} {ratio:.2f} at {power_of_ten(int(size))}" for loss, kind, ratio, size in cells]
    return f"{counted}. Slower, each with its worst size: {'; '.join(said)}."


def _markdown(frame: pd.DataFrame, bar: float | None) -> Iterator[str]:
    """Rows of a Markdown table; ratios over the bar are bold."""
    names = list(frame.index.names)
    yield f"| {' | '.join([*names, *map(str, frame.columns)])} |"
    yield "|" + "---|" * len(names) + "---:|" * len(frame.columns)
    for labels, *values in frame.itertuples(name=None):
        cells = [_cell(float(value), bar) for value in values]
        yield f"| {' | '.join([*(NAMES.get(label, label) for label in labels), *cells])} |"


def _cell(ratio: float, bar: float | None) -> str:
    if ratio != ratio:
        return "–"
    text = f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
    return f"**{text}**" if bar is not None and ratio > bar else text
