"""The page of an audit, which needs nothing but itself, and what a notebook shows of it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from likely._page.html import render
from likely.auditing.results.accepted import VERSION
from likely.auditing.results.finding import KINDS, Suspect, cell_text, chip, plain, verdict
from likely.auditing.results.ranking import Entry

Audit = Any  # that of results/audit.py, which imports this file
_CELLS = 24  # values of a row that are shown; those named in its reasons come first
_LONG = 200  # signs of a cell
_OPENED = 20  # rows of a group that show their values; the others show what is said of them
_VALUES = 1_000  # rows that show their values
_ENTRIES = 10_000  # entries of a page: with many more a browser takes seconds to open it; summary.json has all
_ROWS = 20_000  # rows that are named, in all entries together; the file of scores has all
_PLAIN = 100  # entries that the page shows where scripts are off
_NOTEBOOK = 10  # entries that a notebook shows


def page(audit: Audit, command: str = "") -> str:
    """One HTML file that needs nothing but itself, and may not fetch anything even if it wanted to."""
    folder = Path(__file__).parent
    style, script = (folder.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    return render(
        folder / "page.html.jinja",
        audit=audit,
        lines=[(entry, _shown(entry), *meaning(entry), who(audit, entry)) for entry in audit.entries[:_PLAIN]],
        counts=_counts(audit),
        most=_ENTRIES,
        blamed=_blamed(audit),
        chip=chip,
        of_table=[kind for kind, of_rows in KINDS.items() if of_rows is None],
        data=Markup(_script(_data(audit, command))),
        command=command,
        style=Markup(style),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def extract(audit: Audit) -> str:
    """The first entries as a small table, for a notebook."""
    rows = "".join(
        f"<tr><td>{escape(meaning(entry)[0])}</td><td>{escape(who(audit, entry))}</td>"
        f'<td style="text-align: left">{escape(_cut(entry.headline))}</td></tr>'
        for entry in audit.entries[:_NOTEBOOK]
    )
    more = len(audit.entries) - _NOTEBOOK
    rest = f"<p>and {more:,} more: <code>.frame()</code> has all, <code>.save(folder)</code> writes the page</p>"
    head = f"<p><b>Audit of {escape(audit.name)}</b>: {escape(audit.lede())}</p>"
    return head + (f"<table>{rows}</table>" if rows else "") + (rest if more > 0 else "")


def meaning(entry: Entry | Suspect) -> tuple[str, str]:
    """What the certainty of an entry says, in two words and in a sentence.

    >>> meaning(Suspect(3, "labels", 0.984, "label 7, but 1 with probability 98%"))[0]
    '98% wrong'
    """
    share = _percent(entry.score)
    if entry.kind in ("labels", "targets"):
        return f"{share} wrong", f"Given the other columns, this value is wrong with a probability of {share}."
    if entry.kind == "cells":
        return "wrong type", "The value does not have the type of its column, and was left out."
    if entry.kind in ("duplicates", "overlap"):
        return ("copy" if entry.score > 0.95 else "near copy"), "Copies are not errors by themselves: decide once."
    chance = f"Of rows as odd as this, about {_percent(1 - entry.score)} are ordinary rows"
    if entry.wrong:
        return "likely wrong", f"{chance}; changing one value would make it ordinary, so it is probably an error."
    return "odd", f"{chance}. It may be right: check it before you change it."


def who(audit: Audit, entry: Entry) -> str:
    """The row of an entry by its name, or how many rows there are."""
    if len(entry.rows) > 1:
        return f"{len(entry.rows):,} rows"
    return named(audit, int(entry.rows[0]))


def named(audit: Audit, row: int) -> str:
    """A row by its name, which may be long, or by its place."""
    return _cut(audit.names.called(row), 60)


def _counts(audit: Audit) -> dict[str, int]:
    """How many entries there are of each kind and with each verdict, of those that occur."""
    counts: dict[str, int] = {}
    for entry in audit.entries:
        counts[entry.kind] = counts.get(entry.kind, 0) + len(entry.rows)
    return {finding.name: counts[finding.name] for finding in audit.findings if finding.name in counts}


def _blamed(audit: Audit) -> list[str]:
    """The columns that some reason names, in the order of the table."""
    if audit.values is None:
        return []
    named = {reason.what for suspect in audit.suspects for reason in suspect.reasons}
    return [str(name) for name in audit.values.columns if str(name) in named]


def _shown(entry: Entry) -> dict[str, str]:
    word, colour = chip(entry.kind)
    word = "value" if entry.kind == "rows" and entry.wrong else word
    return {"word": word, "colour": "red" if entry.wrong else colour, "headline": _cut(entry.headline)}


def _data(audit: Audit, command: str) -> dict[str, Any]:
    """What the script of the page shows: entries, and the rows in them.

    There may be thousands: sentences and names of columns, which are the same for many rows, stand by their place in a
    list, and what a single row shares with its entry is left out.
    """
    entries = audit.entries[:_ENTRIES]
    values = _cells(audit, _with_values(entries))
    sentences, names = _Places(), _Places()
    most = _most_rows(entries)
    return {
        "name": audit.name,
        "id": audit.id,
        "version": VERSION,
        "command": command,
        "scores": audit.scores_file,
        "known": audit.accepted.marks(),
        "entries": [_entry(audit, entry, most, values, sentences, names) for entry in entries],
        "sentences": list(sentences),
        "columns": list(names),
    }


class _Places(dict[str, int]):
    """The place of each text among those that were asked for, in the order of their first use.

    >>> places = _Places()
    >>> [places[text] for text in ("b", "a", "b")], list(places)
    ([0, 1, 0], ['b', 'a'])
    """

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]


def _most_rows(entries: Sequence[Entry]) -> int:
    """How many rows of an entry are named, so that all entries together name at most so many."""
    sizes = np.array([len(entry.rows) for entry in entries])
    most = _ROWS
    while most > 1 and np.minimum(sizes, most).sum() > _ROWS:
        most //= 2
    return most


def _with_values(entries: Sequence[Entry]) -> list[int]:
    """The rows that show their values: the first of each entry."""
    rows = [suspect.row for entry in entries for suspect in entry.suspects[:_OPENED]]
    return list(dict.fromkeys(rows[:_VALUES]))


def _entry(
    audit: Audit, entry: Entry, most: int, values: Mapping[int, Any], sentences: _Places, names: _Places
) -> dict[str, Any]:
    """An entry, with at most so many of its rows."""
    short, long = meaning(entry)
    together = len(entry.rows) > 1
    places = entry.rows[:most].tolist()
    suspects = {suspect.row: suspect for suspect in entry.suspects}
    rows = []
    for number, row in enumerate(places):
        packed: dict[str, Any] = {"row": row, "key": audit.keys[row]}
        if together:
            packed["name"] = named(audit, row)
        if row in suspects:
            packed |= {"headline": _cut(suspects[row].headline)} if together else {}
            packed |= _reasons(audit, suspects[row], values, sentences, names) if number < _OPENED else {}
        rows.append(packed)
    return _shown(entry) | {
        "kind": entry.kind,
        "verdict": verdict(entry.wrong),
        "score": round(entry.score, 6),
        "far": round(max((suspect.far for suspect in entry.suspects), default=0.0), 3),
        "harm": round(entry.harm, 4),
        "group": entry.group if together else "",
        "short": short,
        "long": sentences[long],
        "who": who(audit, entry),
        "count": len(entry.rows),
        "rows": rows,
    }


def _reasons(
    audit: Audit, suspect: Suspect, values: Mapping[int, Any], sentences: _Places, names: _Places
) -> dict[str, Any]:
    """Why a row is suspicious, and its values beside those of similar rows."""
    shown: dict[str, Any] = {"score": round(suspect.score, 6), "long": sentences[meaning(suspect)[1]]}
    if suspect.reasons:
        shown["reasons"] = [
            [names[r.what], _cut(r.value), _cut(r.expected), round(r.share, 3)] for r in suspect.reasons
        ]
    if cells := _first(values.get(suspect.row, []), audit.target, suspect):
        shown["cells"] = [[names[name], value, usual, int(differs)] for name, value, usual, differs in cells]
    mark = audit.names.mark(suspect, audit.keys[suspect.row])
    if "id" in mark:
        shown["mark"] = mark
    return shown


def _cells(audit: Audit, rows: list[int]) -> dict[int, list[tuple[str, str, str, bool]]]:
    """For each row its columns, their values, what rows like it have there, and whether this differs."""
    if audit.values is None or not rows:
        return {row: [] for row in rows}
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


def _first(cells: Sequence[tuple[str, str, str, bool]], target: str | None, suspect: Suspect) -> list[Any]:
    """The cells to show: those a reason names, then those that differ from rows like this one, then the others."""
    blamed = {target, *(reason.what for reason in suspect.reasons)}
    order = sorted(cells, key=lambda cell: (cell[0] not in blamed, not cell[3]))
    return list(order[:_CELLS])


def _script(data: Mapping[str, Any]) -> str:
    """JSON that ends no script."""
    text = json.dumps(plain(dict(data)), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _cut(text: str, most: int = _LONG) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _percent(share: float) -> str:
    """A share for people, which is never said to be none or all.

    >>> _percent(0.984), _percent(0.99999), _percent(0.0)
    ('98%', '99.9%', '0.1%')
    """
    share = min(max(share, 0.001), 0.999)
    return f"{share:.1%}" if share < 0.01 or share > 0.99 else f"{share:.0%}"
