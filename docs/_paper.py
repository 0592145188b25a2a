"""The paper's claims and what came of them, from the results stored in experiments/paper/results/.

After a run on real data, ``python -m docs._paper RUNS`` stores its results: numbers, not pictures.
"""

import json
import re
import sys
from pathlib import Path

from experiments.entries import Entry
from experiments.entries.record import table_from_json
from experiments.paper import ENTRIES
from likely._page.html import table_html, words

NAMES = {
    "likely reproduce": "python -m experiments.paper",
    "likely.reproduce": "experiments.paper",
    "likely bench": "python -m experiments.benchmarks",
}
STORED = Path(__file__).parents[1] / "experiments" / "paper" / "results"


def store(runs: Path) -> None:
    """Keep every result, with the name FOLDER for wherever the data were."""
    STORED.mkdir(exist_ok=True)
    for path in sorted(runs.joinpath("results").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        record["command"] = re.sub(r"--data \S+", "--data FOLDER", record["command"])
        del record["made_from"]  # a digest to go on by, where the data are
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        STORED.joinpath(path.name).write_text(text + "\n", encoding="utf-8")


def stored(entry: Entry) -> dict:
    """What came of an entry."""
    return json.loads(STORED.joinpath(f"{entry.name}.json").read_text(encoding="utf-8"))


def section(entry: Entry) -> str:
    """One table or figure: the claim, the verdict, the numbers it rests on, and the command."""
    record = stored(entry)
    result = record["result"]
    return "\n".join(
        [
            f"### {entry.what}: {entry.title}\n",
            f"*The paper:* {entry.claim}\n",
            f"**{result['verdict'].capitalize()}.** {again(result['notes'])}\n",
            f"`{again(record['command'])}`\n",
            *(folded(table, f"{entry.name}-{number}") for number, table in enumerate(result["tables"])),
        ]
    )


def again(text: str) -> str:
    """A command, or a text with commands in it, as they are today: the first records were made by the package's own."""
    for old, new in NAMES.items():
        text = text.replace(old, new)
    return text


def folded(stored: dict, name: str) -> str:
    """A table that opens by a click, with its caption."""
    table = table_from_json(stored)
    return (
        "```{raw} html\n<details class='numbers'><summary>The numbers</summary>\n"
        f"<div class='wide'>{table_html(table, name)}</div>\n<p>{words(table.caption)}</p></details>\n```\n"
    )


def page() -> str:
    """An overview and all entries, in the paper's order."""
    rows = [f"| {entry.what} | {entry.title} | {stored(entry)['result']['verdict']} |" for entry in ENTRIES]
    about = stored(ENTRIES[0])
    where = f"{about['machine']['cores']} cores, {about['machine']['cpu']}; torch {about['versions']['torch']}"
    return "\n".join(
        [
            "## What holds\n",
            f"From such a run ({where}), without its pictures; the files are in `experiments/paper/results/`.\n",
            "| | | verdict |",
            "|---|---|---|",
            *rows,
            "",
            *map(section, ENTRIES),
        ]
    )


if __name__ == "__main__":
    store(Path(sys.argv[1]))
