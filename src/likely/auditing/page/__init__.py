"""The page of an audit, which needs nothing but itself."""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from likely._page.html import render
from likely.auditing.results.accepted import VERSION
from likely.auditing.results.finding import KINDS, Entry, Suspect, cell_text, chance, chip, plain, verdict

Audit = Any  # that of results/audit.py, which imports this file
_CELLS = 24  # values of a row that are shown; those named in its reasons come first
_LONG, _NAME = 200, 60  # signs of a cell, and of the name of a row
_OPENED = 20  # rows of a group that show their values; the others show what is said of them
_VALUES = 1_000  # rows that show their values
_ENTRIES = 10_000  # entries of a page: with many more a browser takes seconds to open it; summary.json has all
_ROWS = 20_000  # rows that are named, in all entries together; the file of scores has all
_PLAIN = 100  # entries that the page shows where scripts are off
_ENDS_NO_SCRIPT = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<\u2028\u2029"})


def page(audit: Audit, command: str = "") -> str:
    """One HTML file that needs nothing but itself, and may not fetch anything even if it wanted to."""
    folder = Path(__file__).parent
    style, script = (folder.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    data = _data(audit, command)
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    counts = Counter[str]()
    for entry in audit.entries:
        counts[entry.kind] += len(entry.rows)
    blamed = {reason.what for suspect in audit.suspects for reason in suspect.reasons}
    columns = [] if audit.values is None else map(str, audit.values.columns)
    return render(
        folder / "page.html.jinja",
        audit=audit,
        lines=data["entries"][:_PLAIN],
        counts={finding.name: counts[finding.name] for finding in audit.findings if finding.name in counts},
        most=_ENTRIES,
        blamed=[name for name in columns if name in blamed],
        chip=chip,
        of_table=[kind for kind, of_rows in KINDS.items() if of_rows is None],
        data=Markup(text.translate(_ENDS_NO_SCRIPT)),
        command=command,
        style=Markup(style),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def meaning(entry: Entry | Suspect) -> tuple[str, str]:
    """What the certainty of an entry says, in two words and in a sentence.

    >>> meaning(Suspect(3, "labels", 0.984, "label 7, where 1 is expected"))[0]
    '98% wrong'
    """
    if entry.kind in ("labels", "targets") or (entry.kind == "rows" and entry.wrong):
        return f"{chance(entry.score)} wrong", ""
    if entry.kind == "cells":
        return "wrong type", "The value does not have the type of its column, and was left out."
    if entry.kind == "duplicates":
        return ("copy" if entry.score > 0.95 else "near copy"), "Copies are not errors by themselves: decide once."
    return "likely wrong" if entry.wrong else "odd", "It may be right: check it before you change it."


def _data(audit: Audit, command: str) -> dict[str, Any]:
    """What the script of the page shows: entries, and the rows in them."""
    entries = audit.entries[:_ENTRIES]
    opened = [suspect.row for entry in entries for suspect in entry.suspects[:_OPENED]]
    values = _cells(audit, list(dict.fromkeys(opened[:_VALUES])))
    sizes, most = np.array([len(entry.rows) for entry in entries]), _ROWS
    while most > 1 and np.minimum(sizes, most).sum() > _ROWS:  # rows of an entry that are named
        most //= 2
    return {
        "name": audit.name,
        "id": audit.id,
        "version": VERSION,
        "command": command,
        "scores": audit.scores_file,
        "known": audit.accepted.marks(),
        "entries": [_entry(audit, entry, most, values) for entry in entries],
    }


def _entry(audit: Audit, entry: Entry, most: int, values: Mapping[int, Any]) -> dict[str, Any]:
    """An entry, with at most so many of its rows; what a single row shares with its entry is left out."""
    short, long = meaning(entry)
    together = len(entry.rows) > 1
    suspects = {suspect.row: suspect for suspect in entry.suspects}
    rows = []
    for number, row in enumerate(entry.rows[:most].tolist()):
        packed: dict[str, Any] = {"row": row, "key": audit.keys[row]}
        if together:
            packed["name"] = _cut(audit.names.called(row), _NAME)
        if suspect := suspects.get(row):
            packed |= _reasons(audit, suspect, values.get(row, [])) if number < _OPENED else {}
            packed |= {"headline": _cut(suspect.headline)} if together else {"long": ""}
        rows.append(packed)
    word, colour = chip(entry.kind)
    return {
        "word": "value" if entry.kind == "rows" and entry.wrong else word,
        "colour": "red" if entry.wrong else colour,
        "headline": _cut(entry.headline),
        "kind": entry.kind,
        "verdict": verdict(entry.wrong),
        "score": round(entry.score, 6),
        "far": round(max((suspect.far for suspect in entry.suspects), default=0.0), 3),
        "harm": round(entry.harm, 4),
        "group": entry.group if together else "",
        "short": short,
        "long": long,
        "who": f"{len(entry.rows):,} rows" if together else _cut(audit.names.called(entry.rows[0]), _NAME),
        "count": len(entry.rows),
        "rows": rows,
    }


def _reasons(audit: Audit, suspect: Suspect, cells: Sequence[tuple[str, str, str, bool]]) -> dict[str, Any]:
    """Why a row is suspicious, and its values beside those of similar rows."""
    blamed = {audit.target, *(reason.what for reason in suspect.reasons)}
    # First the cells that a reason names, then those that differ from rows like this one, then the others.
    first = sorted(cells, key=lambda cell: (cell[0] not in blamed, not cell[3]))[:_CELLS]
    mark = audit.names.mark(suspect, audit.keys[suspect.row])
    return {
        "score": round(suspect.score, 6),
        "long": meaning(suspect)[1],
        "reasons": [[own.what, _cut(own.value), _cut(own.expected), round(own.share, 3)] for own in suspect.reasons],
        "cells": [[name, value, usual, int(differs)] for name, value, usual, differs in first],
    } | ({"mark": mark} if "id" in mark else {})


def _cells(audit: Audit, rows: list[int]) -> dict[int, list[tuple[str, str, str, bool]]]:
    """For each row its columns, their values, what rows like it have there, and whether this differs."""
    if audit.values is None or not rows:
        return {}
    table = audit.values.loc[rows]
    compared = audit.neighbours(rows) if audit.neighbours is not None else [[] for _ in rows]
    by_row = {}
    for row, values, cells in zip(rows, table.itertuples(index=False), compared, strict=True):
        usual = {name: (like, unusual) for name, _, like, unusual in cells}
        by_row[row] = [
            (str(name), _cut(cell_text(value)), *usual.get(str(name), ("", False)))
            for name, value in zip(table.columns, values, strict=True)
        ]
    return by_row


def _cut(text: str, most: int = _LONG) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
