"""Columns to look at before a model does: constant, repeated, naming the rows, holding codes or words for numbers."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from likely._page import Table
from likely._rows.reading.table import counted, listed
from likely._typing import Array
from likely.auditing.columns.kinds import MODELLED, Columns, as_numbers
from likely.auditing.results.finding import Finding, number

_SHOWN = 60
WORDS = {
    "constant": "the same value in every row",
    "empty": "no value",
    "identifier": "a different value in every row",
    "twin": "the same as another column",
    "code": "a number that may stand for a missing value",
    "spelling": "one level spelled in several ways",
    "written": "numbers or dates as text",
    "shared": "one code for several things",
}
# Names of rows.
_NAMED = re.compile(r"(?i)(^|[_\s.-])(id|uuid|guid|key|index|idx)($|[_\s.-])|(?<=[a-z])(ID|Id)$")
_DENSE = 1.5  # times as many numbers as rows in the range of numbers that count rows
_FEWEST = 20  # rows from which distinct whole numbers look like names of rows
# Columns that repeat another.
_DIGITS = 5  # of standardised numbers that are compared
_LEVELS = 50  # distinct values, at most, of a column whose values may be names
_REPEATED = 5  # rows per such value, at least on average: where all differ, any two columns agree
_SHARED = 10  # rows, at least, that two columns must share
# Numbers that stand for something else.
_CODES = frozenset([*(sign * (10.0**digits - 1) for digits in range(2, 10) for sign in (-1, 1)), -9.0, -1.0, 0.0])
_SMALL = (-1.0, 0.0)  # that are values more often than codes
_DAYS = {-25567.0: "1900-01-01", 0.0: "1970-01-01", -719162.0: "0001-01-01", 2932896.0: "9999-12-31"}
_DISTINCT = 10  # other values, at least: in fewer, nothing is isolated
_TIMES = 3  # rows, at least, with the code
_MANY = 0.3  # of the rows: zeros in more are part of how the column is made
_NEXT = 10  # of the other values, nearest to the code, that tell how far apart they usually are
_APART = 5.0  # times as far from the others as these are from each other
_CODED = 10  # levels, at least, of a column that may name the things of another
_EXCEPTIONS = 0.1  # of them, at most, may name several
# Numbers and dates as text.
_LOOK = 5_000  # distinct values that tell how they are written
_MOSTLY = 0.9  # of the values must be of a form for it to be the column's
_NUMBERS = 6  # numbers, at least, that differ: fewer are levels with a number in their name
_AFFIX = r"[^\d\s.,+<>=\[\]()_:/-]{0,6}"  # a currency, a unit or a percent sign
_NUMERAL = re.compile(rf"\s*({_AFFIX})\s*[+-]?\d[\d\s.,'’]*(?:e[+-]?\d+)?\s*({_AFFIX})\s*", re.IGNORECASE)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = re.compile(  # 2024-03-31, 31/3/24, 31 March 2024, March 31, 2024
    r"(\d{4}|\d\d?)([-/.])\d\d?\2\d{1,4}([ T].*)?"
    rf"|\d\d?[ -]{_MONTH}[ -,]*\d{{2,4}}( .*)?|{_MONTH} \d\d?,? \d{{4}}( .*)?",
    re.IGNORECASE,
)
Faults = Iterator[tuple[str, str]]  # names of columns, each with what is wrong


def faulty_columns(frame: pd.DataFrame, columns: Columns, target: str | None) -> Finding:
    """Report columns that are constant, empty, repeated or like an identifier, and values that stand for others."""
    others = Columns({name: kind for name, kind in columns.kinds.items() if name != target}, columns.typed, ())
    found: dict[str, Faults] = {
        "constant": ((name, "") for name in others.named("constant")),
        "empty": ((name, "") for name in others.named("empty")),
        "identifier": ((name, "") for name in identifiers(others)),
        "twin": twin_columns(others),
        "code": codes(others),
        "spelling": spellings(columns),
        "written": written(frame, others),
        "shared": shared_codes(columns),
    }
    lines, parts, numbers = [], [], {}
    for kind, words in WORDS.items():
        reasons = list(found[kind])
        lines += [(name, words, why) for name, why in reasons]
        numbers[kind] = [{"column": name, "why": why or words} for name, why in reasons]
        if names := list(dict.fromkeys(name for name, _ in reasons)):
            parts.append(f"{words[0].upper()}{words[1:]}: {listed(names, last=' and ')}.")
    table = pd.DataFrame(lines[:_SHOWN], columns=["column", "what", "more"]).set_index("column")
    nothing = "No column is constant, repeats another, names the rows, or holds codes or numbers as text."
    return Finding(
        "columns",
        "Columns to look at",
        " ".join(parts) or nothing,
        numbers=numbers,
        tables=(Table(table, "Columns to look at, and why."),) if lines else (),
        found=bool(lines),
    )


def identifiers(columns: Columns) -> Iterator[str]:
    """Name the columns that identify rows: all values differ, and they are words, or whole numbers that count.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> ids = np.random.default_rng(0).permutation(50) + 1000
    >>> list(identifiers(read_columns(pd.DataFrame({"customer": ids, "income": ids**2, "userID": ids * 37}))))
    ['customer', 'userID']
    """
    for name in columns.named("identifier", "number"):
        column = columns.typed[name]
        if columns.kinds[name] == "identifier":
            yield name
        elif len(column) >= _FEWEST and bool((column % 1 == 0).all()):
            dense = float(column.max()) - float(column.min()) <= _DENSE * len(column)
            if (dense or _NAMED.search(str(name))) and column.is_unique:
                yield name


def twin_columns(columns: Columns) -> Faults:
    """Find columns that say what an earlier one does: equal, or up to a unit, or up to the names of their levels.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> x = np.random.default_rng(0).normal(size=50)
    >>> up = np.where(x > 0, "yes", "no")
    >>> table = pd.DataFrame({"cm": x, "inch": x / 2.54, "up": up, "sign": np.sign(x)})
    >>> [how for _, how in twin_columns(read_columns(table))]
    ['inch = 0.3937 × cm', 'sign and up determine each other, one to one']
    """
    first: dict[tuple[str, int], str] = {}
    for name in columns.named(*MODELLED):
        column = columns.typed[name]
        keys = list(_likenesses(column))
        if known := [key for key in keys if key in first]:
            yield name, _same(columns.typed[first[known[0]]], column, known[0][0])
        else:
            first |= dict.fromkeys(keys, name)


def _likenesses(column: pd.Series[Any]) -> Iterator[tuple[str, int]]:
    """What two columns have in common if they are equal up to a unit, or up to names."""
    numbers, levels = as_numbers(column)
    present = ~np.isnan(numbers)
    values = numbers[present]
    if len(values) < _SHARED:
        return
    deviation = float(values.std())
    if levels is None and 0 < deviation < np.inf:
        z = (values - values.mean()) / deviation
        z *= np.sign(z[np.argmax(np.abs(z) > 0.1)])
        yield "unit", hash(present.tobytes() + (np.round(z, _DIGITS) + 0.0).tobytes())
    codes, distinct = pd.factorize(numbers)
    if 1 < len(distinct) <= min(_LEVELS, len(values) // _REPEATED):
        yield "name", hash(codes.tobytes())


def _same(first: pd.Series[Any], second: pd.Series[Any], how: str) -> str:
    """How the second of two columns is made of the first."""
    if first.dropna().tolist() == second.dropna().tolist():
        return f"{second.name} equals {first.name}"
    if how == "name":
        return f"{second.name} and {first.name} determine each other, one to one"
    x, y = (as_numbers(column.dropna())[0] for column in (first, second))
    slope, shift = np.polyfit(x, y, 1).tolist()
    times = "" if abs(slope - 1) < 1e-9 else "−" if abs(slope + 1) < 1e-9 else f"{number(slope)} × "
    plus = f" {'−' if shift < 0 else '+'} {number(abs(shift))}" if abs(shift) >= 1e-6 * y.std() else ""
    return f"{second.name} = {times}{first.name}{plus}"


def codes(columns: Columns) -> Faults:
    """Find numbers that look like codes for gaps: usual ones, repeated, at an end of the column, and isolated.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> age = np.random.default_rng(0).integers(18, 80, 200)
    >>> age[:9] = -999
    >>> [why for _, why in codes(read_columns(pd.DataFrame({"age": age})))]
    ['-999 in 9 rows, the others are 18 to 79: if it means a missing value, name it in missing']
    """
    for name in columns.named("number", "date"):
        values = columns.typed[name].dropna().to_numpy(np.float64)
        dates = columns.kinds[name] == "date"
        for end in sorted({values.min(), values.max()} & (_DAYS.keys() if dates else _CODES)):
            others = values[values != end]
            times = len(values) - len(others)
            if times >= _TIMES and (dates or _isolated(end, others, times / len(values))):
                rest = "" if dates else f", the others are {number(others.min())} to {number(others.max())}"
                shown = _DAYS[end] if dates else number(end)
                yield name, f"{shown} in {counted(times, 'row')}{rest}: if it means a missing value, name it in missing"
                values = others


def _isolated(code: float, others: Array, share: float) -> bool:
    """Whether a number at the end of a column lies further from the other values than these lie apart."""
    distinct = np.unique(others)
    if len(distinct) < _DISTINCT or (code == 0 and share > _MANY):
        return False
    near = distinct[-_NEXT:] if code > distinct[-1] else distinct[:_NEXT]
    gap = float(np.abs(near - code).min())
    least = _APART * float(near[-1] - near[0]) / (len(near) - 1)
    if code not in _SMALL:
        return gap > least
    # A value like others, unless nothing is near it, or the others are many whole numbers from zero on.
    middle = float(np.subtract(*np.quantile(others, [0.75, 0.25])))
    counts = distinct[0] >= 0 and len(distinct) > 20 and bool((distinct % 1 == 0).all())
    return bool(distinct[0] > 0 and gap > max(least, 0.5 * middle)) or (code == -1 and counts)


def plain(word: str) -> str:
    """A word without what people vary without meaning it: case, stray spaces, width and accents of composition.

    >>> plain(" New  York") == plain("new york"), plain("a-b") == plain("a b")
    (True, False)
    """
    return " ".join(unicodedata.normalize("NFKC", word).casefold().split())


def spellings(columns: Columns) -> Faults:
    """Find levels of categories that differ in case or spaces only, three at most of a column.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> list(spellings(read_columns(pd.DataFrame({"state": ["NY"] * 5 + ["ny "] + ["LA"] * 3}))))
    [('state', '“NY” (5 rows) is also written “ny ” (1)')]
    """
    for name in columns.named("category"):
        counts = columns.typed[name].value_counts()
        forms: dict[str, list[str]] = defaultdict(list)
        for level in counts.index:
            forms[plain(level)].append(level)
        for first, *others in [variants for variants in forms.values() if len(variants) > 1][:3]:
            shown = listed([f"“{other}” ({counts[other]:,})" for other in others], most=3, last=" and ")
            yield name, f"“{first}” ({counts[first]:,} rows) is also written {shown}"


def shared_codes(columns: Columns) -> Faults:
    """Find levels that stand for several of another column, where nearly all others stand for one, and it for them.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> name, code = (np.repeat([f"{stem} {k}" for k in range(20)], 5) for stem in ("land", "code"))
    >>> code[:5] = code[5]
    >>> [why for _, why in shared_codes(read_columns(pd.DataFrame({"name": name, "code": code})))]
    ['“code 1” stands for “land 0” and “land 1” in name']
    """
    levels = columns.typed[columns.named("category")].nunique()
    for code, name in itertools.permutations(levels.index[levels >= _CODED], 2):
        pairs = columns.typed[[code, name]].dropna().drop_duplicates()
        several, other = (pairs[pairs.duplicated(by, keep=False)] for by in (code, name))
        if max(len(several), len(other)) <= _EXCEPTIONS * len(pairs):
            for level, things in several.groupby(code, observed=True):
                yield (
                    code,
                    f"“{level}” stands for {listed([f'“{own}”' for own in things[name]], last=' and ')} in {name}",
                )


def written(frame: pd.DataFrame, columns: Columns) -> Faults:
    """Find columns of words that are numbers or dates written as text.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> fees = ["$1,200", "$80", "$95.50", "$7", "$8", "$9"]
    >>> table = pd.DataFrame({"fee": fees * 2, "day": ["2021-03-04", "4/3/2021"] * 6})
    >>> dict(written(table, read_columns(table)))["fee"]
    'numbers as text, such as “$1,200”'
    >>> dict(written(table, read_columns(table)))["day"]
    'dates in 2 formats: like 2021-03-04 (50%), like 4/3/2021 (50%)'
    """
    for name in columns.named("number", "category", "text", "identifier"):
        column = columns.typed[name]
        if not pd.api.types.is_numeric_dtype(column.dtype):
            if form := _form([str(word).strip() for word in column.dropna().unique()[:_LOOK]]):
                yield name, form
        elif columns.kinds[name] == "number" and not pd.api.types.is_numeric_dtype(frame[name].dtype):
            yield name, "numbers stored as text"


def _form(words: list[str]) -> str:
    """How numbers or dates are written in a column of words; nothing if it holds neither."""
    if len(words) < 2:
        return ""
    dates = {word: (match[2], len(match[1] or "")) for word in words if (match := _DATE.fullmatch(word))}
    if len(dates) >= _MOSTLY * len(words):
        shares = pd.Series(dates).value_counts(normalize=True)
        if len(shares) == 1:
            return f"dates as text, such as “{words[0]}”"
        like = {form: word for word, form in dates.items()}
        return f"dates in {len(shares)} formats: " + listed(
            [f"like {like[form]} ({share:.0%})" for form, share in shares.items()]
        )
    matches = [match.groups() for word in words if (match := _NUMERAL.fullmatch(word))]
    affixes = set(matches)
    # "room 12" and "A7" are names: a unit is the same, or one of a few, in all rows.
    named = len(affixes) > 4 or any(before.isalpha() for before, _ in affixes)
    if named or len(words) < _NUMBERS or len(matches) < _MOSTLY * len(words) or not any(map(any, affixes)):
        return ""
    units = f" in {len(affixes)} units" if len(affixes) > 1 else ""
    return f"numbers as text{units}, such as “{words[0]}”"
