"""The paper's claims and what came of them, from the results stored in reproduction/."""

import json
from pathlib import Path

from likely.reproduce import ENTRIES, Entry

STORED = Path(__file__).parents[1] / "reproduction"


def section(entry: Entry, path: Path) -> str:
    """One table or figure: the claim, the verdict, and the numbers it rests on."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    result = stored["result"]
    return "\n".join(
        [
            f"## {entry.what}: {entry.title}\n",
            f"*The paper:* {entry.claim}\n",
            f"**{result['verdict'].capitalize()}.** {result['notes']}\n",
            f"`{stored['command']}`\n",
        ]
    )


def page() -> str:
    """All that is stored, in the paper's order."""
    paths = [(entry, STORED / f"{entry.name}.json") for entry in ENTRIES]
    found = [section(entry, path) for entry, path in paths if path.is_file()]
    return "\n".join(["What follows is such a run, without its pictures.\n", *found] if found else [])
