"""What rows were when they were last saved: PATH.undo, by which a table takes back what was not saved.

The first entry is preceded by the number of the table. All numbers begin alike, so that a file of somebody else is not
taken for a journal.
"""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 2**24  # bytes read at a time
_MARK, _LENGTH = b"likely", 16


def new_identity() -> bytes:
    """A number for a new table."""
    return _MARK + secrets.token_bytes(_LENGTH - len(_MARK))


def check_journal(path: Path, descriptor: int) -> None:
    """Refuse a file of somebody else, which would be emptied."""
    head = os.pread(descriptor, len(_MARK), 0)
    if not _MARK.startswith(head):
        raise ValueError(f"{path} is there and is no journal of a table: move it, or name the table otherwise")


class Journal:
    """The old content of rows changed since the last save of the table ``identity``, a row's once."""

    def __init__(self, path: Path, descriptor: int, identity: bytes, n: int, record: int) -> None:
        self.path, self.descriptor, self._head, self._n = path, descriptor, identity, n
        self.entry = np.dtype([("row", "<i8"), ("old", f"V{record}")])
        self._applies = os.pread(descriptor, _LENGTH, 0) == identity  # else of a table that was here before
        self._begin()

    def _begin(self) -> None:
        self._end = 0
        self._noted = np.zeros(self._n // 8 + 1, dtype=np.uint8)  # a bit per row; memory is taken as rows are seen

    def entries(self) -> Iterator[NDArray[Any]]:
        """Rows and their old contents, some at a time; one cut off in the middle is of a row that did not change."""
        size, step = os.fstat(self.descriptor).st_size, self.entry.itemsize * max(1, CHUNK // self.entry.itemsize)
        for at in range(len(self._head), size if self._applies else 0, step):
            raw = os.pread(self.descriptor, step, at)
            entries = np.frombuffer(raw[: len(raw) // self.entry.itemsize * self.entry.itemsize], dtype=self.entry)
            if ((entries["row"] < 0) | (entries["row"] >= self._n)).any():
                raise ValueError(f"{self.path} is damaged: without it rows stay as they were when the process died")
            yield entries

    def fresh(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Places of rows that were not noted since the last save."""
        byte, bit = _places(rows)
        return np.flatnonzero(self._noted[byte] & bit == 0)

    def note(self, rows: NDArray[Any], old: bytes) -> None:
        """Append fresh rows with their contents: all of them or, on a full disk, none."""
        entries = np.empty(len(rows), dtype=self.entry)
        entries["row"], entries["old"] = rows, np.frombuffer(old, dtype=self.entry["old"])
        view, at = memoryview((b"" if self._end else self._head) + entries.tobytes()), self._end
        try:
            while view:
                count = os.pwrite(self.descriptor, view, at)
                view, at = view[count:], at + count
        except OSError as error:
            os.ftruncate(self.descriptor, self._end)
            raise OSError(error.errno, f"a row was not changed: {error.strerror}", str(self.path)) from error
        self._end = at
        byte, bit = _places(rows)
        np.bitwise_or.at(self._noted, byte, bit)

    def clear(self) -> None:
        """Forget all: rows are as they shall be."""
        try:
            os.ftruncate(self.descriptor, 0)  # this is the moment
            os.fsync(self.descriptor)
        finally:  # interrupted or not, what is remembered is what the file says
            if os.fstat(self.descriptor).st_size == 0:
                self._begin()


def _places(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    return rows >> 3, np.left_shift(1, rows & 7).astype(np.uint8)
