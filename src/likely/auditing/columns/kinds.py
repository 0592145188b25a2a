"""What each column holds, what stands for missing values there, and the same as numbers that models can read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._rows.columns import days
from likely._rows.reading.text import EXACT, GAPS, ISO_DATE, MOSTLY
from likely._typing import Array, Index

Kind = Literal["number", "category", "date", "text", "identifier", "constant", "empty", "name"]
MODELLED = ("number", "category", "date")
Words = dict[str, list[str]]  # by column
_GAPS_IN_ANY_CASE = frozenset({"-", "--", "?", ".", "missing", "not available", "unknown"})
_INDICATED_LEVELS = 10  # of a category that get a column of zeros and ones each
_FARTHEST = 1e18  # further out is not told apart, so that squares stay finite in single precision


@dataclass(frozen=True)
class StandIns:
    """What stands for a missing value: the given words and numbers, or the usual words.

    Python's "None" is not one of the usual words, since it is often a level ("no pool"), nor is "-" beside "+". The
    target keeps its words, which may be classes.
    """

    words: Sequence[str] | None
    kept: Sequence[str]  # columns that are left as they are

    @classmethod
    def of(cls, given: Sequence[str | float] | None, kept: Sequence[str]) -> Self:
        """From what a user gives, which may be a single word."""
        several = [given] if isinstance(given, str) else given
        return cls(None if several is None else [str(word).strip() for word in several], kept)

    def blanked(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, Words]:
        """The table with gaps where something stands for them, and the words and numbers of each column that did.

        >>> jobs = ["cook", "Unknown", "NA"]
        >>> table = pd.DataFrame({"age": ["31", "-", "47"], "job": jobs, "rhesus": ["+", "-", "+"]})
        >>> StandIns(None, []).blanked(table)[1]
        {'age': ['-'], 'job': ['NA', 'Unknown']}
        >>> StandIns(["31"], []).blanked(table.assign(age=[31, 40, 47]))[0]["age"].tolist()
        [nan, 40.0, 47.0]
        """
        found = {}
        for name in frame.columns.drop(self.kept, errors="ignore"):
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
        return value in GAPS - {"None"} or (value.casefold() in _GAPS_IN_ANY_CASE and not (signs and value == "-"))


class OddCell(NamedTuple):
    """A value that is not of its column's kind."""

    row: int
    column: str
    value: str
    reason: str


@dataclass(frozen=True)
class Columns:
    """The kind of every column, the columns with their own types, and the cells that do not fit theirs.

    Numbers are floats, dates days since 1970, categories strings; what is missing is NaN or None. A column of the kind
    "name" is the one by which the user calls the rows; an "identifier" only looks like one.
    """

    kinds: dict[str, Kind]
    typed: pd.DataFrame
    odd: tuple[OddCell, ...]

    def named(self, *kinds: str, but: Collection[str | None] = ()) -> list[str]:
        """The columns of these kinds, but for some."""
        return [name for name, kind in self.kinds.items() if kind in kinds and name not in but]


def read_columns(frame: pd.DataFrame, id: str | None = None) -> Columns:
    """Tell what each column holds.

    >>> columns = read_columns(pd.DataFrame({"size": ["1", "2.5", "large"] * 1 + ["3"] * 9, "colour": list("rgb") * 4}))
    >>> columns.kinds
    {'size': 'number', 'colour': 'category'}
    >>> columns.odd
    (OddCell(row=2, column='size', value='large', reason='not a number'),)
    """
    kinds: dict[str, Kind] = {}
    typed: dict[str, Any] = {}
    odd: list[OddCell] = []
    for name in frame.columns:
        if name == id:
            kinds[name], typed[name] = "name", frame[name].to_numpy()
            continue
        kind = _kind_of(frame[name])
        typed[name] = as_kind(frame[name], kind)
        odd += _odd_cells(frame[name], typed[name], kind)
        kinds[name] = _settled(kind, typed[name])
    table = pd.DataFrame(typed, index=frame.index)
    table.columns = table.columns.astype(object)  # a name in an Arrow index takes longer to look up than a column
    return Columns(kinds, table, tuple(odd))


@dataclass(frozen=True)
class ColumnReader:
    """What the columns of a sample hold, to read further rows by."""

    kinds: dict[str, Any]
    levels: dict[str, list[str]]

    @classmethod
    def of(cls, columns: Columns, leave_out: Collection[str] = ()) -> Self:
        """Learn from a sample."""
        names = columns.named(*MODELLED, but=leave_out)
        words = [name for name in names if not pd.api.types.is_numeric_dtype(columns.typed[name].dtype)]
        levels = {name: ranked(columns.typed[name])[1] for name in words}
        return cls({name: columns.kinds[name] for name in names}, levels)

    def codes(self, name: str, words: Any) -> Array:
        """The places of levels, NaN where one is missing; a level that the sample lacks comes after all others."""
        missing = pd.isna(words)
        places = pd.Index(self.levels[name]).get_indexer(pd.Index(np.where(missing, "", words)))
        return np.where(missing, np.nan, np.where(places < 0, len(self.levels[name]), places))

    def indicated(self, name: str) -> list[str]:
        """The levels of a column that have a column of zeros and ones each."""
        levels = self.levels.get(name, [])
        return levels if len(levels) <= _INDICATED_LEVELS else []

    def design(self, typed: pd.DataFrame) -> NDArray[np.float32]:
        """Numbers for models, NaN where a value is missing.

        A category of up to ten levels has a column of zeros and ones per level; one of more, the place of its level in
        the order of frequency, which trees can cut.
        """
        parts = [np.zeros((len(typed), 0), np.float32)]
        for name in self.kinds:
            values = typed[name].to_numpy()
            if name in self.levels:
                numbers = self.codes(name, values)[:, None]
            else:
                numbers = np.clip(values.astype(np.float64), -_FARTHEST, _FARTHEST)[:, None]
            if levels := self.indicated(name):
                numbers = np.where(np.isnan(numbers), np.nan, numbers == np.arange(len(levels)))
            parts.append(numbers.astype(np.float32))
        return np.concatenate(parts, axis=1)


def as_kind(column: pd.Series[Any], kind: str) -> Any:
    """A column's values as those of a kind; what is not of the kind is missing.

    >>> as_kind(pd.Series(["1", "x", None]), "number").tolist(), as_kind(pd.Series([True, None]), "category").tolist()
    ([1.0, nan, nan], ['True', None])
    """
    if kind == "empty":
        return np.full(len(column), np.nan)
    if kind == "number":
        numeric = pd.api.types.is_numeric_dtype(column.dtype)
        read = column if numeric else pd.to_numeric(pd.Series(_strings(column)), errors="coerce")
        values = read.to_numpy(np.float64, na_value=np.nan)
        return np.where(np.isinf(values), np.nan, values)
    if kind == "date":
        times = days(column)
        if times is None:
            times = days(pd.to_datetime(pd.Series(_strings(column)), format="ISO8601", errors="coerce", utc=True))
        return times
    return _strings(column)


def as_numbers(column: pd.Series[Any]) -> tuple[Array, list[str] | None]:
    """The numbers of a column, NaN where one is missing, or the places of its levels and the levels."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return np.clip(column.to_numpy(np.float64), -_FARTHEST, _FARTHEST), None
    codes, levels = ranked(column)
    return np.where(codes < 0, np.nan, codes), levels


def ranked(column: pd.Series[Any]) -> tuple[Index, list[str]]:
    """Each value as the place of its level in the order of frequency, -1 where it is missing, and the levels.

    Levels that are equally frequent are in the order of their names, whatever the order of the rows.
    """
    codes, levels = pd.factorize(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    order = np.lexsort((np.array([str(level) for level in levels], dtype=str), -counts))
    place = np.empty(len(levels) + 1, np.int64)
    place[order], place[-1] = np.arange(len(levels)), -1
    names = [str(levels[i]) for i in order]
    return place[codes], [name.removesuffix(".0") for name in names] if levels.dtype.kind == "f" else names


def _kind_of(column: pd.Series[Any]) -> Kind:
    """What most values of a column are: numbers, dates, a category, names or text."""
    present = column[column.notna()]
    if not len(present):
        return "empty"
    if pd.api.types.is_bool_dtype(column.dtype):
        return "category"
    if days(column) is not None:
        return "date"
    numeric = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype)
    if numeric and not (column.dtype.kind in "iu" and _rounded(present.tolist())):
        return "number"
    words = pd.Series(_strings(present))
    named = words.str.fullmatch(r"\d+[A-Z]").any()  # 136A is the name of a house or a family
    if not named and pd.to_numeric(words, errors="coerce").notna().mean() >= MOSTLY:
        whole = words[words.str.strip().str.fullmatch(r"[+-]?\d{1,300}")]
        if not _rounded(whole.map(int).tolist()):
            return "number"
    if words.str.fullmatch(ISO_DATE).mean() >= MOSTLY:
        return "date"
    distinct = words.nunique()
    if distinct <= max(50, len(words) // 2):
        return "category"
    return "text" if words[:1000].str.len().mean() > 40 or distinct < len(words) else "identifier"


def _odd_cells(column: pd.Series[Any], values: NDArray[Any], kind: Kind) -> Iterator[OddCell]:
    """The values that are not of their column's kind."""
    odd = column.notna().to_numpy(bool) & np.isnan(values) if kind in ("number", "date") else []
    for row in np.flatnonzero(odd).tolist():
        word = str(column.iloc[row])
        infinite = kind == "number" and np.isinf(pd.to_numeric(word, errors="coerce"))
        yield OddCell(row, str(column.name), word, "infinite" if infinite else f"not a {kind}")


def _rounded(numbers: list[int]) -> bool:
    """Whether whole numbers that differ are the same as floats: then they are names, and not amounts."""
    large = {number for number in numbers if abs(number) >= EXACT}
    return len({float(number) for number in large}) < len(large)


def _settled(kind: Kind, values: NDArray[Any]) -> Kind:
    """The kind but for columns that say nothing about rows: one value in all, or a count of the rows."""
    if kind not in MODELLED:
        return kind
    present = values[~pd.isna(values)]
    if not len(present):
        return "empty"
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == "number" and len(values) > 20 and bool((np.diff(values) == 1).all()):
            return "identifier"
    return "constant" if bool((present == present[0]).all()) else kind


def _strings(column: pd.Series[Any]) -> NDArray[Any]:
    missing = column.isna().to_numpy(bool)
    words = np.full(len(column), None, dtype=object)
    words[~missing] = [str(value) for value in column[~missing].tolist()]
    return words


def _as_numbers(*words: str) -> list[float]:
    return [float(number) for number in pd.to_numeric(pd.Series(words, dtype=object), errors="coerce").dropna()]
