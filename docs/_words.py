"""Words that readers search for, and the page that each of them leads to: the table "Also called" of the glossary.

Each word becomes a main entry of the index at the head of its page, which the search box lists before other hits.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

GLOSSARY = Path(__file__).parent / "glossary.md"
ROW = re.compile(r"^\| ([^|]+) \| [^|]*?\[[^\]]+\]\(([\w/-]+)\.md(?:#[\w-]+)?\)[^|]*\|$", re.MULTILINE)


def pages() -> dict[str, list[str]]:
    """The words of each page, by the page's name."""
    table = GLOSSARY.read_text(encoding="utf-8").split("## Also called", 1)[1]
    found: dict[str, list[str]] = {}
    for words, page in ROW.findall(table):
        found.setdefault(page, []).extend(word.strip() for word in words.split(","))
    return found


def add_to_index(app: Any, page: str, source: list[str]) -> None:
    """Begin a page with the entries of its words."""
    if words := pages().get(page):
        entries = ", ".join(f"! {word}" for word in words)
        source[0] = f"```{{index}} {entries}\n```\n\n{source[0]}"


def hits(query: str, index: dict[str, Any]) -> list[str]:
    """The pages that the search box lists for a query, best first: Sphinx's scores of titles, index entries and words.

    Args:
        query: what a reader types.
        index: the content of ``searchindex.js``.
    """
    lower, scores = query.lower(), dict[int, float]()
    for title, places in index["alltitles"].items():
        if lower in title.lower() and len(lower) >= len(title) / 2:
            for page, _ in places:
                whole = index["titles"][page].lower() == title.lower()
                scores[page] = max(scores.get(page, 0), round(15 * len(lower) / len(title)) + whole)
    for entry, places in index["indexentries"].items():
        if lower in entry and len(lower) >= len(entry) / 2:
            for page, _, main in places:
                if main:
                    scores[page] = max(scores.get(page, 0), round(100 * len(lower) / len(entry)))
    for word in re.findall(r"\w+", lower):
        for terms, score in (("terms", 5), ("titleterms", 15)):
            pages_of = index[terms].get(word, [])
            for page in pages_of if isinstance(pages_of, list) else [pages_of]:
                scores[page] = max(scores.get(page, 0), score)
    ordered = sorted(scores, key=lambda page: (-scores[page], index["titles"][page].lower()))
    return [index["docnames"][page] for page in ordered]


def load(path: Path) -> dict[str, Any]:
    """The search index of a built site."""
    text = path.read_text(encoding="utf-8")
    index: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return index
