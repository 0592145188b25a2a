"""Blocks of rows: how a table that may be larger than memory is read."""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.utils import _safe_indexing

from likely._typing import Array, Index

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
CACHED_NUMBERS = 2**18  # per block: 1 MB in float32, which fits in the cache and bounds the memory


def row_blocks(rows: int, width: int = 1, *, numbers: int = 2**20, least: int = 1, stride: int = 1) -> Iterator[slice]:
    """Yield slices that cover the rows."""
    step = stride * max(least, numbers // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows), stride)


class Rows:
    """A table of any kind and float type, on any device or disk, read in blocks and in at least float32."""

    computed: tuple[Callable[[Any, Tensor], Tensor], ...] = ()  # functions of rows, applied as these are read

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = tuple(array.shape)
        import torch

        self.device = array.device if isinstance(array, torch.Tensor) else torch.device("cpu")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Index) -> Tensor:
        import torch

        if isinstance(self.array, torch.Tensor):
            block = self.array[rows].detach()
        else:
            part = np.asarray(_safe_indexing(self.array, rows))
            # torch warns of read-only memory and refuses to go backwards: such a block is copied.
            copied = not part.flags.writeable or min(part.strides) < 0
            block = torch.from_numpy(np.array(part, copy=copied or None, order="C"))
        block = block.to(torch.promote_types(block.dtype, torch.float32))
        for compute in self.computed:
            block = compute(rows, block)
        return block

    @property
    def width(self) -> int:
        """The number of values per row."""
        return math.prod(self.shape[1:])

    def blocks(self, stride: int = 1, width: int | None = None, numbers: int | None = None) -> Iterator[slice]:
        """Yield slices that cover every ``stride``-th row."""
        width = self.width if width is None else width
        return row_blocks(len(self), width, numbers=numbers or CACHED_NUMBERS, stride=stride)

    def total(self, compute: Callable[[Any], T], *, add: Callable[[T, T], T] | None = None, **how: int) -> T:
        """Return the sum of a function over all :meth:`blocks`, computed in place in the first."""
        return functools.reduce(add or _into, map(compute, self.blocks(**how)))

    def read(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the slice of rows of each block, and its numbers."""
        return ((rows, self[rows]) for rows in self.blocks())

    def whole(self) -> Tensor:
        """Return all rows at once."""
        return self[slice(None)]

    def mapped(self, compute: Callable[[Any, Tensor], Tensor], width: int | None = None) -> Rows:
        """Return rows that are computed from these as they are read."""
        mapped = copy.copy(self)
        mapped.computed = (*self.computed, compute)
        mapped.shape = self.shape if width is None else (len(self), width)
        return mapped


def _into(left: Any, right: Any) -> Any:
    return tuple(map(_into, left, right)) if isinstance(left, tuple) else operator.iadd(left, right)


def like(result: Tensor, reference: Any) -> Any:
    """Return a tensor for a tensor, a NumPy array for everything else."""
    return result if hasattr(reference, "detach") else result.cpu().numpy()


def moments(features: Rows, weight: Array) -> tuple[Array, Array]:
    """Return the weighted mean and deviation of every feature; 1 for the deviation of a constant."""
    total = float(weight.sum())

    def numbers(rows: Any) -> Array:
        return np.asarray(features[rows].double().cpu().numpy())

    def average(part: Callable[[Array], Array]) -> Array:
        return features.total(lambda rows: np.asarray(weight[rows]) @ part(numbers(rows)) / total)

    first = numbers(slice(0, 1))[0]
    with np.errstate(over="ignore"):  # a deviation of ∞ leaves the feature without effect
        mean = first + average(lambda x: x - first)  # exact, so that a constant less its mean is zero
        deviation = np.sqrt(average(lambda x: (x - mean) ** 2))
    return mean, np.where(deviation > 1e-7 * np.abs(mean), deviation, 1.0)
