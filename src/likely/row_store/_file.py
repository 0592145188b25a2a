"""Rows in a file: an array that NumPy can read, whose first record is the start of all rows.

A row is stored as the xor of its bits with those of the start, so that a row that never changed is a hole in the file.
Rows are read and written one by one, not mapped into memory: the pages of a map count as resident memory, 64 KB and
more per row, and on a full disk a map kills the process where a write raises an error.
"""

import os
import weakref
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from likely.row_store._rule import Pair

CHUNK_BYTES = 2**24  # read at once, where all rows are read
_WORDS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16}


class File:
    """Rows that begin as ``start``, in the file ``path``, which is created if it does not exist.

    ``state`` names the optimizer whose mean squares are stored; None stores none.
    """

    device = torch.device("cpu")

    def __init__(self, path: Path, n: int, start: Tensor, state: str | None) -> None:
        if start.dtype not in _WORDS:
            raise ValueError(f"a table in a file has dtype {', '.join(map(str, _WORDS))}; got {start.dtype}")
        self.path, self.n, self._dtype, self._word = path, n, start.dtype, _WORDS[start.dtype]
        self._state_dtype = torch.promote_types(start.dtype, torch.float32)
        # The header of the file names the types, so that a table of another kind is recognised.
        fields = [(str(start.dtype), f"<i{start.dtype.itemsize}", tuple(start.shape))]
        if state is not None:
            fields.append((f"mean square of {state}", f"<f{self._state_dtype.itemsize}", ()))
        self._layout = np.dtype(fields)
        if not path.exists():
            self._create(start)
        self._begin = self._checked_offset()
        self._descriptor = os.open(path, os.O_RDWR)
        weakref.finalize(self, os.close, self._descriptor)
        self._start = torch.zeros_like(start, device="cpu").view(self._word)
        self._start = self.read(torch.tensor([-1])).rows[0].view(self._word)

    def _create(self, start: Tensor) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        records = np.lib.format.open_memmap(self.path, "w+", self._layout, (1 + self.n,))
        records[str(self._dtype)][0] = start.cpu().contiguous().view(self._word).numpy()

    def _checked_offset(self) -> int:
        """Return where the first row begins; raise an error unless the file is a table of this kind."""
        try:
            records = np.lib.format.open_memmap(self.path, mode="r")
        except ValueError as error:
            raise ValueError(f"{self.path} is not a table, or is truncated ({error}); it was left as it is") from None
        if records.dtype != self._layout or records.shape != (1 + self.n,):
            raise ValueError(
                f"the table in {self.path} has {records.size - 1} rows of {records.dtype}; expected {self.n} rows of "
                f"{self._layout}: use the options it was made with, or another file"
            )
        return int(records.offset) + self._layout.itemsize

    def __reduce__(self) -> str:
        raise TypeError(f"a table in a file cannot be copied or pickled: make another, or open {self.path} again")

    def read(self, index: Tensor) -> Pair:
        """Read the rows of ``index``, one by one."""
        size = repeat(self._layout.itemsize)
        return self._decoded(b"".join(map(os.pread, repeat(self._descriptor), size, self._positions(index))))

    def write(self, index: Tensor, new: Pair) -> None:
        """Replace the rows of ``index``; those of an index that occurs twice must be equal."""
        records = np.empty(len(index), self._layout)
        columns = [new.rows.contiguous().view(self._word) ^ self._start, new.mean_square.to(self._state_dtype)]
        for name, column in zip(self._layout.names or (), columns, strict=False):
            records[name] = column
        contents = records.view(f"V{self._layout.itemsize}").tolist()
        for content, position in zip(contents, self._positions(index), strict=True):
            os.pwrite(self._descriptor, content, position)

    def chunks(self) -> Iterator[Pair]:
        """Iterate over all rows; a table without rows has one chunk."""
        size = max(1, CHUNK_BYTES // self._layout.itemsize)
        for first in range(0, max(1, self.n), size):
            (position,) = self._positions(torch.tensor([first]))
            count = min(size, self.n - first)
            yield self._decoded(os.pread(self._descriptor, count * self._layout.itemsize, position))

    def flush(self) -> None:
        """Wait until all rows are on the disk."""
        os.fsync(self._descriptor)

    def _positions(self, index: Tensor) -> list[int]:
        return (self._begin + index * self._layout.itemsize).tolist()

    def _decoded(self, raw: bytes) -> Pair:
        records = np.frombuffer(raw, self._layout)
        words, *state = (torch.from_numpy(records[name].copy()) for name in self._layout.names or ())
        rows = (words ^ self._start).view(self._dtype)
        return Pair(rows, state[0] if state else torch.empty(0, dtype=self._state_dtype))
