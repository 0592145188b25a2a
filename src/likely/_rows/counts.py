"""Weights of rows in blocks: what each counts for is decided by all of them."""

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
    """What :func:`~likely._rows.checks.row_counts` has to know of all weights, of blocks that can be added up."""

    rows: int
    positive: int  # rows of a weight above zero
    whole: bool  # whether all weights are whole numbers
    largest: float
    share: float  # sum of the weights over the largest

    @classmethod
    def of(cls, weight: Array) -> RowCounts:
        """Return what has to be known of the weights of a block, which are finite and ≥ 0."""
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
        """Warn of weights that may have been meant otherwise, and return these counts.

        Returns:
            The object itself.

        Raises:
            ValueError: all weights are zero.
        """
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
    """Return the rule for the weights of a table in blocks.

    Args:
        source: the table; its weights are the last of what stands beside its blocks.

    Returns:
        The rule, which turns the weights of a block into numbers of rows.

    Raises:
        ValueError: a weight is negative, NaN or infinite, or all are zero.
    """
    return source.total(_of_block).checked()


def block_weight(weight: Any, block: Any) -> Array:
    """Return the weights of a block's rows, checked; here all may be zero."""
    weight = np.asarray(weight)
    if weight.shape == (len(block),) and not weight.astype(np.float64).any():
        return np.zeros(len(block))
    checked = check_sample_weight(weight, block, counts=False)
    assert checked is not None
    return checked


def _of_block(block: Any, *beside: Any) -> RowCounts:
    return RowCounts.of(block_weight(beside[-1], block))
