"""Rows in blocks elsewhere: columns are read where they are, and only sums over them come back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from likely._rows.blocks import CACHED_NUMBERS, Rows, added, row_blocks, summed
from likely._rows.sources import Source

T = TypeVar("T")
Prepare = Callable[..., tuple["Rows | Tensor", ...]]


class Place(NamedTuple):
    """Some rows of one block: the index of a column elsewhere, as slices are of columns in memory."""

    parts: tuple[Rows | Tensor, ...]  # the columns of the block
    rows: slice


class Table:
    """A source whose blocks are converted to columns."""

    def __init__(self, source: Source, prepare: Prepare, sizes: list[int], names: list[str] | None = None) -> None:
        self.source, self.prepare, self.sizes, self.names = source, prepare, sizes, names
        self._samples: dict[int, tuple[Rows | Tensor, ...]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {}  # functions that are sent to the blocks refer to columns; the table itself stays here

    def every(self, stride: int) -> tuple[Rows | Tensor, ...]:
        """Return the columns of every ``stride``-th row, in memory."""
        if stride not in self._samples:
            starts = [0, *np.cumsum(self.sizes[:-1]).tolist()]
            parts = list(self.source.each(_Thinned(self.prepare, stride), starts))
            self._samples[stride] = tuple(_joined(column) for column in zip(*parts, strict=True))
        return self._samples[stride]


class SourceRows(Rows):
    """A column of a table that is elsewhere: labels, weights, or rows of several numbers.

    It replaces an array or :class:`Rows` wherever these are only indexed by the places of :meth:`total`, or by a slice
    with a step over all rows.
    """

    elsewhere = True

    def __init__(self, table: Table, part: int, shape: tuple[int, ...]) -> None:
        self.table, self.part, self.shape = table, part, shape
        self.device = torch.device("cpu")

    def __getitem__(self, rows: Any) -> Tensor:
        if isinstance(rows, Place):
            return rows.parts[self.part][rows.rows]
        if not isinstance(rows, slice) or rows.start not in (0, None) or (rows.stop or len(self)) < len(self):
            raise TypeError("rows of a table in blocks cannot be picked: fit on some of them, in memory")
        return self.table.every(rows.step or 1)[self.part][slice(None)]

    def blocks(self, stride: int = 1, width: int | None = None, numbers: int | None = None) -> Iterator[slice]:
        """Raise an error: a loop over blocks would copy all of them to this process."""
        raise TypeError("this calibrator reads its rows one after the other: fit it on some of them, in memory")

    def total(
        self,
        compute: Callable[[Any], T],
        *,
        stride: int = 1,
        width: int | None = None,
        numbers: int | None = None,
        add: Callable[[T, T], T] | None = None,
    ) -> T:
        """See :meth:`Rows.total`; a sample is summed in this process, all rows where they are."""
        of_block = _OfBlock(self.table.prepare, compute, self.width if width is None else width, numbers, add)
        if stride > 1:
            return of_block.over(self.table.every(stride))
        return self.table.source.total(of_block, _Either(add or added))

    def sum(self) -> float:
        """Return the sum of all numbers."""
        return self._sum

    @functools.cached_property
    def _sum(self) -> float:
        return self.total(lambda rows: float(self[rows].double().sum()))


class _OfBlock:
    """The sum over the rows of one block, in small parts; None for a block without rows."""

    def __init__(
        self, prepare: Prepare, compute: Callable[[Any], Any], width: int, numbers: int | None, add: Any
    ) -> None:
        self.prepare, self.compute, self.width, self.numbers, self.add = prepare, compute, width, numbers, add

    def __call__(self, *block: Any) -> Any:
        return self.over(self.prepare(*block))

    def over(self, parts: tuple[Rows | Tensor, ...]) -> Any:
        blocks = row_blocks(len(parts[0]), self.width, numbers=self.numbers or CACHED_NUMBERS)
        return summed((self.compute(Place(parts, rows)) for rows in blocks), self.add)


class _Either:
    """Adds two sums; None, the sum of a block without rows, counts as zero."""

    def __init__(self, add: Callable[[Any, Any], Any]) -> None:
        self.add = add

    def __call__(self, left: Any, right: Any) -> Any:
        return right if left is None else left if right is None else self.add(left, right)


class _Thinned:
    def __init__(self, prepare: Prepare, stride: int) -> None:
        self.prepare, self.stride = prepare, stride

    def __call__(self, *block: Any) -> tuple[Any, ...]:
        *arrays, start = block
        rows = slice(-start % self.stride, None, self.stride)
        # Copied, because a view would keep the whole block in memory.
        return tuple(
            Rows(part.array[rows].copy()) if isinstance(part, Rows) else part[rows].clone()
            for part in self.prepare(*arrays)
        )


def _joined(parts: tuple[Any, ...]) -> Any:
    if isinstance(parts[0], Rows):
        return Rows(np.concatenate([part.array for part in parts]))
    return torch.cat(parts)
