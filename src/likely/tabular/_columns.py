"""The columns of a table as numbers: categories as codes, dates as days and phases, gaps as NaN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from likely._rows.columns import as_codes, as_numbers, each_column, is_frame, level_codes
from likely._typing import Array

LEVELS = 254  # that are told apart: scikit-learn's trees know no more
PERIODS = (365.2425, 7.0, 1.0)  # days of a year, a week, a day


@dataclass(frozen=True)
class Numbers:
    """A column of numbers."""

    def read(self, column: Any) -> list[Array]:
        """The numbers."""
        return [as_numbers(column)]


@dataclass(frozen=True)
class Dates:
    """A column of times: days, and where in a year, a week and a day they lie."""

    def read(self, column: Any) -> list[Array]:
        """The days and the phases."""
        days = as_numbers(column)
        turns = [days * (2 * np.pi / period) for period in PERIODS]
        return [days, *(wave(turn) for turn in turns for wave in (np.sin, np.cos))]


@dataclass(frozen=True)
class Levels:
    """A column of categories."""

    codes: dict[Any, int]
    ordered: bool

    def read(self, column: Any) -> list[Array]:
        """The code of each row's level, NaN where it is missing or was never met."""
        codes = as_codes(column, self.codes)
        return [np.where(codes < len(self.codes), codes, np.nan)]


@dataclass(frozen=True)
class Columns:
    """How each column of a table is read."""

    kinds: tuple[Numbers | Dates | Levels, ...]

    @classmethod
    def learn(cls, X: Any, weight: Array) -> Self:
        """From the rows that are learned from."""
        return cls(tuple(_kind(column, weight) if is_frame(X) else Numbers() for column in each_column(X)))

    @property
    def sources(self) -> tuple[int, ...]:
        """For each number of a row the column it is read from."""
        widths = [1 + 2 * len(PERIODS) if isinstance(kind, Dates) else 1 for kind in self.kinds]
        return tuple(np.repeat(np.arange(len(widths)), widths).tolist())

    @property
    def categories(self) -> tuple[int, ...]:
        """Which of the numbers of a row are codes without an order."""
        unordered = [isinstance(kind, Levels) and not kind.ordered for kind in self.kinds]
        return tuple(place for place, source in enumerate(self.sources) if unordered[source])

    def __call__(self, X: Any) -> Array:
        """Each row as numbers, of shape (rows, numbers)."""
        read = [part for kind, column in zip(self.kinds, each_column(X), strict=True) for part in kind.read(column)]
        return np.column_stack(read).astype(np.float64, copy=False)


def _kind(column: Any, weight: Array) -> Numbers | Dates | Levels:
    dtype = str(getattr(column, "dtype", "")).lower()
    if dtype.startswith(("date", "timestamp")):
        return Dates()
    found = level_codes(column)
    if found is None:
        return Numbers()
    if getattr(column.dtype, "ordered", False):
        return Levels({level: place for place, level in enumerate(column.dtype.categories)}, ordered=True)
    codes = as_codes(column, found)
    seen = np.isfinite(codes)
    mass = np.bincount(codes[seen].astype(np.intp), weight[seen], minlength=len(found))
    rank = np.empty(len(found), dtype=np.intp)
    rank[np.argsort(-mass, kind="stable")] = np.arange(len(found))  # the commonest first: rare ones share the last
    return Levels({level: min(int(rank[code]), LEVELS - 1) for level, code in found.items()}, ordered=False)
