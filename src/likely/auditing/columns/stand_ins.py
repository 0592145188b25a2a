"""Words and numbers that mean a missing value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from likely._rows.reading.text import GAPS

Words = dict[str, list[str]]  # by column
_IN_ANY_CASE = frozenset({"-", "--", "?", ".", "missing", "not available", "unknown"})


@dataclass(frozen=True)
class StandIns:
    """What stands for a missing value: the given words and numbers, or the usual words.

    Python's "None" is not one of the usual words, since it is often a level ("no pool"), nor is "-" beside "+". The
    target keeps its words, which may be classes.
    """

    words: Sequence[str] | None
    kept: frozenset[str]  # columns that are left as they are

    def blanked(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, Words]:
        """The table with gaps where something stands for them, and the words and numbers of each column that did.

        >>> jobs = ["cook", "Unknown", "NA"]
        >>> table = pd.DataFrame({"age": ["31", "-", "47"], "job": jobs, "rhesus": ["+", "-", "+"]})
        >>> StandIns(None, frozenset()).blanked(table)[1]
        {'age': ['-'], 'job': ['NA', 'Unknown']}
        >>> StandIns(["31"], frozenset()).blanked(table.assign(age=[31, 40, 47]))[0]["age"].tolist()
        [nan, 40.0, 47.0]
        """
        found = {}
        for name in frame.columns.drop(list(self.kept), errors="ignore"):
            column = frame[name]
            if pd.api.types.is_numeric_dtype(column.dtype):
                words = [word for word in self.words or () if column.isin(_as_numbers(word)).any()]
            elif pd.api.types.is_datetime64_any_dtype(column.dtype):
                continue
            else:
                values = {value for value in column.tolist() if isinstance(value, str)}
                words = sorted(value for value in values if self._is_one(value.strip(), "+" in values))
            if words:
                found[name] = words
                blanked = column.mask(column.isin([*words, *_as_numbers(*words)]))
                numbers = pd.to_numeric(blanked, errors="coerce")
                frame = frame.assign(**{name: blanked if (numbers.isna() & blanked.notna()).any() else numbers})
        return frame, found

    def _is_one(self, value: str, signs: bool) -> bool:
        if self.words is not None:
            return value in self.words
        return value in GAPS - {"None"} or (value.casefold() in _IN_ANY_CASE and not (signs and value == "-"))


def _as_numbers(*words: str) -> list[float]:
    return [float(number) for number in pd.to_numeric(pd.Series(words, dtype=object), errors="coerce").dropna()]
