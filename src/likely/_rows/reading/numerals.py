"""What pandas does not read as it was meant: words it takes for gaps, whole numbers it rounds, and decimal commas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pandas as pd

from likely._rows.reading.table import listed

Raw = Callable[[list[int]], pd.DataFrame]  # some columns of a file, as they are written
GAPS = frozenset(
    {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"}
    | {"NULL", "NaN", "None", "n/a", "nan", "null"}
)
EXACT = 2**53  # whole numbers beyond it are rounded as floats
ISO_DATE = r"\d{4}(?:-\d{2}-\d{2}|/\d{2}/\d{2})(?:[ T]\d{2}:\d{2}.*)?"
_LOOK = 2000  # values of a column that tell whether it is of words
MOSTLY = 0.9  # a column is of numbers if so many of its values are; the others are odd cells
Style = Literal["decimal comma", "thousands", "either"]
_GROUP = "[.'’ \u00a0\u202f]"
_COMMA = rf"[+-]?(?:\d+|[1-9]\d{{0,2}}(?:{_GROUP}\d{{3}})+)?(?:,\d+)?(?:[eE][+-]?\d+)?"  # 1.234,5
_POINT = r"[+-]?(?:\d+|[1-9]\d{0,2}(?:[,'’ \u00a0\u202f]\d{3})+)(?:\.\d+)?(?:[eE][+-]?\d+)?"  # 1,234.5
_BARE = r"[+-]?\d{4,}"  # where thousands are separated nobody writes this
_DOTTED = r"[+-]?\d{1,3}(?:\.\d{3})*"


def mend_words(frame: pd.DataFrame, read_raw: Raw) -> list[str]:
    """Put back, in place, words such as NA or None where they are values, and whole numbers that were rounded.

    Among numbers and dates such a word stands for a gap; among words it is one of them, a class if the column is a
    label. An empty cell is always a gap. Returns notes about it.
    """
    for name in frame.columns[[pd.api.types.is_string_dtype(kind) for kind in frame.dtypes]]:
        # In a column of whole numbers beyond 2⁶³ pandas leaves gaps as they are written.
        if bool((unread := frame[name].isin(GAPS | {""})).any()):
            frame[name] = frame[name].mask(unread)
    doubtful = [place for place in range(frame.shape[1]) if _doubtful(frame.iloc[:, place])]
    if not doubtful:
        return []
    raw = read_raw(doubtful)
    words: dict[str, set[str]] = {}
    for name in raw.columns:
        column = raw[name]
        if pd.api.types.is_numeric_dtype(frame[name].dtype) and frame[name].notna().any():
            if (whole := _whole(column)) is not None:
                frame[name] = whole
            continue
        meant = set(column.dropna().unique()) & GAPS
        if meant and column.nunique() > 1:  # a single word in all is the way to write a gap
            frame[name] = column
            words[name] = meant
    if not words:
        return []
    kinds = listed([f"“{word}”" for word in sorted(set().union(*words.values()))])
    return [f"In {listed(list(words))}, {kinds} is read as text; only empty cells count as missing there."]


def _doubtful(column: pd.Series[Any]) -> bool:
    """Whether pandas may have read gaps, or rounded numbers, where the file has others."""
    if column.dtype.kind == "f":
        values = np.abs(column.to_numpy())
        return bool(np.isnan(values).all()) or bool((values >= EXACT).any())
    missing = column.isna()
    if pd.api.types.is_numeric_dtype(column.dtype) or not missing.any():
        return False
    present = column[~missing]
    if all(isinstance(value, bool) for value in present.head(100)):
        return False
    present = present.iloc[:: max(1, len(present) // _LOOK)]
    numbers = pd.to_numeric(present, errors="coerce").notna().mean()
    dates = present.astype(str).str.fullmatch(ISO_DATE).mean()
    return bool(max(numbers, dates) < MOSTLY)


def _whole(column: pd.Series[Any]) -> Any:
    """The column as whole numbers, or as digits where these are too long, with gaps; None if it holds others."""
    written = column.where(~column.isin(GAPS))
    if not bool(written.dropna().str.strip().str.fullmatch(r"[+-]?\d+").all()):
        return None
    numbers = [None if pd.isna(word) else int(word) for word in written]
    try:
        return pd.array(numbers, dtype="Int64")
    except (OverflowError, TypeError, ValueError):
        return written


def read_numerals(frame: pd.DataFrame, delimiter: str, read_raw: Raw) -> list[str]:
    """Turn, in place, columns of numbers with decimal commas or separated thousands into numbers.

    Where a column alone does not tell what its commas are ("1,234"), the others do; failing these, they are decimal
    commas unless commas separate the columns. Returns notes about it.
    """
    styles = {name: style for name in frame.columns if (style := _style(frame[name])) is not None}
    known = {style for style in styles.values() if style != "either"}
    decimal = "decimal comma" in known or ("thousands" not in known and delimiter != ",")
    guess: Style = "decimal comma" if decimal else "thousands"
    guessed = [name for name, style in styles.items() if style == "either"]
    styles |= dict.fromkeys(guessed, guess)
    for name, style in styles.items():
        frame[name] = _numbers(frame[name], style)
    dotted = _dotted(frame, read_raw) if "decimal comma" in known else []
    return _style_notes(styles, dotted, guessed)


def _style(column: pd.Series[Any]) -> Style | None:
    """How the numbers of a column are written; None if they need no reading, or are none."""
    words = _words(column) if pd.api.types.is_string_dtype(column.dtype) else column[:0].astype(str)
    if not bool(words.str.contains(r"\d[,'’ \u00a0\u202f]\d|\d\.\d{3}\.\d{3}", regex=True).any()):
        return None
    comma, point = (words.str.fullmatch(pattern).astype(bool) for pattern in (_COMMA, _POINT))
    if max(comma.mean(), point.mean()) < MOSTLY:
        return None
    only_comma, only_point = int((comma & ~point).sum()), int((point & ~comma).sum())
    if only_comma == only_point == 0:
        if not bool(words.str.contains(",", regex=False).any()):
            return "thousands"
        return "decimal comma" if bool(words.str.fullmatch(_BARE).any()) else "either"
    return "decimal comma" if only_comma >= only_point else "thousands"


def _words(column: pd.Series[Any]) -> pd.Series[Any]:
    """The cells of a column that are no gaps."""
    words = column.dropna()
    return words[~words.isin(GAPS)].astype(str).str.strip()


def _numbers(column: pd.Series[Any], style: Style) -> Any:
    """The column as numbers, or, where some cells are none, with the others as Python writes them."""
    pattern, drop = (_COMMA, _GROUP) if style == "decimal comma" else (_POINT, "[,'’ \u00a0\u202f]")
    words = column.where(~column.isin(GAPS)).astype(object)
    fits = words.notna() & words.astype(str).str.strip().str.fullmatch(pattern)
    plain = words[fits].astype(str).str.strip().str.replace(drop, "", regex=True).str.replace(",", ".", regex=False)
    words[fits] = plain
    try:
        return pd.to_numeric(words)
    except (ValueError, TypeError):
        return words


def _dotted(frame: pd.DataFrame, read_raw: Raw) -> list[str]:
    """Mend columns in which dots separate thousands: beside decimal commas they cannot be decimal points."""
    places = [place for place, kind in enumerate(frame.dtypes) if getattr(kind, "kind", "") == "f"]
    if not places:
        return []
    raw, mended = read_raw(places), []
    for name in raw.columns:
        words = _words(raw[name])
        if bool(words.str.contains(".", regex=False).any()) and bool(words.str.fullmatch(_DOTTED).all()):
            frame[name] = pd.to_numeric(raw[name].where(~raw[name].isin(GAPS)).str.replace(".", "", regex=False))
            mended.append(name)
    return mended


def _style_notes(styles: dict[str, Style], dotted: list[str], guessed: list[str]) -> list[str]:
    notes = []
    if comma := [name for name, style in styles.items() if style == "decimal comma"]:
        notes.append(f"Numbers with a decimal comma were read in {listed(comma)}.")
    if point := [*(name for name, style in styles.items() if style == "thousands"), *dotted]:
        notes.append(f"Numbers with separated thousands were read in {listed(point)}.")
    if guessed:
        notes.append(f"Whether the comma in {listed(guessed)} is before decimals or between thousands was guessed.")
    return notes
