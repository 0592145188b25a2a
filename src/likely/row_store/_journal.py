"""The journal PATH.undo: the content of changed rows when they were last saved, to undo unsaved changes.

The identity of the table precedes the first entry. All identities begin with the same bytes, so that another file is
not mistaken for a journal.
"""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 2**24  # bytes per chunk
_MARK, _LENGTH = b"likely", 16


def new_identity() -> bytes:
    """Return the identity of a new table."""
    return _MARK + secrets.token_bytes(_LENGTH - len(_MARK))


def check_journal(path: Path, descriptor: int) -> None:
    """Raise an error for a file that is not a journal, because it would be emptied."""
    head = os.pread(descriptor, len(_MARK), 0)
    if not _MARK.startswith(head):
        raise ValueError(f"{path} is there and is no journal of a table: move it, or name the table otherwise")


class Journal:
    """The old content of rows changed since the last save of the table ``identity``, once per row."""

    def __init__(self, path: Path, descriptor: int, identity: bytes, n: int, record: int) -> None:
        self.path, self.descriptor, self._head, self._n = path, descriptor, identity, n
        self.entry = np.dtype([("row", "<i8"), ("old", f"V{record}")])
        self._applies = (
            os.pread(descriptor, _LENGTH, 0) == identity
        )  # otherwise it belongs to an earlier table of the same name
        self._begin()

    def _begin(self) -> None:
        self._end = 0
        self._noted = np.zeros(self._n // 8 + 1, dtype=np.uint8)  # one bit per row; memory is used only as rows change

    def entries(self) -> Iterator[NDArray[Any]]:
        """Iterate over rows and their old contents, in chunks; an incomplete entry is of a row that did not change."""
        size, step = os.fstat(self.descriptor).st_size, self.entry.itemsize * max(1, CHUNK // self.entry.itemsize)
        for position in range(len(self._head), size if self._applies else 0, step):
            raw = os.pread(self.descriptor, step, position)
            entries = np.frombuffer(raw[: len(raw) // self.entry.itemsize * self.entry.itemsize], dtype=self.entry)
            if ((entries["row"] < 0) | (entries["row"] >= self._n)).any():
                raise ValueError(f"{self.path} is damaged: without it rows stay as they were when the process died")
            yield entries

    def fresh(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the positions of rows that are not in the journal since the last save."""
        byte, bit = _places(rows)
        return np.flatnonzero(self._noted[byte] & bit == 0)

    def note(self, rows: NDArray[Any], old: bytes) -> None:
        """Append new rows with their contents: all of them or, on a full disk, none."""
        entries = np.empty(len(rows), dtype=self.entry)
        entries["row"], entries["old"] = rows, np.frombuffer(old, dtype=self.entry["old"])
        view, position = memoryview((b"" if self._end else self._head) + entries.tobytes()), self._end
        try:
            while view:
                count = os.pwrite(self.descriptor, view, position)
                view, position = view[count:], position + count
        except OSError as error:
            os.ftruncate(self.descriptor, self._end)
            raise OSError(error.errno, f"a row was not changed: {error.strerror}", str(self.path)) from error
        self._end = position
        byte, bit = _places(rows)
        np.bitwise_or.at(self._noted, byte, bit)

    def clear(self) -> None:
        """Empty the journal: the present rows are saved."""
        try:
            os.ftruncate(self.descriptor, 0)  # from this moment the rows are saved
            os.fsync(self.descriptor)
        finally:  # even if interrupted, the state follows the file
            if os.fstat(self.descriptor).st_size == 0:
                self._begin()


def _places(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    return rows >> 3, np.left_shift(1, rows & 7).astype(np.uint8)
