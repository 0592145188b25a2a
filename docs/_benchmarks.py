"""The benchmark page, from the results stored in experiments/benchmarks/results/."""

import json
from pathlib import Path

from _paper import again
from _stored import goal, words

from experiments.benchmarks import BENCHES
from experiments.entries.record import bar_from_json

STORED = Path(__file__).parents[1] / "experiments" / "benchmarks" / "results"
MARKS = {True: "✓", False: "✗", None: ""}


def section(title: str, claim: str, path: Path, *, elsewhere: bool) -> str:
    """One benchmark: what it claims, where it was measured, and every figure beside its goal."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    about, result = stored["machine"], stored["result"]
    where = about.get("gpu", f"{about['cores']} cores, {about['cpu']}")
    title += f", on {about.get('gpu', about['cpu'])}" if elsewhere else ""
    bars = [bar_from_json(bar) for bar in result["bars"]]
    rows = [
        f"| {words(bar.name)}{f' ({words(bar.case)})' if bar.case else ''} | {bar.measured} | {goal(bar)} | "
        f"{MARKS[bar.met]} |"
        for bar in bars
    ]
    return "\n".join(
        [
            f"## {title}",
            f"\n{claim}\n",
            f"`{again(stored['command'])}` · {where} · {result['verdict']}\n",
            "| figure | measured | goal | |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def page() -> str:
    """Every stored benchmark, in the order of `--list`; a second file is one measured elsewhere."""
    return "\n".join(
        section(bench.title, bench.claim, path, elsewhere=path.stem != bench.name)
        for bench in BENCHES
        for path in sorted(STORED.glob(f"{bench.name}.json")) + sorted(STORED.glob(f"{bench.name}-*.json"))
    )
