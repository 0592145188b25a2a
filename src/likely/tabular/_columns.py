"""The columns of a table as numbers: categories as codes, dates as days and phases, gaps as NaN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from likely._rows.columns import are_dates, as_codes, as_numbers, each_column, is_frame, level_codes
from likely._typing import Array

PERIODS = (365.2425, 7.0, 1.0)  # days of a year, a week, a day


@dataclass(frozen=True)
class Numbers:
    """A column of numbers."""

    def read(self, column: Any) -> list[Array]:
        """Return the numbers."""
        return [as_numbers(column)]


@dataclass(frozen=True)
class Dates:
    """A column of times: days, and the phase of the year, the week and the day."""

    def read(self, column: Any) -> list[Array]:
        """Return the days, and sine and cosine of each phase."""
        days = as_numbers(column)
        turns = [days * (2 * np.pi / period) for period in PERIODS]
        return [days, *(wave(turn) for turn in turns for wave in (np.sin, np.cos))]


@dataclass(frozen=True)
class LevelCodes:
    """A column of categories."""

    codes: dict[Any, int]
    ordered: bool

    def read(self, column: Any) -> list[Array]:
        """Return the code of each row's level, NaN where it is missing or was not in the training rows."""
        codes = as_codes(column, self.codes)
        return [np.where(codes < len(self.codes), codes, np.nan)]


@dataclass(frozen=True)
class TableColumns:
    """How each column of a table is read."""

    kinds: tuple[Numbers | Dates | LevelCodes, ...]

    @classmethod
    def learn(cls, X: Any, weight: Array) -> Self:
        """Learn the kind of each column from training rows."""
        return cls(tuple(_kind(column, weight) if is_frame(X) else Numbers() for column in each_column(X)))

    @property
    def sources(self) -> tuple[int, ...]:
        """The column that each number of a row is read from."""
        widths = [1 + 2 * len(PERIODS) if isinstance(kind, Dates) else 1 for kind in self.kinds]
        return tuple(np.repeat(np.arange(len(widths)), widths).tolist())

    @property
    def categories(self) -> tuple[int, ...]:
        """The positions, among the numbers of a row, of codes without an order."""
        unordered = [isinstance(kind, LevelCodes) and not kind.ordered for kind in self.kinds]
        return tuple(position for position, source in enumerate(self.sources) if unordered[source])

    def __call__(self, X: Any) -> Array:
        """Convert a table to numbers, of shape (rows, numbers)."""
        read = [part for kind, column in zip(self.kinds, each_column(X), strict=True) for part in kind.read(column)]
        return np.column_stack(read).astype(np.float64, copy=False)


def _kind(column: Any, weight: Array) -> Numbers | Dates | LevelCodes:
    if are_dates(column):
        return Dates()
    level_code = level_codes(column)
    if level_code is None:
        return Numbers()
    if getattr(column.dtype, "ordered", False):
        return LevelCodes({level: position for position, level in enumerate(column.dtype.categories)}, ordered=True)
    codes = as_codes(column, level_code)
    present = np.isfinite(codes)
    mass = np.bincount(codes[present].astype(np.intp), weight[present], minlength=len(level_code))
    rank = np.empty(len(level_code), dtype=np.intp)
    # The most frequent level has the lowest code.
    rank[np.argsort(-mass, kind="stable")] = np.arange(len(level_code))
    return LevelCodes({level: int(rank[code]) for level, code in level_code.items()}, ordered=False)
