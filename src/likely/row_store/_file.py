"""Rows in a file, with a journal from which unsaved changes are undone.

Rows are read and written one by one, not mapped into memory: the pages of a map count as resident memory, with some
kernels megabytes per row, and on a full disk a map kills the process where a write raises an error.

The first time that a row changes after a save, its old content is written to ``PATH.undo``. Saving empties that file;
opening the table restores the rows in it. So a process may be killed at any moment, even while it saves or opens, and
the table is as it was last saved. The journal takes the size of a row plus 8 bytes for each row changed since.
"""

import errno
import mmap
import os
import time
import weakref
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from likely.row_store._format import WORDS, Format, check_same_kind, read_format
from likely.row_store._journal import Journal, check_journal
from likely.row_store._lock import is_at, open_locked, release
from likely.row_store._memory import Pair

_CHUNK = 2**24  # bytes per chunk where all rows are read
_UNFINISHED = 5.0  # seconds that a forked process waits for its parent to finish a write
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


class File:
    """A :class:`Store` whose rows begin as ``start``, in the file ``path``, which is created if it does not exist.

    One process owns the table and may change it. A file that cannot be written to, or that is opened ``read_only``, may
    have any number of readers and is not changed. Processes forked from the owner may read the table.
    """

    def __init__(self, path: str | os.PathLike[str], form: Format, start: Tensor, *, read_only: bool = False) -> None:
        # With links resolved, so that there is one journal, whatever name the table is opened by.
        self.path, self.form, self._owner = Path(os.path.realpath(path)), form, os.getpid()
        self._journal_path = self.path.with_name(f"{self.path.name}.undo")
        self.read_only = read_only or (self.path.exists() and not _writable(self.path))
        self._writing = mmap.mmap(-1, 8)  # odd while rows are written; forked processes see it
        self._closing: list[weakref.finalize[[int, int], File]] = []
        self._table = -1
        try:
            self._open(start)
        except BaseException:
            self.close()
            raise

    def _open(self, start: Tensor) -> None:
        if self.path.exists():
            check_same_kind(self.path, self.form, read_format(self.path)[0])
        elif not self.read_only:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        journal = -1 if self.read_only else self._open_journal()
        if not (self.read_only or self.path.exists()):
            self._create(start, journal)
        flags = os.O_RDONLY if self.read_only else os.O_RDWR
        self._table = self._opened(open_locked(self.path, flags, exclusive=not self.read_only))
        form, identity = read_format(self.path)  # a second time, now that the file is locked
        check_same_kind(self.path, self.form, form)
        if not self.read_only and os.fstat(self._table).st_nlink > 1:
            raise ValueError(f"{self.path} has another name, a hard link, whose rows would change too: train in a copy")
        form = self.form
        bits = os.pread(self._table, form.record, form.position(torch.tensor([-1]))[0])
        origin = torch.zeros(form.values, dtype=WORDS[form.dtype])
        self._start = form.decode(bits, origin).rows.reshape(-1).view(WORDS[form.dtype])
        self._unsaved = np.empty(0, dtype=np.int64)
        if self.read_only:
            journal = self._open_left_journal()
        if journal >= 0:
            self._journal = Journal(self._journal_path, journal, identity, form.n, form.record)
            if self.read_only:
                self._undo_in_memory()
            else:
                check_journal(self._journal_path, journal)
                self._undo()

    def _open_journal(self) -> int:
        """Open the journal of a table that this process owns; if it cannot be written to, the table is read-only."""
        try:
            return self._opened(open_locked(self._journal_path, os.O_RDWR | os.O_CREAT, exclusive=True))
        except OSError as error:
            if error.errno not in _NOT_WRITABLE or not self.path.exists():
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            self.read_only = True
            return -1

    def _open_left_journal(self) -> int:
        """Open the journal that a killed process left, if any; the table is locked, so no other process changes it."""
        try:
            return self._opened(os.open(self._journal_path, os.O_RDONLY))
        except FileNotFoundError:
            return -1

    def _opened(self, descriptor: int) -> int:
        self._closing.append(weakref.finalize(self, release, descriptor, self._owner))
        return descriptor

    def _create(self, start: Tensor, journal: int) -> None:
        check_journal(self._journal_path, journal)
        try:
            self.form.create(self.path, start)
        except BaseException:
            if not os.fstat(journal).st_size:
                self._journal_path.unlink(missing_ok=True)
            raise

    def __reduce__(self) -> str:
        raise TypeError(f"a table in a file cannot be copied or pickled: make another, or open {self.path} again")

    def read(self, index: Tensor) -> Pair:
        """Read the rows of ``index``, one by one."""
        raw = self._read(self._positions(index), self.form.record)
        return self._saved(self.form.decode(raw, self._start), index)

    def write(self, index: Tensor, new: Pair, old: Pair | None = None) -> None:
        """Write the old rows to the journal, unless they are in it since the last save, then change them."""
        self.check_writable()
        self._note(index, self.read(index) if old is None else old)
        records = np.frombuffer(self.form.encode(new, self._start), dtype=self._journal.entry["old"]).tolist()
        self._count_writing()
        try:
            self._write_records(records, self._positions(index))
        finally:
            self._count_writing()

    def check_writable(self) -> None:
        """Raise an error if this process may not change the table."""
        self._check_open()
        if self.read_only:
            message = (
                "the table is open for reading: to train in it, make its file and folder writable and open it again"
            )
            raise PermissionError(errno.EACCES, message, str(self.path))
        if os.getpid() != self._owner:
            raise RuntimeError(
                f"the table in {self.path} belongs to the process that opened it: one forked from it, such as a worker "
                "of a DataLoader, may read its rows, not change or save them"
            )

    def _check_open(self) -> None:
        if self._table < 0:
            raise ValueError(f"the table in {self.path} is closed: open it again")

    def _write_records(self, records: list[bytes], positions: list[int]) -> None:
        written = sum(map(os.pwrite, repeat(self._table), records, positions))
        if written != len(records) * self.form.record:  # the disk is full, and a row was written in part
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def _positions(self, index: Tensor) -> list[int]:
        """Return where rows begin; an index out of range would overwrite the header or lengthen the file."""
        low, high = (int(index.min()), int(index.max())) if len(index) else (0, -1)
        if low < 0 or high >= self.form.n:
            raise IndexError(f"rows {low} to {high} are not all in the table, which has {self.form.n} rows")
        return self.form.position(index)

    def all(self) -> Iterator[Pair]:
        """Iterate over all rows, in chunks."""
        rows = max(1, _CHUNK // self.form.record)
        for first in range(0, max(1, self.form.n), rows):
            count = min(rows, self.form.n - first)
            raw = self._read(self.form.position(torch.tensor([first])), count * self.form.record)
            yield self._saved(self.form.decode(raw, self._start), torch.arange(first, first + count))

    def save(self) -> None:
        """Make the present rows those that a later opening restores."""
        self._check_open()
        if self.read_only:  # no row can have changed
            return
        self.check_writable()
        for descriptor, path in ((self._table, self.path), (self._journal.descriptor, self._journal_path)):
            if not is_at(descriptor, path):
                message = "not saved: the file was removed or replaced while it was open; copy what table.rows gives"
                raise OSError(errno.ESTALE, message, str(path))
        os.fsync(self._table)
        self._journal.clear()

    def close(self) -> None:
        """Close the file, so that others may open it."""
        for close in self._closing:
            close()
        self._table = -1

    def _note(self, index: Tensor, old: Pair) -> None:
        """Write those rows to the journal that are not in it yet."""
        rows = index.numpy()
        fresh = self._journal.fresh(rows)
        if len(fresh):
            places = torch.from_numpy(fresh)
            unchanged = Pair(*(t.index_select(0, places) if len(t) else t for t in old))
            self._journal.note(rows[fresh], self.form.encode(unchanged, self._start))

    def _undo(self) -> None:
        """Undo unsaved changes in the file."""
        for entries in self._journal.entries():
            self._write_records(entries["old"].tolist(), self._positions(torch.from_numpy(entries["row"].copy())))
        self.save()

    def _undo_in_memory(self) -> None:
        """Undo unsaved changes in the rows that are read, not in the file."""
        entries = np.concatenate([np.empty(0, self._journal.entry), *self._journal.entries()])
        self._unsaved, first = np.unique(entries["row"], return_index=True)
        self._before = self.form.decode(entries["old"][first].tobytes(), self._start)

    def _saved(self, pair: Pair, index: Tensor) -> Pair:
        """Replace rows that a killed process had changed by those that were saved."""
        if not len(self._unsaved):
            return pair
        rows = index.numpy()
        nearest = np.searchsorted(self._unsaved, rows).clip(max=len(self._unsaved) - 1)
        hits = np.flatnonzero(self._unsaved[nearest] == rows)
        places, source = torch.from_numpy(hits), torch.from_numpy(nearest[hits])
        for tensor, before in zip(pair, self._before, strict=True):
            if len(tensor):
                tensor[places] = before[source]
        return pair

    def _count_writing(self) -> None:
        number = int.from_bytes(self._writing[:8], "little") + 1
        self._writing[:8] = number.to_bytes(8, "little")

    def _read(self, positions: list[int], size: int) -> bytes:
        """Read bytes from these positions; in a forked process again if its parent wrote meanwhile."""
        self._check_open()
        until = time.monotonic() + _UNFINISHED
        while True:
            before = self._writing[:8]
            raw = b"".join(map(os.pread, repeat(self._table), repeat(size), positions))
            if len(raw) != size * len(positions):
                raise OSError(errno.EIO, "the file was cut off while it was open", str(self.path))
            if os.getpid() == self._owner or (before[0] % 2 == 0 and self._writing[:8] == before):
                return raw
            if time.monotonic() > until:
                raise TimeoutError(f"the process that has the table in {self.path} writes all the time, or died")
            time.sleep(1e-4)


def _writable(path: Path) -> bool:
    """Whether the file is writable and we may write it; root may write any file, so its mode counts too."""
    return bool(path.stat().st_mode & 0o222) and os.access(path, os.W_OK)
