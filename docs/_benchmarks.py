"""The page of benchmarks, the result first, from what is stored in experiments/benchmarks/results/."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _paper import again
from _stored import goal, words

from experiments.benchmarks import BENCHES, _size_page
from experiments.entries.bar import Bar
from experiments.entries.record import bar_from_json

STORED = Path(__file__).parents[1] / "experiments" / "benchmarks" / "results"
MARKS = {True: "✓", False: "✗", None: ""}


def sections() -> Iterator[tuple[str, str, Path]]:
    """Title, claim and file of every stored benchmark, in the order of `--list`; more files are of other machines."""
    for bench in BENCHES:
        for path in sorted(STORED.glob(f"{bench.name}.json")) + sorted(STORED.glob(f"{bench.name}-*.json")):
            about = json.loads(path.read_text(encoding="utf-8"))["machine"]
            elsewhere = f", on {about.get('gpu', about['cpu'])}" if path.stem != bench.name else ""
            yield bench.title + elsewhere, bench.claim, path


def read(path: Path) -> tuple[dict[str, Any], list[Bar]]:
    """A stored benchmark, and its figures."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    return stored, [bar_from_json(bar) for bar in stored["result"]["bars"]]


def score(bars: list[Bar]) -> tuple[int, int]:
    """How many figures have a goal, and how many of them meet it."""
    met = [bar.met for bar in bars if bar.met is not None]
    return len(met), sum(met)


def overview() -> str:
    """The result in a sentence and in a row per benchmark."""
    lines, scores = [], []
    for title, _, path in sections():
        stored, bars = read(path)
        goals, met = score(bars)
        scores.append((goals, met))
        names = [words(bar.name) for bar in bars if bar.met is False]
        missed = "; ".join(names[:2]) + (f"; {len(names) - 2} more" if len(names) > 2 else "")
        lines.append(f"| [{title}](#{slug(title)}) | {stored['result']['verdict']} | {met} of {goals} | {missed} |")
    goals, met = map(sum, zip(*scores, strict=True))
    head = "| benchmark | its claim | goals met | goals missed |\n|---|---|---|---|\n"
    return f"**{met} of {goals} goals are met.**\n\n{head}" + "\n".join(lines) + "\n"


def section(title: str, claim: str, path: Path) -> str:
    """One benchmark: what it claims, where it was measured, its verdict and, folded, every figure beside its goal."""
    stored, bars = read(path)
    about, result = stored["machine"], stored["result"]
    where = about.get("gpu", f"{about['cores']} cores, {about['cpu']}")
    rows = [
        f"| {words(bar.name)}{f' ({words(bar.case)})' if bar.case else ''} | {bar.measured} | {goal(bar)} | "
        f"{MARKS[bar.met]} |"
        for bar in bars
    ]
    goals, met = score(bars)
    table = ["| figure | measured | goal | |", "|---|---|---|---|", *rows]
    return "\n".join(
        [
            f"## {title}",
            f"\n{claim}\n",
            f"This claim **{state(result['verdict'])}**: {met} of {goals} goals are met.",
            f"Measured on {where} by `{again(stored['command'])}`.",
            *_size_page.folded(f"All {len(bars)} figures", table),
            "",
        ]
    )


def state(verdict: str) -> str:
    """The verdict as a verb."""
    return "is open" if verdict == "open" else verdict


def slug(title: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def page() -> str:
    """The overview, then every stored benchmark."""
    return "\n".join([overview(), *(section(*one) for one in sections())])
