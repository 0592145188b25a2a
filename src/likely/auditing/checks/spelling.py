"""The same thing written in two ways: levels with stray spaces, numbers with units, dates in several formats."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd

from likely._rows.reading.table import listed
from likely.auditing.columns.kinds import Columns

_LEVELS = 100_000  # distinct values, at most, that are compared
_LOOK = 5_000  # distinct values that tell how numbers and dates are written
_MOSTLY = 0.9  # of the values must be of a form for it to be the column's
_NUMBERS = 6  # numbers, at least, that differ: fewer are levels with a number in their name
_AFFIX = r"[^\d\s.,+<>=\[\]()_:/-]{0,6}"  # a currency, a unit or a percent sign
_NUMERAL = re.compile(
    rf"\s*(?P<before>{_AFFIX})\s*[+-]?\d[\d\s.,'’]*(?:e[+-]?\d+)?\s*(?P<after>{_AFFIX})\s*", re.IGNORECASE
)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATES = {
    "2024-03-31": re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T].*)?"),
    "31/03/2024": re.compile(r"\d{1,2}/\d{1,2}/(?:\d{4}|\d{2})( .*)?"),
    "31.03.2024": re.compile(r"\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})( .*)?"),
    "31-03-2024": re.compile(r"\d{1,2}-\d{1,2}-\d{4}( .*)?"),
    "2024/03/31": re.compile(r"\d{4}/\d{1,2}/\d{1,2}( .*)?"),
    "31 March 2024": re.compile(rf"\d{{1,2}}[ -]{_MONTH}[ -,]*\d{{2,4}}( .*)?", re.IGNORECASE),
    "March 31, 2024": re.compile(rf"{_MONTH} \d{{1,2}},? \d{{4}}( .*)?", re.IGNORECASE),
}


def plain(word: str) -> str:
    """A word without what people vary without meaning it: case, stray spaces, width and accents of composition.

    >>> plain(" New  York") == plain("new york"), plain("a-b") == plain("a b")
    (True, False)
    """
    return " ".join(unicodedata.normalize("NFKC", word).casefold().split())


def spellings(columns: Columns) -> dict[str, list[str]]:
    """Find levels of categories that differ in case or spaces only.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> spellings(read_columns(pd.DataFrame({"state": ["NY"] * 5 + ["ny "] + ["LA"] * 3})))
    {'state': ['“NY” (5 rows) is also written “ny ” (1)']}
    """
    sentences: dict[str, list[str]] = {}
    for name in columns.named("category"):
        counts = columns.typed[name].value_counts()
        if len(counts) > _LEVELS:
            continue
        forms: dict[str, list[str]] = defaultdict(list)
        for level in counts.index:
            forms[plain(str(level))].append(str(level))
        of_column = [
            f"“{variants[0]}” ({counts[variants[0]]:,} rows) is also written "
            + listed([f"“{other}” ({counts[other]:,})" for other in variants[1:]], most=3, last=" and ")
            for variants in forms.values()
            if len(variants) > 1
        ]
        if of_column:
            sentences[str(name)] = of_column
    return sentences


def written(frame: pd.DataFrame, columns: Columns) -> dict[str, str]:
    """Find columns of words that are numbers or dates written as text.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> fees = ["$1,200", "$80", "$95.50", "$7", "$8", "$9"]
    >>> table = pd.DataFrame({"fee": fees * 2, "day": ["2021-03-04", "4/3/2021"] * 6})
    >>> written(table, read_columns(table))["fee"]
    'numbers as text, such as “$1,200”'
    >>> written(table, read_columns(table))["day"]
    'dates in 2 formats: like 2024-03-31 (50%), like 31/03/2024 (50%)'
    """
    as_text = {}
    for name, kind in columns.kinds.items():
        if kind == "number" and name in frame and not pd.api.types.is_numeric_dtype(frame[name].dtype):
            as_text[name] = "numbers stored as text"
        elif kind in ("category", "text", "identifier") and not pd.api.types.is_numeric_dtype(
            columns.typed[name].dtype
        ):
            sentence = _form(columns.typed[name])
            if sentence:
                as_text[name] = sentence
    return as_text


def _form(column: pd.Series[Any]) -> str:
    """How numbers or dates are written in a column of words; nothing if it holds neither."""
    words = [str(word).strip() for word in column.dropna().unique()[:_LOOK]]
    if len(words) < 2:
        return ""
    formats = [next((form for form, pattern in _DATES.items() if pattern.fullmatch(word)), "") for word in words]
    dated = np.array([bool(form) for form in formats])
    if dated.mean() >= _MOSTLY:
        shares = pd.Series([form for form in formats if form]).value_counts(normalize=True, sort=True)
        if len(shares) > 1:
            shown = listed([f"like {form} ({share:.0%})" for form, share in shares.items()])
            return f"dates in {len(shares)} formats: {shown}"
        return f"dates as text, such as “{words[0]}”"
    matches = [match for word in words if (match := _NUMERAL.fullmatch(word))]
    affixes = {(match["before"], match["after"]) for match in matches}
    # "room 12" and "A7" are names: a unit is the same, or one of a few, in all rows.
    signs = {before for before, _ in affixes if before and not before.isalpha()} | {
        after for _, after in affixes if after
    }
    if (
        len(words) < _NUMBERS
        or len(matches) < _MOSTLY * len(words)
        or not signs
        or len(affixes) > 4
        or any(b.isalpha() for b, _ in affixes)
    ):
        return ""
    units = f" in {len(affixes)} units" if len(affixes) > 1 else ""
    return f"numbers as text{units}, such as “{words[0]}”"
