"""Rows in a file, and a journal that takes back what was not saved.

Rows are read and written one by one, not mapped into memory: the pages that a map brings in count as resident,
with some kernels megabytes for a row, and on a full disk a map kills the process where a write raises an error.

The first time after a save that a row changes, its old content goes to ``PATH.undo``. Saving empties that file;
opening the table puts back what it finds there. So a process may be killed at any moment, while it saves or opens
too, and the table is as it was last saved. A journal costs 8 bytes more than a row for each row changed since.
"""

import errno
import os
import weakref
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from likely.tables._format import WORDS, Format, lock, read_format
from likely.tables._memory import Pair

_CHUNK = 2**24  # bytes read at a time where all rows are


class File:
    """A :class:`Store` whose rows begin as ``start``, in the file ``path``, which is made if it is not there."""

    def __init__(self, path: str | os.PathLike[str], form: Format, start: Tensor) -> None:
        self.path, self.form = Path(path), form
        if not self.path.exists():
            form.create(self.path, start)
        found, identity = read_format(self.path)
        if found != form:
            raise ValueError(f"the table in {path} has {found}; asked for were {form}")
        self._table, self._journal = (os.open(p, os.O_RDWR | os.O_CREAT, 0o644) for p in (path, f"{path}.undo"))
        self._closing = [weakref.finalize(self, os.close, file) for file in (self._table, self._journal)]
        lock(self._table, self.path)
        self._head = identity
        self._entry = np.dtype([("row", "<i8"), ("old", f"V{form.record}")])
        self._take_back()
        bits = os.pread(self._table, form.record, form.position(torch.tensor([-1]))[0])
        origin = torch.zeros(form.values, dtype=WORDS[form.dtype])
        self._start = form.decode(bits, origin).rows.reshape(-1).view(WORDS[form.dtype])

    def __reduce__(self) -> str:
        raise TypeError(f"a table in a file cannot be copied or pickled: make another, or open {self.path} again")

    def read(self, index: Tensor) -> Pair:
        """The rows of ``index``, a read for each."""
        raw = b"".join(map(os.pread, repeat(self._table), repeat(self.form.record), self._positions(index)))
        return self.form.decode(raw, self._start)

    def write(self, index: Tensor, new: Pair, old: Pair | None = None) -> None:
        """Note what the rows were, unless that was done since the last save, then change them."""
        self._note(index, self.read(index) if old is None else old)
        records = np.frombuffer(self.form.encode(new, self._start), dtype=self._entry["old"]).tolist()
        self._put(records, self._positions(index))

    def _put(self, records: list[bytes], positions: list[int]) -> None:
        written = sum(map(os.pwrite, repeat(self._table), records, positions))
        if written != len(records) * self.form.record:  # the last piece of room took a part of a row
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def _positions(self, index: Tensor) -> list[int]:
        """Where rows begin; a number that is none of them would hit the header or lengthen the file."""
        low, high = (int(index.min()), int(index.max())) if len(index) else (0, -1)
        if low < 0 or high >= self.form.n:
            raise IndexError(f"rows {low} to {high} were asked of a table of {self.form.n} rows")
        return self.form.position(index)

    def all(self) -> Iterator[Pair]:
        """Every row, in chunks."""
        rows = max(1, _CHUNK // self.form.record)
        for first in range(0, max(1, self.form.n), rows):
            count = min(rows, self.form.n - first)
            at = self.form.position(torch.tensor([first]))[0]
            yield self.form.decode(os.pread(self._table, count * self.form.record, at), self._start)

    def save(self) -> None:
        """Make the rows as they are the ones to return to."""
        os.fsync(self._table)
        os.ftruncate(self._journal, 0)  # this is the moment
        os.fsync(self._journal)
        self._begin_journal()

    def close(self) -> None:
        """Let others open it."""
        for close in self._closing:
            close()
        self._table = self._journal = -1

    def _begin_journal(self) -> None:
        self._end = 0
        self._noted = np.zeros(self.form.n // 8 + 1, dtype=np.uint8)  # a bit a row; memory is taken as rows are seen

    def _note(self, index: Tensor, old: Pair) -> None:
        """Append the number and the content of rows that were not noted yet."""
        numbers = index.numpy()
        byte, bit = numbers >> 3, np.left_shift(1, numbers & 7).astype(np.uint8)
        fresh = np.flatnonzero(self._noted[byte] & bit == 0)
        if not len(fresh):
            return
        entries = np.empty(len(fresh), dtype=self._entry)
        entries["row"] = numbers[fresh]
        kept = torch.from_numpy(fresh)
        known = Pair(*(t.index_select(0, kept) if len(t) else t for t in old))
        entries["old"] = np.frombuffer(self.form.encode(known, self._start), dtype=self._entry["old"])
        data = (b"" if self._end else self._head) + entries.tobytes()
        self._append(data)
        np.bitwise_or.at(self._noted, byte[fresh], bit[fresh])

    def _append(self, data: bytes) -> None:
        """All of it, or, on a full disk, nothing."""
        view, at = memoryview(data), self._end
        try:
            while view:
                count = os.pwrite(self._journal, view, at)
                view, at = view[count:], at + count
        except OSError as error:
            os.ftruncate(self._journal, self._end)
            raise OSError(error.errno, f"a row was not changed: {error.strerror}", f"{self.path}.undo") from error
        self._end = at

    def _take_back(self) -> None:
        """Undo what was not saved; a journal cut off in mid-entry ends with rows that did not change yet."""
        entry = self._entry.itemsize
        size = os.fstat(self._journal).st_size
        if os.pread(self._journal, len(self._head), 0) == self._head:  # else of a table that was here before
            step = entry * max(1, _CHUNK // entry)
            for at in range(len(self._head), size, step):
                raw = os.pread(self._journal, step, at)
                found = np.frombuffer(raw[: len(raw) // entry * entry], dtype=self._entry)
                self._put(found["old"].tolist(), self._positions(torch.from_numpy(found["row"].copy())))
        self.save()
