"""Blocks of rows: how a table that may be larger than memory is recognised and read."""

from __future__ import annotations

import copy
import functools
import glob
import math
import operator
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.utils import _safe_indexing

from likely._typing import Array, Index, Places

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
CACHED_NUMBERS = 2**18  # per block: 1 MB in float32, which fits in the cache and bounds the memory

ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".feather": "feather", ".arrow": "feather"}


def row_blocks(rows: int, width: int = 1, *, numbers: int = 2**20, least: int = 1, stride: int = 1) -> Iterator[slice]:
    """Yield slices that cover the rows."""
    step = stride * max(least, numbers // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows), stride)


def drawn(start: int, rows: int, stride: int) -> Places:
    """Return which of the ``rows`` from ``start`` on are drawn: one of every ``stride`` rows of a table.

    The row is chosen by a hash, as good as at random, so that a pattern in the table, such as every tenth row, is
    represented by its share; but it is the same row however the table is divided into blocks.

    >>> drawn(0, 12, 3), drawn(5, 7, 3) + 5
    (array([ 0,  5,  6, 11]), array([ 5,  6, 11]))
    """
    group = np.arange(start // stride, -(-(start + rows) // stride), dtype=np.uint64)
    place = ((group + 1) * 0x9E3779B97F4A7C15 >> 32) % stride  # Fibonacci hashing: wraps around
    rows_drawn = (group * stride + place).astype(np.int64) - start
    return rows_drawn[(rows_drawn >= 0) & (rows_drawn < rows)]


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array, frame or series."""
    return hasattr(X, "to_delayed")


def is_files(X: Any) -> bool:
    """Whether X names files."""
    paths = X if isinstance(X, list | tuple) else [X]
    return len(paths) > 0 and all(isinstance(path, str | os.PathLike) for path in paths)


def is_one_file(data: Any) -> bool:
    """Whether data is the path of a single file, even if it does not exist: no folder, no glob, no URL."""
    if not isinstance(data, str | os.PathLike):
        return False
    path = os.fspath(data)
    return "://" not in path and not os.path.isdir(path) and (os.path.exists(path) or not glob.has_magic(path))


def kind_of_file(path: str) -> str | None:
    """Return how a file is stored, by the ending of its name; None for any other ending."""
    return ENDINGS.get(Path(path).suffix.lower())


def names_files(text: str) -> bool:
    """Whether a text can only be a path, glob or URL, and not the name of a column."""
    is_path = "://" in text or os.sep in text or kind_of_file(text) is not None
    return is_path or os.path.isdir(text) or bool(glob.has_magic(text) and glob.glob(text))


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
