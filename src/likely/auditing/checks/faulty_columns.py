"""Columns to look at before a model does: constant, repeated, naming the rows, holding codes or words for numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from likely._page import Table
from likely._rows.reading.table import listed
from likely.auditing.checks.codes import codes
from likely.auditing.checks.spelling import spellings, written
from likely.auditing.checks.twin_columns import twin_columns
from likely.auditing.columns.kinds import Columns
from likely.auditing.results.finding import Finding

_NAMED = re.compile(r"(?i)(^|[_\s.-])(id|uuid|guid|key|index|idx)($|[_\s.-])|(?<=[a-z])(ID|Id)$")
_DENSE = 1.5  # times as many numbers as rows in the range of numbers that count rows
_FEWEST = 20  # rows from which distinct whole numbers look like names of rows
_SHOWN = 60
_SAMPLE = 10_000
_WORDS = {
    "constant": "the same value in every row",
    "empty": "empty",
    "identifier": "a different value in every row",
    "twin": "repeats another column",
    "code": "a number that may be a code",
    "spelling": "one level spelled in several ways",
    "written": "numbers or dates as text",
}


def faulty_columns(frame: pd.DataFrame, columns: Columns, target: str | None) -> Finding:
    """Report columns that are constant, empty, repeated or like an identifier, and values that stand for others."""
    leave_out = {target} if target else set()
    faults: dict[str, list[tuple[str, str]]] = {kind: [] for kind in _WORDS}
    for kind in ("constant", "empty"):
        faults[kind] = [(name, _WORDS[kind]) for name in columns.named(kind) if name != target]
    faults["identifier"] = [(name, _WORDS["identifier"]) for name in identifiers(columns) if name != target]
    faults["twin"] = [(twin.second, twin.how) for twin in twin_columns(columns, leave_out)]
    faults["code"] = [(code.column, code.sentence) for code in codes(columns, leave_out)]
    faults["spelling"] = [(name, why) for name, reasons in spellings(columns).items() for why in reasons[:3]]
    faults["written"] = [(name, why) for name, why in written(frame, columns).items() if name != target]
    lines = [
        (name, _WORDS[kind], why if why != _WORDS[kind] else "")
        for kind, reasons in faults.items()
        for name, why in reasons
    ]
    table = pd.DataFrame(lines[:_SHOWN], columns=["column", "what", "more"]).set_index("column")
    parts = [_part(kind, [name for name, _ in reasons]) for kind, reasons in faults.items() if reasons]
    return Finding(
        "columns",
        "Columns to look at",
        " ".join(parts)
        if parts
        else "No column is constant, repeats another, names the rows, or holds codes or numbers as text.",
        numbers={kind: [{"column": name, "why": why} for name, why in reasons] for kind, reasons in faults.items()},
        tables=(Table(table, "Columns to look at, and why."),) if lines else (),
    )


def _part(kind: str, names: list[str]) -> str:
    """A sentence about the columns of one kind."""
    names = list(dict.fromkeys(names))
    single = len(names) == 1
    verbs = {
        "constant": "is constant" if single else "are constant",
        "empty": "is empty" if single else "are empty",
        "identifier": "has a different value in every row" if single else "have a different value in every row",
        "twin": "repeats another column" if single else "repeat other columns",
        "code": "holds a number that may stand for a missing value"
        if single
        else "hold numbers that may stand for missing values",
        "spelling": "has levels spelled in several ways" if single else "have levels spelled in several ways",
        "written": "holds numbers or dates as text" if single else "hold numbers or dates as text",
    }
    return f"{listed(names, last=' and ')} {verbs[kind]}."


def identifiers(columns: Columns) -> Iterator[str]:
    """Name the columns that identify rows: all values differ, and they are words, or whole numbers that count.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> ids = np.random.default_rng(0).permutation(50) + 1000
    >>> list(identifiers(read_columns(pd.DataFrame({"customer": ids, "income": ids**2, "userID": ids * 37}))))
    ['customer', 'userID']
    """
    for name, kind in columns.kinds.items():
        if kind == "identifier":
            yield name
        elif kind == "number" and len(columns.typed) >= _FEWEST:
            column = columns.typed[name]
            some = column.iloc[:_SAMPLE].to_numpy(np.float64)
            if not ((some == np.round(some)).all() and len(np.unique(some)) == len(some)):
                continue
            dense = float(column.max() - column.min()) <= _DENSE * len(column)
            if (dense or _NAMED.search(str(name))) and column.is_unique:
                yield name
