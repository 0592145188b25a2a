"""A table whose rows are updated during the backward pass, in memory or in a file.

A step is taken in place by a kernel where there is one, else by the rule's formulas.
"""

import ctypes
import glob
import math
import os
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from likely._kernels import applies
from likely._native import load, typed
from likely._typing import FilePath
from likely._validation import check_floating, check_index, may_look, under_torch_func
from likely.row_store._file import File
from likely.row_store._processes import Shard, gathered, processes
from likely.row_store._rule import Memory, Pair, Rule

CHUNK_VALUES = 2**22  # read at once, where all rows are read
# A step reads and writes rows, so a second thread must wait; one lock for all tables, since locks cannot be pickled.
_STEP_LOCK = threading.Lock()
_NO_MEMORY, _NO_ROW = 1, 2  # errors that rule.cpp returns
# 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9 and 0x94D049BB133111EB, as signed numbers of 64 bits
_GOLDEN, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685


class RowStore(nn.Module):
    r"""A table of unconstrained values whose rows are updated during ``backward``, without an optimizer.

    If an index occurs twice in a batch, its gradients are added before the update. A row whose gradient is not finite
    is not updated. RMSProp and Adagrad store one running mean square per row.

    Args:
        rows: initial values in floating point, shape (n, …). In a file all rows must start equal: pass
            ``row.expand(n, *row.shape)``.
        store: where the rows are: ``"device"`` (the default), with the model, which is fastest; ``"host"``, in the
            memory of the host; or the path of a file, created if it does not exist, which grows as rows are used.
        dtype: floating-point type of the rows; by default (None) that of ``rows``. With ``torch.bfloat16`` updates are
            rounded at random, so that small ones add up.
        sharded: whether each process of :mod:`torch.distributed` stores a part of the rows; by default (``False``) each
            stores all, and they stay equal.
        optimizer: rule of the updates: ``"rmsprop"`` (the default, as in the paper), ``"adagrad"`` or ``"sgd"``.
        lr: learning rate, 0.1 by default.
        decay: decay of RMSProp's running mean square, 0.9 by default.
        eps: added to the root of the mean square, 1e-8 by default.
        clip: largest norm of a row's gradient, 1 by default; None does not clip.
        weight_decay: pull of the updated rows towards zero, 0 by default.
        validate_args: whether indices are checked; by default (None) on the CPU only.

    Attributes:
        rows: all rows that this process stores, after the last update; those of a file are read into memory.
        mean_square: the running mean squares of the same rows, shape (n,); empty with SGD.

    Raises:
        TypeError: ``rows`` is not a tensor of floating-point numbers.
        ValueError: an option is unknown or out of range, or the file belongs to a table of another kind.

    See Also:
        :class:`~likely.Data`, the parameter that uses it.

    >>> import torch
    >>> from likely.row_store import RowStore
    >>> table = RowStore(torch.zeros(4), optimizer="sgd", lr=1.0, clip=None)
    >>> rows = table(torch.tensor([1, 3, 3]))
    >>> (rows * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    >>> table.rows
    tensor([ 0., -1.,  0., -5.])
    """

    rows: Tensor
    mean_square: Tensor
    step_number: Tensor

    def __init__(
        self,
        rows: Tensor,
        *,
        store: FilePath = "device",
        dtype: torch.dtype | None = None,
        sharded: bool = False,
        optimizer: str = "rmsprop",
        lr: float = 0.1,
        decay: float = 0.9,
        eps: float = 1e-8,
        clip: float | None = 1.0,
        weight_decay: float = 0.0,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__()
        check_floating("rows", rows)
        if not rows.ndim:
            raise ValueError("rows must have a first dimension, the rows; got a single number: pass row.expand(n)")
        self.rule, self.validate_args = Rule(optimizer, lr, decay, eps, clip, weight_decay), validate_args
        self.n, self.shape, dtype = len(rows), tuple(rows.shape[1:]), dtype or rows.dtype
        self.shard = Shard(self.n) if sharded and processes() > 1 else None
        local = rows[self.shard.rows] if self.shard else rows
        self.on_host, self.file = store == "host", None
        # This buffer moves with the model, so that it is on the same device; and it counts steps, for random rounding.
        self.register_buffer("step_number", torch.zeros((), dtype=torch.long), persistent=False)
        if store in ("device", "host"):
            state = local.new_zeros(len(local) if self.rule.has_state else 0)
            self.register_buffer("rows", local.to(dtype, copy=True).contiguous())
            self.register_buffer("mean_square", state.to(torch.promote_types(dtype, torch.float32)))
        else:
            state_name = self.rule.optimizer if self.rule.has_state else None
            self.file = File(self._path(store, sharded=sharded), len(local), _common_row(local).to(dtype), state_name)

    def __getattr__(self, name: str) -> Any:
        if name in Pair._fields and (file := self.__dict__.get("file")):
            return torch.cat([getattr(pair, name) for pair in file.chunks()])
        return super().__getattr__(name)

    def _apply(self, *arguments: Any, **options: Any) -> "RowStore":
        """Move the table with the model, but not its rows if they are on the host."""
        rows_on_host = {name: self._buffers.pop(name) for name in Pair._fields if self.on_host}
        super()._apply(*arguments, **options)
        self._buffers.update(rows_on_host)
        return self

    def chunks(self) -> Iterator[Pair]:
        """Iterate over all rows that this process stores, with their mean squares.

        Yields:
            Pair: consecutive rows and their mean squares.
        """
        if self.file:
            yield from self.file.chunks()
            return
        size = max(1, CHUNK_VALUES // max(1, self.rows[:1].numel()))
        for first in range(0, len(self.rows), size):
            yield Pair(self.rows[first : first + size], self.mean_square[first : first + size])

    def forward(self, index: Tensor) -> Tensor:
        """Return the rows of ``index``, which are updated when ``backward`` reaches them.

        Args:
            index: row numbers, shape (batch,).

        Returns:
            The raw values, shape (batch, …), in at least float32.

        Raises:
            ValueError: an index is out of range, on the CPU or under ``validate_args=True``.
        """
        index = self._checked(index)
        rows = self.shard.ask(index, self._read) if self.shard else self._read(index)
        # Under torch.func, whose functions are pure, rows are constants.
        if not torch.is_grad_enabled() or under_torch_func():
            return rows
        leaf = rows.detach().requires_grad_()
        leaf.register_post_accumulate_grad_hook(lambda rows: self._step(index, rows.grad))
        return leaf

    def step(self, index: Tensor, grad: Tensor) -> None:
        """Update the rows of ``index`` by one step of the optimizer; all others are unchanged.

        Args:
            index: row numbers, shape (batch,).
            grad: gradient of these rows in floating point, shape (batch, …).

        Raises:
            TypeError: the gradient is not a tensor of floating-point numbers.
            ValueError: the gradient has another shape, or an index is out of range.
        """
        index = self._checked(index)
        expected_shape = (len(index), *self.shape)
        check_floating("grad", grad)
        if tuple(grad.shape) != expected_shape:
            raise ValueError(
                f"grad must have the shape {expected_shape}, one row for each index, got {tuple(grad.shape)}"
            )
        # At least float32, as backward gives it: eps is zero in half precision.
        self._step(index, grad.to(torch.promote_types(grad.dtype, torch.float32)))

    @torch.no_grad()
    def _step(self, index: Tensor, grad: Tensor) -> None:
        """Update rows whose index was checked before."""
        if self.shard:
            index, grad = self.shard.give(index, grad)
        elif processes() > 1:
            index, grad = gathered(index.to(grad.device), grad)
        if len(index):
            with _STEP_LOCK:
                self._move(index, grad)

    def _move(self, index: Tensor, grad: Tensor) -> None:
        table = self._table()
        index, grad = index.to(table.device, non_blocking=True), grad.to(table.device)
        if isinstance(table, Memory) and move(self.rule, index, table, grad):
            return
        old = table.read(index)
        rows, mean_square = step(self.rule, index, old, grad)
        if old.rows.dtype == torch.bfloat16:
            self.step_number += 1
        number = index + self.shard.first if self.shard else index
        rows = rounded(rows, old.rows.dtype, number, self.step_number.to(table.device))
        table.write(index, Pair(rows, mean_square))

    def flush(self) -> None:
        """Wait until all rows of a file are on the disk; rows in memory are saved by ``state_dict``."""
        if self.file:
            self.file.flush()

    def _checked(self, index: Tensor) -> Tensor:
        index = check_index(index, self.n, True if self.file else self.validate_args)
        unseen = index.is_cuda and not self.file and not may_look(index, self.validate_args)
        index = index.detach().to(self.step_number.device if self.shard else self._table().device, non_blocking=True)
        if unseen:
            # A wrong index stops the program on the device; checking it here would make the host wait.
            valid = (index.clamp(0, self.n - 1) == index).all()
            torch._assert_async(valid, f"an index lies outside the {self.n} rows of a table: Data(n) too small?")
        return index

    def _read(self, index: Tensor) -> Tensor:
        table = self._table()
        index = index.to(table.device)
        rows = table.rows.index_select(0, index) if isinstance(table, Memory) else table.read(index).rows
        return rows.to(self.step_number.device, torch.promote_types(rows.dtype, torch.float32))

    def _table(self) -> Memory | File:
        if self.file:
            return self.file
        return Memory(self._buffers["rows"], self._buffers["mean_square"])  # type: ignore[arg-type]

    def _path(self, store: FilePath, *, sharded: bool) -> Path:
        """Return the file of this process; raise an error if other files are from another number of processes."""
        if isinstance(store, str) and not {os.sep, "."} & set(store):
            raise ValueError(f"store must be 'device', 'host' or a path such as 'rows.table', got {store!r}")
        if processes() > 1 and not sharded:
            raise ValueError("a table in a file has one owner: with several processes use sharded=True")
        path, shard = Path(store), self.shard
        file = Path(f"{path}.{shard.rank}-of-{shard.world}") if shard else path
        parts = path.parent.glob(f"{glob.escape(path.name)}.*-of-*[0-9]")
        other_files = sorted(p.name for p in (path, *parts) if p.exists() and not p.name.endswith(f"-of-{processes()}"))
        if other_files and not file.exists():
            raise ValueError(
                f"there is no {file.name}, but {', '.join(other_files)}: start as many processes as created them"
            )
        return file

    def extra_repr(self) -> str:
        """Show shape and optimizer in ``repr``.

        Returns:
            The shape and ``name=value`` pairs, separated by commas.
        """
        place = str(self.file.path) if self.file else "host" if self.on_host else None
        where = f", store={place!r}" if place else ""
        return f"{(self.n, *self.shape)}, optimizer={self.rule.optimizer!r}, lr={self.rule.lr:g}{where}"


def _common_row(rows: Tensor) -> Tensor:
    """Return the row that all rows equal, according to the strides."""
    if len(rows) > 1 and rows.stride(0) != 0:
        raise ValueError("the rows of a table in a file must start equal: pass row.expand(n, *row.shape)")
    return rows[0] if len(rows) else rows.new_zeros(rows.shape[1:])


def move(rule: Rule, index: Tensor, table: Pair, grad: Tensor) -> bool:
    """Move the rows of ``index`` in place if there is a kernel for it; return whether there is."""
    kernel = _kernel(grad) if table.rows.dtype == grad.dtype and table.rows.is_contiguous() else None
    if kernel:
        kernel(rule, index, grad, table)
    return kernel is not None


def step(rule: Rule, index: Tensor, old: Pair, grad: Tensor) -> Pair:
    """Return rows gathered by ``index`` after a step; ``old`` is overwritten, and equal indices have equal rows."""
    first = first_places(index)
    gathered = Pair(*(tensor.to(grad.dtype) for tensor in old))
    if move(rule, first, gathered, grad):
        return Pair(*(t.index_select(0, first) if len(t) else t for t in gathered))
    return Pair(*rule(*gathered, summed(first, grad)))


def first_places(index: Tensor) -> Tensor:
    """Return the first place of the batch with the same index, for each place.

    Sorting instead of ``unique`` keeps the shapes fixed, so that the host need not wait for a GPU.
    """
    ordered, order = index.sort(stable=True)
    return order[torch.searchsorted(ordered, index)]


def summed(first: Tensor, grad: Tensor) -> Tensor:
    """Return the gradients with those of the same first place added up, in each of their places."""
    return torch.zeros_like(grad).index_add_(0, first, grad).index_select(0, first)


def _kernel(grad: Tensor) -> Callable[[Rule, Tensor, Tensor, Pair], None] | None:
    if grad.dtype != torch.float32 or not applies(grad):
        return None
    if not grad.is_cuda:
        return _move_by_library if library() else None
    from likely.row_store._rule_triton import move as move_by_triton  # where Triton is installed

    return move_by_triton


class _Rule(ctypes.Structure):
    _fields_ = (
        ("optimizer", ctypes.c_int64),
        *((name, ctypes.c_double) for name in ("lr", "new_weight", "eps", "clip", "weight_decay")),
    )


@cache
def library() -> ctypes.CDLL | None:
    """Return the library for this processor, or None."""
    native = load("row_store/rule")
    if native:
        typed(native.likely_move_rows, "qqPPPPPq", ctypes.c_int)
    return native


def _move_by_library(rule: Rule, index: Tensor, grad: Tensor, table: Pair) -> None:
    native = library()
    assert native is not None
    index, grad = index.contiguous(), grad.contiguous()
    clip = math.inf if rule.clip is None else rule.clip
    options = _Rule(rule.number, rule.lr, 1 - rule.decay, rule.eps, clip, rule.weight_decay)
    pointers = (t.data_ptr() for t in (index, grad, *table))
    n = len(table.rows)
    missing = native.likely_move_rows(len(index), grad[0].numel(), *pointers, ctypes.byref(options), n)
    if missing == _NO_MEMORY:
        raise MemoryError(f"no memory for a step of {len(index)} rows")
    if missing == _NO_ROW:
        raise IndexError(f"an index lies outside the {n} rows of a table: Data(n) too small?")


def rounded(rows: Tensor, dtype: torch.dtype, index: Tensor, step: Tensor) -> Tensor:
    """Return the rows in ``dtype``, for bfloat16 by stochastic rounding, whose mean is the exact value.

    So steps smaller than half a unit of bfloat16 are not lost. The random bits depend on the numbers of the row and of
    the step, not on a generator: copies of a table in several processes, or its parts, then round equally, and a row
    that is in a batch twice is rounded in the same way twice.
    """
    if dtype != torch.bfloat16:
        return rows.to(dtype)
    bits = rows.float().view(torch.int32) + _noise(rows, index, step)
    return (bits & -65536).view(torch.float32).to(dtype)


def _noise(rows: Tensor, index: Tensor, step: Tensor) -> Tensor:
    """Return a uniform number of 16 bits per element: splitmix64 of its position and of the step."""
    size = rows[0].numel()
    x = index[:, None] * size + (torch.arange(size, device=index.device) + step * _GOLDEN)
    x = (x ^ (x >> 30)) * _FIRST
    x = (x ^ (x >> 27)) * _SECOND
    return ((x >> 31) & 0xFFFF).int().view_as(rows)
