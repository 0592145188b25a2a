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

from likely._typing import Array, Index, Mask

_BATCH_ROWS = 1 << 20  # rows that are read at a time


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

        table = pa.table({name: _single(values) for name, values in columns.items()})
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
            for batch in file.iter_batches(_BATCH_ROWS):
                yield start, batch.to_pandas()
                start += batch.num_rows

    def __getstate__(self) -> Any:
        raise TypeError("the scores of a table that was read in blocks are in a file: call save(folder) on the audit")


def _single(values: Any) -> Any:
    return values.astype(np.float32) if getattr(values, "dtype", None) == np.float64 else values


@dataclass
class Worst:
    """The rows with the highest values."""

    most: int
    count: int = 0
    rows: Index = field(default_factory=lambda: np.zeros(0, np.int64))
    values: Array = field(default_factory=lambda: np.zeros((0, 2)))

    def add(self, start: int, there: Mask, far: Array) -> None:
        """Take in the rows of a part that are there, by the first of two values, and of equal ones by the second."""
        new = np.flatnonzero(there)
        self.count += len(new)
        rows = np.concatenate([self.rows, start + new])
        values = np.concatenate([self.values, far[new]])
        order = np.lexsort((rows, -values[:, 1], -values[:, 0]))[: self.most]
        self.rows, self.values = rows[order], values[order]


def first_copies(keys: NDArray[np.uint64]) -> Index:
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
