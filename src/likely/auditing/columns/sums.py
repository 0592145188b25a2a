"""What is known of every row of a long table by sums: rows, gaps, infinities and ranges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from likely._page import Table
from likely.auditing.results.finding import number

_SHOWN = 60  # columns that the table of the page lists


@dataclass(frozen=True)
class Sums:
    """The number of rows and, by column, how many values are missing or infinite, the lowest and the highest.

    >>> blocks = pd.DataFrame({"a": [1.0, None], "b": ["x", "x"]}), pd.DataFrame({"a": [3.0], "b": ["y"]})
    >>> sums = Sums.of(blocks[0]) + Sums.of(blocks[1])
    >>> sums.rows, sums.columns.loc["a"].tolist()
    (3, [1.0, 0.0, 1.0, 3.0])
    """

    rows: int
    columns: pd.DataFrame

    @classmethod
    def of(cls, block: pd.DataFrame) -> Sums:
        """Of a block."""
        numbers = block.select_dtypes("number").astype(np.float64)
        finite = numbers.where(np.isfinite(numbers))
        columns = {"gaps": block.isna().sum(), "infinite": np.isinf(numbers).sum()}
        ends = {"low": finite.min(), "high": finite.max()}
        frame = pd.DataFrame({**columns, **ends}).reindex(block.columns.map(str))
        return cls(len(block), frame.fillna({"gaps": 0, "infinite": 0}))

    def __add__(self, other: Sums) -> Sums:
        ours, theirs = self.columns, other.columns
        both = ours[["gaps", "infinite"]] + theirs[["gaps", "infinite"]]
        low, high = np.fmin(ours["low"], theirs["low"]), np.fmax(ours["high"], theirs["high"])
        return Sums(self.rows + other.rows, both.assign(low=low, high=high))

    @property
    def gaps(self) -> dict[str, int]:
        """How many values each column lacks, of those that lack some."""
        return {str(name): int(count) for name, count in self.columns["gaps"].items() if count}

    def table(self) -> Table:
        """The columns, for the page."""
        shown = self.columns.head(_SHOWN)
        counts = shown[["gaps", "infinite"]].map(lambda count: f"{int(count):,}" if count else "")
        ends = shown[["low", "high"]].map(lambda end: "" if np.isnan(end) else number(end))
        frame = counts.assign(lowest=ends["low"], highest=ends["high"]).rename_axis("column")
        more = f", the first {len(shown)} of {len(self.columns):,}" if len(shown) < len(self.columns) else ""
        return Table(
            frame, f"The columns{more}, in all {self.rows:,} rows: gaps, and the lowest and the highest number."
        )
