"""What is known of every row of a long table by sums: rows, gaps, ranges, and which columns never change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from likely._page import Table
from likely.auditing._finding import number

_SHOWN = 60  # columns that the table of the page lists


@dataclass(frozen=True)
class ColumnSums:
    """What a column holds."""

    gaps: int
    infinite: int
    low: float
    high: float
    only: Any
    same: bool

    def __add__(self, other: ColumnSums) -> ColumnSums:
        low, high = (float(end) for end in (np.fmin(self.low, other.low), np.fmax(self.high, other.high)))
        alike = self.only is None or other.only is None or self.only == other.only
        same = self.same and other.same and alike and not low < high
        only = other.only if self.only is None else self.only
        return ColumnSums(self.gaps + other.gaps, self.infinite + other.infinite, low, high, only, same)


@dataclass(frozen=True)
class Sums:
    """The same of all columns, and the number of rows."""

    rows: int
    columns: dict[str, ColumnSums]

    def __add__(self, other: Sums) -> Sums:
        both = {name: column + other.columns[name] for name, column in self.columns.items()}
        return Sums(self.rows + other.rows, both or other.columns)

    @classmethod
    def of(cls, block: pd.DataFrame) -> Sums:
        """Of a block.

        >>> Sums.of(pd.DataFrame({"a": [1.0, None], "b": ["x", "x"]})).columns["b"].same
        True
        """
        return cls(len(block), {str(name): _column(block[name]) for name in block.columns})

    @property
    def constant(self) -> list[str]:
        """Columns with one value in all rows, or none."""
        return [name for name, column in self.columns.items() if column.same]

    @property
    def gaps(self) -> dict[str, int]:
        """How many values each column lacks, of those that lack some."""
        return {name: column.gaps for name, column in self.columns.items() if column.gaps}

    def table(self) -> Table:
        """The columns, for the page."""
        shown = dict(list(self.columns.items())[:_SHOWN])
        frame = pd.DataFrame(
            {
                "gaps": [f"{column.gaps:,}" if column.gaps else "" for column in shown.values()],
                "infinite": [f"{column.infinite:,}" if column.infinite else "" for column in shown.values()],
                "lowest": ["" if np.isnan(column.low) else number(column.low) for column in shown.values()],
                "highest": ["" if np.isnan(column.high) else number(column.high) for column in shown.values()],
            },
            index=list(shown),
        )
        frame.index.name = "column"
        more = f", the first {len(shown)} of {len(self.columns):,}" if len(shown) < len(self.columns) else ""
        return Table(
            frame, f"The columns{more}, in all {self.rows:,} rows: gaps, and the lowest and the highest number."
        )


def _column(column: pd.Series[Any]) -> ColumnSums:
    missing = column.isna().to_numpy(bool)
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        values = column.to_numpy(na_value=np.nan) if missing.any() else column.to_numpy()
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (np.nan, np.nan)
        infinite = int(len(values) - len(finite) - missing.sum())
        return ColumnSums(int(missing.sum()), infinite, low, high, None, infinite == 0 and not low < high)
    present = column[~missing]
    only = present.iloc[0] if len(present) else None
    return ColumnSums(int(missing.sum()), 0, np.nan, np.nan, only, only is None or bool((present == only).all()))
