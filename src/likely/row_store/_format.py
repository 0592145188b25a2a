"""A table's file: a header in JSON, the start of a row, then the rows. Nothing in it is ever unpickled.

What is stored of a row is its bits xor those of the start: a row never touched is a hole in the file.
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
from likely.row_store._lock import held
from likely.row_store._memory import Pair
from likely.row_store._rule import OPTIMIZERS

MAGIC = b"likely table 1\n"
HEADER = 4096
WORDS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16}
_NAMES = {str(dtype).removeprefix("torch."): dtype for dtype in WORDS}


@dataclass(frozen=True)
class Format:
    """How many rows of which kind, and so how many bytes each."""

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
        """Numbers in a row."""
        return torch.Size(self.shape).numel()

    @property
    def state_dtype(self) -> torch.dtype:
        """That of a mean square."""
        return torch.promote_types(self.dtype, torch.float32)

    @cached_property
    def layout(self) -> np.dtype[np.void]:
        """A row as words and its mean square."""
        fields = [("row", f"i{self.dtype.itemsize}", (self.values,)), ("mean_square", f"f{self.state_dtype.itemsize}")]
        return np.dtype(fields[: 1 + self.has_state])

    @property
    def record(self) -> int:
        """Bytes of a row and its mean square."""
        return self.layout.itemsize

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return HEADER + (1 + self.n) * self.record

    def position(self, index: Tensor) -> list[int]:
        """Where rows begin; the start lies before the first."""
        return (HEADER + (index + 1) * self.record).tolist()

    def encode(self, pair: Pair, start: Tensor) -> bytes:
        """The bytes of rows, a record each."""
        rows = pair.rows.to("cpu", self.dtype).reshape(len(pair.rows), self.values).contiguous()
        records = np.empty(len(rows), dtype=self.layout)
        records["row"] = rows.view(WORDS[self.dtype]) ^ start
        if self.has_state:
            records["mean_square"] = pair.mean_square.to("cpu", self.state_dtype)
        return records.tobytes()

    def decode(self, raw: bytes | bytearray, start: Tensor) -> Pair:
        """The rows of such bytes."""
        records = np.frombuffer(raw, dtype=self.layout)
        bits = torch.from_numpy(records["row"].copy()) ^ start
        rows = bits.view(self.dtype).view(len(bits), *self.shape)
        if not self.has_state:
            return Pair(rows, torch.empty(0, dtype=self.state_dtype))
        return Pair(rows, torch.from_numpy(records["mean_square"].copy()))

    def create(self, path: Path, start: Tensor, content: Iterable[Pair] = ()) -> None:
        """Write a file that appears under its name, in place of an older table, once it is complete."""
        if path.exists():
            read_format(path)  # what is no table stays
        header = {"rows": self.n, "shape": self.shape, "dtype": str(self.dtype).removeprefix("torch.")}
        header |= {"mean_square": self.has_state, "optimizer": self.optimizer, "id": new_identity().hex()}
        origin = torch.zeros(self.values, dtype=WORDS[self.dtype])
        bits = start.to(self.dtype).reshape(-1).view(WORDS[self.dtype])
        first = Pair(start[None], torch.zeros(1))
        try:
            with held(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as until_replaced, replacing(path) as beside:
                with open(beside, "wb") as file:
                    file.write((MAGIC + json.dumps(header).encode()).ljust(HEADER - 1) + b"\n")
                    file.write(self.encode(first, origin))
                    for pair in content:
                        file.write(self.encode(pair, bits))
                    file.truncate(self.size)
                until_replaced.enter_context(held(path))  # who opened it meanwhile would train in a file without name
        except OSError as error:
            said = f"{error.strerror}; the table was not saved, an older one is as it was"
            raise OSError(error.errno, said, str(path)) from error


def read_format(path: Path) -> tuple[Format, bytes]:
    """The format and the identity in a file's header; an error if it is not a complete table."""
    with open(path, "rb") as file:
        header = file.read(HEADER)
        size = file.seek(0, os.SEEK_END)
    try:
        if not header.startswith(MAGIC):
            raise ValueError("it begins otherwise")
        fields = json.loads(header[len(MAGIC) :])
        form = Format(
            _whole(fields["rows"]),
            tuple(map(_whole, fields["shape"])),
            _NAMES[fields["dtype"]],
            bool(fields["mean_square"]),
            OPTIMIZERS[OPTIMIZERS.index(fields["optimizer"])],  # one of them, or it is refused
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
