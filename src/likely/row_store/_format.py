"""The file of a table: a header in JSON, the start of all rows, then the rows. Nothing in it is unpickled.

A row is stored as the xor of its bits with those of the start, so that a row that never changed is a hole in the file.
"""

import json
import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from likely._files import replacing
from likely.row_store._journal import new_identity
from likely.row_store._lock import kept_from_training
from likely.row_store._memory import Pair
from likely.row_store._rule import OPTIMIZERS

MAGIC = b"likely table 1\n"
HEADER = 4096
WORDS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16}
_NAMES = {str(dtype).removeprefix("torch."): dtype for dtype in WORDS}


@dataclass(frozen=True)
class Format:
    """The number, shape and type of the rows, which determine the layout of the file."""

    n: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    has_state: bool
    optimizer: str

    def __post_init__(self) -> None:
        if self.dtype not in WORDS:
            raise ValueError(f"a table in a file has dtype {', '.join(_NAMES)}; got {self.dtype}")

    def __str__(self) -> str:
        state = "with mean squares" if self.has_state else "without mean squares"
        return f"{self.n} rows of shape {self.shape}, {self.dtype}, {state} ({self.optimizer})"

    @property
    def values(self) -> int:
        """The number of values per row."""
        return torch.Size(self.shape).numel()

    @property
    def state_dtype(self) -> torch.dtype:
        """The type of a mean square."""
        return torch.promote_types(self.dtype, torch.float32)

    @cached_property
    def layout(self) -> np.dtype[np.void]:
        """The layout of a record: the words of a row, and its mean square."""
        fields = [("row", f"i{self.dtype.itemsize}", (self.values,)), ("mean_square", f"f{self.state_dtype.itemsize}")]
        return np.dtype(fields[: 1 + self.has_state])

    @property
    def record(self) -> int:
        """The number of bytes of a record."""
        return self.layout.itemsize

    @property
    def size(self) -> int:
        """The number of bytes of the file."""
        return HEADER + (1 + self.n) * self.record

    def position(self, index: Tensor) -> list[int]:
        """Return where rows begin in the file; the start of all rows is before the first."""
        return (HEADER + (index + 1) * self.record).tolist()

    def encode(self, pair: Pair, start: Tensor) -> bytes:
        """Return the bytes of rows, one record per row."""
        rows = pair.rows.to("cpu", self.dtype).reshape(len(pair.rows), self.values).contiguous()
        records = np.empty(len(rows), dtype=self.layout)
        records["row"] = rows.view(WORDS[self.dtype]) ^ start
        if self.has_state:
            records["mean_square"] = pair.mean_square.to("cpu", self.state_dtype)
        return records.tobytes()

    def decode(self, raw: bytes | bytearray, start: Tensor) -> Pair:
        """Return the rows in such bytes."""
        records = np.frombuffer(raw, dtype=self.layout)
        bits = torch.from_numpy(records["row"].copy()) ^ start
        rows = bits.view(self.dtype).view(len(bits), *self.shape)
        if not self.has_state:
            return Pair(rows, torch.empty(0, dtype=self.state_dtype))
        return Pair(rows, torch.from_numpy(records["mean_square"].copy()))

    def create(self, path: Path, start: Tensor, content: Iterable[Pair] = ()) -> None:
        """Write a file that replaces an older table once it is complete."""
        if path.exists():
            read_format(path)  # raises an error for a file that is not a table, which is not replaced
        header = {"rows": self.n, "shape": self.shape, "dtype": str(self.dtype).removeprefix("torch.")}
        header |= {"mean_square": self.has_state, "optimizer": self.optimizer, "id": new_identity().hex()}
        origin = torch.zeros(self.values, dtype=WORDS[self.dtype])
        bits = start.to(self.dtype).reshape(-1).view(WORDS[self.dtype])
        start_record = Pair(start[None], torch.zeros(1))
        try:
            with kept_from_training(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as until_replaced, replacing(path) as temporary:
                with open(temporary, "wb") as file:
                    file.write((MAGIC + json.dumps(header).encode()).ljust(HEADER - 1) + b"\n")
                    file.write(self.encode(start_record, origin))
                    for pair in content:
                        file.write(self.encode(pair, bits))
                    file.truncate(self.size)
                # A process that opened the old file would train in one that is then deleted.
                until_replaced.enter_context(kept_from_training(path))
        except OSError as error:
            message = f"{error.strerror}; the table was not saved, an older one is as it was"
            raise OSError(error.errno, message, str(path)) from error


def read_format(path: Path) -> tuple[Format, bytes]:
    """Return the format and the identity in a file's header; raise an error if it is not a complete table."""
    with open(path, "rb") as file:
        header = file.read(HEADER)
        size = file.seek(0, os.SEEK_END)
    try:
        if not header.startswith(MAGIC):
            raise ValueError("its first bytes differ")
        fields = json.loads(header[len(MAGIC) :])
        form = Format(
            _whole(fields["rows"]),
            tuple(map(_whole, fields["shape"])),
            _NAMES[fields["dtype"]],
            bool(fields["mean_square"]),
            OPTIMIZERS[OPTIMIZERS.index(fields["optimizer"])],  # raises an error for another
        )
        identity, expected = bytes.fromhex(fields["id"]), form.size
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a table that likely wrote ({error}); it was left as it is") from None
    if size != expected:
        raise ValueError(f"{path} has {size} bytes, a table of {form} has {expected}: it was cut off or written over")
    return form, identity


def _whole(number: object) -> int:
    if type(number) is not int:
        raise TypeError(f"{number!r} is not a whole number")
    return number


def check_same_kind(path: Path, expected: Format, actual: Format) -> None:
    """Raise an error for a table of another kind: optimizers cannot use each other's mean squares."""
    if actual != expected:
        raise ValueError(
            f"the table in {path} has {actual}; expected {expected}: use the options it was made with, or another file"
        )
