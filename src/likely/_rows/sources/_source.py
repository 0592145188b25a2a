"""Tables that stay where they are: functions are sent to their blocks, and the results come back."""

from __future__ import annotations

import copy
import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """The result of a function for each row: one number, or several."""

    width: int | None = None
    dtype: Any = np.float64

    @property
    def none(self) -> NDArray[Any]:
        """The result for no rows."""
        return np.empty((0,) if self.width is None else (0, self.width), self.dtype)


class BoundMethod:
    """A method of an estimator in its present state, to be called for blocks later and elsewhere."""

    def __init__(self, method: Callable[..., Any], fitted: Any, answer: Answer) -> None:
        # By name, because pickle cannot find a decorated method; a copy, because the estimator may be fitted again.
        self.method, self.fitted, self.answer = method.__name__, copy.copy(fitted), answer

    def __call__(self, block: Any, **options: Any) -> Any:
        """Return the result of the method for a block, which may have no rows."""
        return getattr(self.fitted, self.method)(block, **options) if len(block) else self.answer.none


class Source(ABC):
    """A table in blocks of rows, which can be read any number of times and is never in memory as a whole.

    A block is a pandas frame or a NumPy array, which estimators accept. Subclasses decide where functions are run.
    """

    names: list[str] | None = None  # of the columns; None of an array

    @abstractmethod
    def each(self, compute: Callable[..., T], *beside: Sequence[Any]) -> Iterator[T]:
        """Yield ``compute(block, …)`` of every block, in the order of the rows."""

    @abstractmethod
    def map_rows(self, compute: Callable[..., Any], answer: Answer) -> Any:
        """Return the results of ``compute`` for all rows, in the table's own kind of array or frame."""

    @abstractmethod
    def with_columns(self, other: Any) -> Source:
        """Return a source whose blocks have one further argument: the same rows of another table or array."""

    def total(self, compute: Callable[..., T], add: Callable[[T, T], T] = operator.add) -> T:
        """Return the sum of ``compute(block, …)`` over all blocks."""
        parts = self.each(compute)
        return functools.reduce(add, parts, self._first(parts))

    @functools.cached_property
    def sizes(self) -> list[int]:
        """The number of rows of each block."""
        return list(self.each(_size))

    @property
    def width(self) -> int:
        """The number of columns of the table."""
        return len(self.names) if self.names is not None else next(iter(self.each(_width)))

    @property
    def paths(self) -> list[str]:
        """The local files of the table, if any."""
        return []

    @property
    def starts(self) -> list[int]:
        """The number of the first row of each block."""
        return [0, *np.cumsum(self.sizes[:-1]).tolist()]

    def __len__(self) -> int:
        return sum(self.sizes)

    def sample(self, stride: int) -> tuple[Any, ...]:
        """Return one of every ``stride`` rows, by :func:`drawn`, in memory: the table and its further arguments."""
        return self._joined(functools.partial(_picked, drawn, stride))

    def every(self, stride: int) -> tuple[Any, ...]:
        """Return every ``stride``-th row, in memory: of the table and its further arguments."""
        return self._joined(functools.partial(_picked, _regular, stride))

    def _joined(self, compute: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
        parts = self.each(compute, self.starts)
        return tuple(joined(part) for part in zip(self._first(parts), *parts, strict=True))

    def _first(self, parts: Iterator[T]) -> T:
        for part in parts:
            return part
        raise ValueError("the table has no rows")


def _size(block: Any, *_: Any) -> int:
    return len(block)


def _width(block: Any, *_: Any) -> int:
    return int(block.shape[1])


def _picked(choose: Callable[..., NDArray[np.int64]], stride: int, *blocks: Any) -> tuple[Any, ...]:
    """Return the chosen rows of some arrays; the last argument is the number of their first row."""
    *parts, start = blocks
    rows = choose(start, len(parts[0]), stride)
    # By an index, because a view would keep the whole block in memory.
    return tuple(part.iloc[rows] if hasattr(part, "iloc") else part[rows] for part in parts)


def _regular(start: int, rows: int, stride: int) -> NDArray[np.int64]:
    return np.arange(-start % stride, rows, stride)


def drawn(start: int, rows: int, stride: int) -> NDArray[np.int64]:
    """Return which of the ``rows`` from ``start`` on are drawn: one of every ``stride`` rows of a table.

    The row is chosen by a hash, as good as at random, so that a pattern in the table, such as every tenth row, is
    represented by its share; but it is the same row however the table is divided into blocks.

    >>> drawn(0, 12, 3), drawn(5, 7, 3) + 5
    (array([ 0,  5,  6, 11]), array([ 5,  6, 11]))
    """
    group = np.arange(start // stride, -(-(start + rows) // stride), dtype=np.uint64)
    mixed = (group + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing: wraps around
    place = (mixed >> np.uint64(32)) % np.uint64(stride)
    rows_drawn = (group * np.uint64(stride) + place).astype(np.int64) - start
    return rows_drawn[(rows_drawn >= 0) & (rows_drawn < rows)]


def joined(parts: Sequence[Any]) -> Any:
    """Concatenate blocks."""
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    return np.concatenate(parts)


def cut(array: Any, sizes: Sequence[int]) -> list[Any]:
    """Split an array into the rows of each block."""
    if len(array) != sum(sizes):
        raise ValueError(f"the table has {sum(sizes):,} rows, and what belongs to it has {len(array):,}")
    ends = np.cumsum(sizes)
    rows = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return [array.iloc[block_rows] if hasattr(array, "iloc") else np.asarray(array[block_rows]) for block_rows in rows]
