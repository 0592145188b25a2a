"""The benchmarks as one page: claims, verdicts, how far every figure is from its bar, and what changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.benchmarks._history import Compared, compare, tally
from experiments.entries import Entry
from experiments.entries.drawing import INK, MUTED, PALETTE, panel, styled, to_svg
from experiments.entries.page import Item, write_page
from experiments.entries.parts import Picture
from experiments.entries.record import load_or_tell

BETTER, WORSE = PALETTE["green"][0], PALETTE["red"][0]


def write_bench_page(entries: Sequence[Entry], out: Path, command: str, against: Path | None = None) -> Path:
    """Write OUT/bench.html from the records in OUT and return its path."""
    items: list[Item] = []
    everything: list[Compared] = []
    for entry in entries:
        record = load_or_tell(entry.name, out)
        if record is None or record.result is None:
            items.append(Item(entry, record))
            continue
        compared = compare(record, out, against)
        everything += compared.bars
        drawn = margins(compared.bars)
        result = replace(record.result, pictures=(*drawn, *record.result.pictures))
        items.append(Item(entry, replace(record, result=result), bars=compared.bars, last=compared.last))
    return write_page(
        out / "bench.html",
        items,
        title="What we claim, measured",
        kind="benchmarks",
        summary=tally(everything),
        command=command,
        records="",
    )


@styled
def margins(bars: Sequence[Compared]) -> list[Picture]:
    """How many times better than its bar every figure is, now and in the run before; none if there are none to draw."""
    drawn = [(one, at) for one in bars if (at := _margin(one.bar.value, one)) is not None]
    if not drawn:
        return []
    figure, axes = panel(7.2, 0.8 + 0.27 * len(drawn))
    for row, (one, at) in enumerate(drawn):
        colour = BETTER if one.bar.met else WORSE
        axes.plot([1, at], [row, row], color=colour, linewidth=2.4, solid_capstyle="butt")
        axes.plot(at, row, "o", color=colour, markersize=5)
        if one.before is not None and (before := _margin(one.before.value, one)) is not None:
            axes.plot(before, row, "|", color=MUTED, markersize=9, markeredgewidth=1.4)
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.set_yticks(range(len(drawn)), [one.bar.name for one, _ in drawn])
    axes.set_ylim(len(drawn) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("times better than the bar")
    missed = [one.bar.name for one, _ in drawn if not one.bar.met]
    alt = f"Of {len(drawn)} figures {len(drawn) - len(missed)} are on the right side of their bars."
    caption = "How many times better than its bar each figure is; left of the line it is worse. "
    caption += "A grey tick is the run before. Zeros have no place on this axis."
    return [Picture(to_svg(figure), alt + (f" Missed: {', '.join(missed)}." if missed else ""), caption, wide=True)]


def _margin(value: float, one: Compared) -> float | None:
    """How many times better than the bar; None where that has no logarithm."""
    bar = one.bar.bar
    if bar is None or not (math.isfinite(value) and value > 0 and bar > 0):
        return None
    return bar / value if one.bar.lower_is_better else value / bar
