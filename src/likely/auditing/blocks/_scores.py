"""The scores of all rows of a long table: in a file that is written as they come, with the highest kept at hand."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._typing import Array

_SOME = 1_000_000  # values that stand for all
_HIGHEST = 100_000  # values that are kept as they are
_BATCH = 1 << 20  # rows that are read at a time


class ScoreFile:
    """Columns of numbers in a temporary Parquet file, which goes when nobody holds it any more."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="likely-scores-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder, "scores.parquet")
        self._writer: Any = None
        self.rows = 0

    def append(self, columns: Mapping[str, Any]) -> None:
        """Write the scores of further rows."""
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.table(dict(columns))
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self.path, table.schema)
        self._writer.write_table(table.cast(self._writer.schema))
        self.rows += len(table)

    def close(self) -> None:
        """End the file: from now on it is read."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def batches(self) -> Iterator[tuple[int, pd.DataFrame]]:
        """Yield the first row of every part of the file, and the part."""
        from pyarrow import parquet

        start = 0
        with parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(_BATCH):
                yield start, batch.to_pandas()
                start += batch.num_rows

    def __getstate__(self) -> Any:
        raise TypeError("the scores of a table that was read in blocks are in a file: call save(folder) on the audit")


@dataclass
class Spread:
    """Values of all rows: the highest as they are, and every so many-th of the others, each for as many.

    >>> spread = Spread(3_000_000)
    >>> for start in range(0, 3_000_000, 1_000_000):
    ...     spread.add(np.arange(start, start + 1_000_000) % 7)
    >>> values, weights = spread.summary()
    >>> round(float(weights.sum())) == 3_000_000, float(values.max())
    (True, 6.0)
    """

    rows: int
    _highest: Array = field(default_factory=lambda: np.zeros(0))
    _others: list[Array] = field(default_factory=list)
    _seen: int = 0

    def add(self, values: Any) -> None:
        """Take in further rows."""
        scores = np.asarray(values, np.float64)
        stride = max(1, self.rows // _SOME)
        self._others.append(scores[-self._seen % stride :: stride])
        self._seen += len(scores)
        both = np.concatenate([self._highest, scores])
        self._highest = np.partition(both, -_HIGHEST)[-_HIGHEST:] if len(both) > _HIGHEST else both

    def summary(self) -> tuple[Array, Array]:
        """Values, and of how many rows each is."""
        others = np.concatenate([np.zeros(0), *self._others])
        others = others[others < self._highest.min()] if len(self._highest) < self._seen else others[:0]
        left = self._seen - len(self._highest)
        weight = np.full(len(others), left / max(1, len(others)))
        if left and not len(others):  # all others equal the lowest of the highest
            others, weight = self._highest.min(keepdims=True), np.array([float(left)])
        return np.concatenate([self._highest, others]), np.concatenate([np.ones(len(self._highest)), weight])


@dataclass
class Worst:
    """The rows with the highest values."""

    most: int
    count: int = 0
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    values: Array = field(default_factory=lambda: np.zeros((0, 2)))

    def add(self, start: int, there: NDArray[np.bool_], first: Any, second: Any) -> None:
        """Take in the rows of a part that are there, by a value, and where that is the same by another."""
        new = np.flatnonzero(there)
        self.count += len(new)
        rows = np.concatenate([self.rows, start + new])
        values = np.concatenate([self.values, np.column_stack([np.asarray(first)[new], np.asarray(second)[new]])])
        order = np.lexsort((rows, -values[:, 1], -values[:, 0]))[: self.most]
        self.rows, self.values = rows[order], values[order]


def first_copies(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each row the first row with the same key; -1 if it is the first itself.

    >>> first_copies(np.array([5, 9, 5], np.uint64)).tolist()
    [-1, -1, 0]
    """
    order = np.argsort(keys, kind="stable")
    begins = np.flatnonzero(np.append(True, keys[order][1:] != keys[order][:-1]))
    leader = order[np.repeat(begins, np.diff(np.append(begins, len(keys))))]
    of = np.full(len(keys), -1)
    copies = leader != order
    of[order[copies]] = leader[copies]
    return of
