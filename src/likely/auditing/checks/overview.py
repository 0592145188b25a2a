"""What is in a table: rows, columns, kinds, gaps, the spread of the target, and cells that do not fit their column."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pandas as pd
from scipy.stats import skew

from likely._page import Table
from likely._rows.reading.table import counted, listed
from likely._typing import Index
from likely.auditing.columns.kinds import Columns, Kind, ranked
from likely.auditing.results.finding import Explained, Finding, Reason, number, worst_first

_SHOWN = 60  # columns that the table of the page lists
_RARE = 0.1  # of an equal share: a class as rare as that is named
_SKEWED = 2.0  # skewness from which the target's tail is named
_UNREAD = 10.0  # deviations off is what a cell counts that cannot be read
_CODE = 3  # rows with the same word, at least, for it to be a code
_LONG = "the row"  # what is too long
_WORDS = {
    "category": ("category", "categories"),
    "name": ("name of rows", "names of rows"),
    "empty": ("empty column", "empty columns"),
}


def overview(
    columns: Columns, target: str | None, task: str, rows: int, gaps: pd.Series[float] | None = None
) -> Finding:
    """Describe a table: how many rows and columns of which kind, its gaps, and its classes or the target's spread.

    ``rows`` are those of the whole table, and so is ``gaps``, the share of missing values by column, if the columns are
    of a sample.
    """
    typed = columns.typed
    gaps = typed.isna().mean() if gaps is None else gaps
    kinds = pd.Series(columns.kinds).value_counts(sort=False)
    parts = [counted(kinds[kind], *_WORDS.get(kind, (kind,))) for kind in get_args(Kind) if kind in kinds]
    shown = list(columns.kinds)[:_SHOWN]
    frame = pd.DataFrame(
        {
            "kind": [columns.kinds[name] for name in shown],
            "gaps": [f"{gap:.1%}" if gap else "" for gap in gaps[shown]],
            "distinct": [typed[name].nunique() for name in shown],
            "holds": [_held(typed[name].dropna(), columns.kinds[name]) for name in shown],
        },
        index=pd.Index(shown, name="column"),
    )
    first = f", the first {len(shown)} of {len(gaps):,}" if len(shown) < len(gaps) else ""
    sampled = f", the last two of {len(typed):,} rows" if len(typed) < rows else ""
    sentence, numbers, tables = "", dict[str, Any](), list[Table]()
    if task == "regression" and target is not None:
        sentence = _spread(typed[target].dropna().to_numpy(np.float64), target)
    elif task == "classification" and target is not None:
        codes, classes = ranked(typed[target])
        sentence, numbers, tables = balance(np.bincount(codes[codes >= 0], minlength=len(classes)), classes, target)
    size, missing = f"{counted(rows, 'row')}, {counted(len(gaps), 'column')}", float(gaps.mean())
    # A share is all only where all are, and none only where none is.
    share = "All" if missing == 1 else f"{min(max(missing, 0.001), 0.999):.1%}" if missing else ""
    empty = f" {share} of the values are missing." if missing else " No value is missing."
    return Finding(
        "overview",
        "Overview",
        f"{size}: {listed(parts, most=9, last=' and ')}.{empty}{sentence}",
        numbers={
            "rows": rows,
            "columns": len(gaps),
            "kinds": kinds.to_dict(),
            "gaps": gaps[gaps > 0].round(4).to_dict(),
            **numbers,
        },
        tables=(Table(frame, f"The columns{first}: kind, gaps, and what they hold{sampled}.", digits=2), *tables),
    )


def _held(present: pd.Series[Any], kind: str) -> str:
    """What a column holds: quantiles of numbers, the first and last date, the most frequent levels."""
    if not len(present):
        return ""
    if kind in ("number", "identifier") and pd.api.types.is_numeric_dtype(present.dtype):
        low, middle, high = map(number, present.quantile([0.0, 0.5, 1.0]))
        return f"{low} to {high}, median {middle}"
    if kind == "date":
        return " to ".join(str(np.datetime64(round(day), "D")) for day in (present.min(), present.max()))
    if kind == "category":
        shares = present.value_counts(normalize=True).head(3)
        return ", ".join(f"{str(level)[:30]} {share:.0%}" for level, share in shares.items())
    text = str(present.iloc[0])
    return f"such as “{text[:40]}{'…' if len(text) > 40 else ''}”"


def balance(counts: Any, classes: list[str], target: str) -> tuple[str, dict[str, Any], list[Table]]:
    """Describe the classes: how many rows each has, and which are rare.

    >>> balance([96, 4], ["no", "yes"], "churn")[0]
    ' 2 classes of churn: no (96%), yes (4%). Rare: yes (4 rows).'
    """
    by_class = pd.Series(counts, index=classes).sort_values(ascending=False, kind="stable")
    shares = by_class / max(by_class.sum(), 1)
    rare = [name for name, share in shares.items() if share < _RARE / len(shares)]
    shown = [f"{name} ({share:.0%})" for name, share in shares.items()]
    sentence = f" {len(shares):,} classes of {target}: {listed(shown, most=4)}."
    if rare:
        few = [f"{name} ({counted(by_class[name], 'row')})" for name in rare]
        sentence += f" Rare: {listed(few)}."
    frame = pd.DataFrame({"rows": by_class, "share": [f"{share:.1%}" for share in shares]})
    frame.index.name = target
    numbers = {"classes": {str(k): int(v) for k, v in by_class.items()}, "rare": [str(name) for name in rare]}
    return sentence, numbers, [Table(frame.head(_SHOWN), f"Rows per class of {target}.")]


def _spread(y: Any, target: str) -> str:
    """The middle, the spread and the tail of a target."""
    low, middle, high = np.quantile(y, [0.05, 0.5, 0.95])
    skewness = skew(y / np.abs(y).max())  # powers of large numbers would overflow
    tail = f", with a long tail of {'high' if skewness > 0 else 'low'} values" if abs(skewness) > _SKEWED else ""
    return f" {target}: median {number(middle)}, 90% of rows from {number(low)} to {number(high)}{tail}."


def odd_cells(columns: Columns, ragged: dict[int, str], rows: int) -> Finding | None:
    """Report a word in a column of numbers, an infinity, a row with a field too many."""
    reasons: dict[int, list[Reason]] = defaultdict(list)
    for cell in columns.odd:
        reasons[cell.row].append(Reason(cell.column, cell.value, cell.reason, 1.0))
    for row, text in ragged.items():
        reasons[row].append(Reason(_LONG, "too long", text, 1.0))
    if not reasons:
        return None
    suspicious = np.isin(np.arange(rows), list(reasons))
    words = Counter((first.what, first.value) for first, *_ in reasons.values())

    def explain(top: Index) -> Iterator[Explained]:
        for row in top.tolist():
            first = reasons[row][0]
            headline = f"{first.what} is {first.value!r}: {first.expected}"
            group = headline if words[first.what, first.value] > 1 else f"{first.what} is {first.expected}"
            if first.what == _LONG:
                headline, group = first.expected, "more fields than the header"
            # A word of many rows, such as "T" for a trace of rain, stands for something.
            wrong = words[first.what, first.value] < _CODE
            yield Explained(headline, reasons[row], far=_UNREAD, wrong=wrong, group=group)

    return Finding(
        "cells",
        "Cells of another type than their column",
        counted(len(reasons), "row holds", "rows hold")
        + " a value that does not belong in its column and counts as missing.",
        numbers={"rows": len(reasons), "cells": len(columns.odd), "ragged": len(ragged)},
        **worst_first("cells", suspicious.astype(np.float64), suspicious, explain, most=None),
    )
