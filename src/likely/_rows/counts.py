"""Weights of rows in blocks: all weights together decide how many rows each counts for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from likely._rows.checks import check_sample_weight, warn_of_scale
from likely._rows.sources import Source
from likely._typing import Array


@dataclass(frozen=True)
class RowCounts:
    """Statistics of weights that :func:`~likely._rows.checks.row_counts` needs; those of blocks can be added up."""

    rows: int
    positive: int  # number of rows of positive weight
    whole: bool  # whether all weights are whole numbers
    largest: float
    share: float  # sum of the weights over the largest

    @classmethod
    def of(cls, weight: Array) -> RowCounts:
        """Return the statistics of the weights of a block, which are finite and ≥ 0."""
        largest = float(weight.max(initial=0.0))
        if not largest:
            return cls(len(weight), 0, True, 0.0, 0.0)
        whole = bool((np.abs(weight - np.rint(weight)) <= 1e-12 * weight).all())
        return cls(len(weight), int((weight > 0).sum()), whole, largest, float((weight / largest).sum()))

    def __add__(self, other: RowCounts) -> RowCounts:
        largest = max(self.largest, other.largest)
        parts = [counts.share * (counts.largest / largest) for counts in (self, other) if counts.positive]
        rows, positive = self.rows + other.rows, self.positive + other.positive
        return RowCounts(rows, positive, self.whole and other.whole, largest, math.fsum(parts))

    @property
    def are_counts(self) -> bool:
        """Whether weights are numbers of rows, and not only relative."""
        # Beyond 2⁵³ every float is a whole number, and none is a count.
        return self.whole and self.largest * self.rows < 2.0**53

    def checked(self) -> RowCounts:
        """Warn of weights that may be on the wrong scale, and return these counts."""
        if not self.positive:
            raise ValueError("sample_weight must be not zero everywhere: it must contain at least one non-zero number")
        if not self.are_counts:
            warn_of_scale(self.largest * (self.share / self.positive))
        return self

    def __call__(self, weight: Array) -> Array:
        """Return the number of rows that each row of a block counts for."""
        if self.are_counts:
            return np.rint(weight)
        return weight / self.largest / (self.share / self.positive)


def counts_of(source: Source) -> RowCounts:
    """Return the rule for the weights of a table in blocks."""
    return source.total(_of_block).checked()


def block_weight(weight: Any, block: Any) -> Array:
    """Check and return the weights of a block's rows, which may all be zero."""
    weight = np.asarray(weight)
    if weight.shape == (len(block),) and not weight.astype(np.float64).any():
        return np.zeros(len(block))
    checked = check_sample_weight(weight, block, counts=False)
    assert checked is not None
    return checked


def _of_block(block: Any, *arguments: Any) -> RowCounts:
    return RowCounts.of(block_weight(arguments[-1], block))
