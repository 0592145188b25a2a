"""Words that pandas takes for gaps, and whole numbers that it rounds: which of them are values after all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from likely.auditing._source import listed

Raw = Callable[[list[int]], pd.DataFrame]  # some columns of a file, as they are written
GAPS = frozenset(
    {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"}
    | {"NULL", "NaN", "None", "n/a", "nan", "null"}
)
EXACT = 2**53  # whole numbers beyond it are rounded as floats
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}.*)?"
_LOOK = 2000  # values of a column that tell whether it is of words
MOSTLY = 0.9  # a column is of numbers if so many of its values are; the others are odd cells


def mend_words(frame: pd.DataFrame, read_raw: Raw) -> list[str]:
    """Put back, in place, words such as NA or None where they are values, and whole numbers that were rounded.

    Among numbers and dates such a word stands for a gap; among words it is one of them, a class if the column is a
    label. An empty cell is always a gap.

    Args:
        frame: What pandas has read.
        read_raw: Reads the columns of some numbers once more, as they are written; only empty cells are missing.

    Returns:
        What is to be told of it.
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
        if meant and not _single_gap(column):
            frame[name] = column
            words[name] = meant
    if not words:
        return []
    kinds = listed([f"“{word}”" for word in sorted(set().union(*words.values()))])
    return [f"In {listed(list(words))}, {kinds} is taken for a word like the others; only empty cells are gaps there."]


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


def _single_gap(column: pd.Series[Any]) -> bool:
    """Whether there is one word in all, which is then the way to write a gap."""
    return bool(column.nunique() == 1)


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
