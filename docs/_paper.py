"""The paper's claims and what came of them, from the full run stored in experiments/paper/results/.

After a run on real data, ``python -m docs._paper RUNS`` stores its results, of each the numbers
and the leading picture.
"""

import re
import sys
from dataclasses import replace
from pathlib import Path

from experiments.entries.record import load, save
from experiments.paper._headlines import headline
from experiments.paper._published import (
    COMMAND,
    RESULTS,
    SUBSETS,
    Published,
    again,
    all_published,
    count_verdicts,
    where_and_when,
)
from experiments.paper._rule import RULE
from experiments.paper._shown import Shown, entry_css
from likely._page.html import css_variables

__all__ = ["again", "page", "store"]
# What the site calls the colours that the pictures and the style sheet of an entry name.
SITE = (
    "--sans: var(--font-stack); --mono: var(--font-stack--monospace); --ink: var(--color-foreground-primary); "
    "--muted: var(--color-foreground-secondary); --line: var(--color-background-border);"
)


def store(runs: Path, folder: Path = RESULTS) -> None:
    """Keep every full result with its leading picture, and the name FOLDER for wherever the data were."""
    for path in sorted(runs.joinpath("results").glob("*.json")):
        record = load(path.stem, path.parent)
        if record is None or record.result is None or record.quick:
            continue
        lead = headline(record.name, record.result).lead(record.result.pictures)
        result = replace(record.result, pictures=lead)
        command = re.sub(r"--data \S+", "--data FOLDER", record.command)
        save(replace(record, command=command, result=result, made_from=""), folder)  # a digest of where the data were


def section(one: Published) -> str:
    """One table or figure: the claim, the verdict, the picture, the numbers it rests on, and the rest folded."""
    return f"### {one.entry.what}: {one.entry.title}\n\n```{{raw}} html\n{Shown(one.entry, one).body}\n```\n"


def style() -> str:
    """The colours of the palette, by the theme of the site, and the style sheet of an entry."""
    light, dark = (f"{css_variables(dark=dark)} {SITE}" for dark in (False, True))
    return (
        f"<style>\n.entry {{ {light} }}\n@media screen {{\n"
        f'body[data-theme="dark"] .entry {{ {dark} }}\n'
        f'@media (prefers-color-scheme: dark) {{ body:not([data-theme="light"]) .entry {{ {dark} }} }} }}\n'
        f"{entry_css()}</style>"
    )


def page() -> str:
    """The rule, an overview, and all entries in the paper's order."""
    run = all_published()
    rows = [f"| [{one.entry.what}](#{anchor(one)}) | {one.result.verdict} | {one.sentence} |" for one in run]
    counted = count_verdicts(run)
    return "\n".join(
        [
            f"```{{raw}} html\n{style()}\n```\n",
            "## What holds\n",
            f"**The rule.** {RULE}\n",
            f"By this rule, {counted}. The paper was run {SUBSETS} ({where_and_when(run)});",
            f"`{COMMAND}` repeats it. All numbers and pictures are in `experiments/paper/results/`.\n",
            "| | verdict | why |",
            "|---|---|---|",
            *rows,
            "",
            *map(section, run),
        ]
    )


def anchor(one: Published) -> str:
    """The anchor of a section's heading."""
    words = re.sub(r"[^\w\- ]", "", f"{one.entry.what}: {one.entry.title}".lower())
    return words.replace(" ", "-")


if __name__ == "__main__":
    store(Path(sys.argv[1]))
