"""A table whose rows are updated during the backward pass, in memory or in a file."""

import glob
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from likely._validation import check_index, may_look, transformed
from likely.row_store._file import File
from likely.row_store._format import Format
from likely.row_store._memory import Memory, Pair, Store
from likely.row_store._processes import Shard, gathered, processes, watch
from likely.row_store._rule import Rule
from likely.row_store._staging import Staging
from likely.row_store._step import move, rounded, step

_CHUNK = 2**22  # numbers per chunk, where all rows are read


class RowStore(nn.Module):
    r"""A table of unconstrained values whose rows are updated during ``backward``, without an optimizer.

    If an index occurs twice in a batch, its gradients are added before the update. A row whose gradient is not finite
    is not updated. RMSProp and Adagrad store one running mean square per row.

    Args:
        rows: initial values in floating point, shape (n, …). In a file all rows must start equal: pass
            ``row.expand(n, *row.shape)``.
        store: where the rows are: ``"device"`` (the default), with the model, which is fastest; ``"host"``, in the
            memory of the host, from where :class:`LookAhead` fetches them in advance; or the path of a file, created
            if it does not exist, which grows as rows are used.
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

    Raises:
        TypeError: ``rows`` is not a tensor of floating-point numbers.
        ValueError: an option is unknown or out of range, or the file belongs to a table of another kind.

    See Also:
        :class:`~likely.Data`, the parameter that uses it; :class:`LookAhead`.

    >>> import torch
    >>> from likely.row_store import RowStore
    >>> table = RowStore(torch.zeros(4), optimizer="sgd", lr=1.0, clip=None)
    >>> rows = table(torch.tensor([1, 3, 3]))
    >>> (rows * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    >>> table.rows
    tensor([ 0., -1.,  0., -5.])
    """

    step_number: Tensor

    def __init__(
        self,
        rows: Tensor,
        *,
        store: str | os.PathLike[str] = "device",
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
        _check_rows(rows)
        self.rule, self.validate_args = Rule(optimizer, lr, decay, eps, clip, weight_decay), validate_args
        self.n, self.shape, dtype = len(rows), tuple(rows.shape[1:]), dtype or rows.dtype
        self.shard = Shard(self.n) if sharded and processes() > 1 else None
        local = rows[self.shard.rows] if self.shard else rows
        self.store: File | Memory | None = None  # None: in buffers, which move with the model
        # This buffer moves with the model, so that it is on the same device; and it counts steps, for random rounding.
        self.register_buffer("step_number", torch.zeros((), dtype=torch.long), persistent=False)
        if store in ("device", "host"):
            state = local.new_zeros(len(local) if self.rule.has_state else 0)
            memory = Memory(
                local.to(dtype, copy=True).contiguous(), state.to(torch.promote_types(dtype, torch.float32))
            )
            if store == "host":
                self.store = memory
            else:
                self.register_buffer("rows", memory.rows)
                self.register_buffer("mean_square", memory.mean_square)
        else:
            path, form = self._path(store, sharded=sharded), self._kind(len(local), dtype)
            self.store = File(path, form, _common_row(local))
        self.staging = Staging(self.store) if self.store else None
        self._begin()

    @property
    def rows(self) -> Tensor:
        """All rows that this process stores, after the last update; those of a file are read into memory."""
        return self._stored("rows")

    @property
    def mean_square(self) -> Tensor:
        """The running mean squares of the same rows, shape (n,)."""
        return self._stored("mean_square")

    def _stored(self, name: str) -> Tensor:
        self.flush()
        if isinstance(self.store, File):
            return torch.cat([getattr(pair, name) for pair in self.store.all()])
        return self.__getattr__(name) if self.store is None else getattr(self.store, name)  # type: ignore[return-value]

    def chunks(self) -> Iterator[Pair]:
        """Iterate over all rows that this process stores, with their mean squares.

        Yields:
            Pair: consecutive rows and their mean squares.
        """
        self.flush()
        if isinstance(self.store, File):
            yield from self.store.all()
            return
        rows, mean_square = self.rows, self.mean_square
        size = max(1, _CHUNK // max(1, rows[:1].numel()))
        for first in range(0, len(rows), size):
            yield Pair(rows[first : first + size], mean_square[first : first + size])

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
        if not torch.is_grad_enabled() or transformed():
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
        if not isinstance(grad, Tensor) or not grad.is_floating_point():
            kind = grad.dtype if isinstance(grad, Tensor) else type(grad).__name__
            raise TypeError(f"grad must be a tensor of floating-point numbers, got {kind}: call grad.float()")
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
        if not len(index):
            return
        if isinstance(self.store, File):
            self.store.check_writable()
        with self._turn:
            self._move(index, grad)

    def _move(self, index: Tensor, grad: Tensor) -> None:
        store, on_device = self._rows_at_hand(), index.to(grad.device, non_blocking=True)
        if isinstance(store, Memory) and move(self.rule, on_device, store, grad):
            return
        old = store.read(index)
        rows, mean_square = step(self.rule, on_device, old, grad)
        if old.rows.dtype == torch.bfloat16:
            self.step_number += 1
        number = on_device + self.shard.first if self.shard else on_device
        store.write(index, Pair(rounded(rows, old.rows.dtype, number, self.step_number), mean_square), old)

    def prefetch(self, index: Tensor) -> None:
        """Start fetching the rows of a later batch; :class:`LookAhead` calls this.

        Args:
            index: row numbers, shape (batch,).
        """
        if self.staging and processes() == 1:
            self.staging.device = self.step_number.device
            self.staging.prefetch(check_index(index, self.n, self.validate_args))

    def drop_prefetched(self) -> None:
        """Discard rows that were fetched for batches that were not used."""
        if self.staging:
            self.staging.drop_prefetched()

    def flush(self) -> None:
        """Wait for rows that are still being written; reading :attr:`rows` and saving do so too."""
        if self.staging:
            self.staging.flush()

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Save all rows and mean squares, at once or not at all.

        A table in a file is saved in place: it returns to this state if the process is killed and the file is opened
        again. Other tables are written to ``path``; an older table there is replaced once the new one is complete.

        Args:
            path: file to write, for a table in memory; None (the default) for a table in a file.

        Raises:
            ValueError: the path is missing, or the table is in a file already.
        """
        self.flush()
        if isinstance(self.store, File):
            if path is not None:
                raise ValueError(f"this table is stored in {self.store.path}: save() takes no path")
            self.store.save()
        elif path is None:
            raise ValueError("a table in memory needs a path: save(path)")
        elif self.shard or processes() == 1 or dist.get_rank() == 0:  # one of equal copies will do
            self._format().create(self._file_of_process(path), torch.zeros(self.shape), self.chunks())

    @torch.no_grad()
    def load(self, path: str | os.PathLike[str]) -> None:
        """Read what :meth:`save` wrote; size, dtype and optimizer must be the same.

        Args:
            path: file that :meth:`save` wrote.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: this table is itself in a file, or the saved table is of another kind.
        """
        if isinstance(self.store, File):
            raise ValueError(f"this table is stored in {self.store.path}, which was read when the table was created")
        rows, mean_square, file, first = self.rows, self.mean_square, self._file_of_process(path), 0
        if not file.exists():
            raise FileNotFoundError(f"there is no table {file}")
        saved = File(file, self._format(), torch.zeros(self.shape), read_only=True)
        for pair in saved.all():
            last = first + len(pair.rows)
            rows[first:last], mean_square[first:last] = pair
            first = last
        saved.close()
        if self.staging:
            self.staging.forget()

    def close(self) -> None:
        """Close the file, so that another table may open it; updates that were not saved are lost."""
        self.flush()
        if isinstance(self.store, File):
            self.store.close()

    def _checked(self, index: Tensor) -> Tensor:
        index = check_index(index, self.n, self.validate_args)
        unseen = index.is_cuda and not may_look(index, self.validate_args)
        if self.staging is None or self.shard:
            index = index.to(self.step_number.device, non_blocking=True)
        else:
            index = index.detach()  # a new tensor, because staged rows are held as long as it exists
        if unseen:
            # A wrong index stops the program on the device; checking it here would make the host wait.
            valid = (index.clamp(0, self.n - 1) == index).all()
            torch._assert_async(valid, f"an index lies outside the {self.n} rows of a table: Data(n) too small?")
        return index

    def _read(self, index: Tensor) -> Tensor:
        store = self._rows_at_hand()
        rows = store.rows.index_select(0, index) if isinstance(store, Memory) else store.read(index).rows
        return rows.to(torch.promote_types(rows.dtype, torch.float32))

    def _rows_at_hand(self) -> Store:
        if self.staging is None:
            return Memory(self._buffers["rows"], self._buffers["mean_square"])  # type: ignore[arg-type]
        self.staging.device = self.step_number.device
        return self.staging

    def _format(self) -> Format:
        return self._kind(len(self.rows), self.rows.dtype)

    def _kind(self, n: int, dtype: torch.dtype) -> Format:
        return Format(n, self.shape, dtype, self.rule.has_state, self.rule.optimizer)

    def _path(self, store: str | os.PathLike[str], *, sharded: bool) -> Path:
        """Return the file of this process; raise an error if other files are from another number of processes."""
        if isinstance(store, str) and not {os.sep, "."} & set(store):
            raise ValueError(f"store must be 'device', 'host' or a path such as 'rows.table', got {store!r}")
        if processes() > 1 and not sharded:
            raise ValueError("a table in a file has one owner: with several processes use sharded=True")
        file, path, ending = self._file_of_process(store), Path(store), f"-of-{processes()}"
        parts = path.parent.glob(f"{glob.escape(path.name)}.*-of-*[0-9]")
        other_files = sorted(p.name for p in (path, *parts) if p.exists() and not p.name.endswith(ending))
        if other_files and not file.exists():
            raise ValueError(
                f"there is no {file.name}, but {', '.join(other_files)}: start as many processes as made them"
            )
        return file

    def _file_of_process(self, path: str | os.PathLike[str]) -> Path:
        return Path(f"{os.fspath(path)}.{self.shard.rank}-of-{self.shard.world}" if self.shard else path)

    def __getstate__(self) -> dict[str, Any]:
        self.flush()
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._begin()

    def _begin(self) -> None:
        self._turn = threading.Lock()  # a step reads and writes rows, so a second thread must wait
        watch(self)

    def before_fork(self) -> None:
        """Wait for rows that are being read or written."""
        if self.staging:
            self.staging.wait()

    def in_child(self) -> None:
        """Create a lock and a thread for this process."""
        self._turn = threading.Lock()
        if self.staging:
            self.staging.begin()

    @contextmanager
    def _as_buffers(self) -> Iterator[None]:
        """Make rows on the host buffers while a state_dict is written or read; otherwise they would move."""
        self.flush()
        if not isinstance(self.store, Memory) or self.staging is None:
            yield
            return
        self._buffers.update(self.store._asdict())
        try:
            yield
        finally:
            rows, mean_square = (self._buffers.pop(name) for name in ("rows", "mean_square"))
            self.store = self.staging.store = Memory(rows, mean_square)  # type: ignore[arg-type]

    def _save_to_state_dict(self, *arguments: Any) -> None:
        with self._as_buffers():
            super()._save_to_state_dict(*arguments)

    def _load_from_state_dict(self, *arguments: Any) -> None:
        with self._as_buffers():
            super()._load_from_state_dict(*arguments)
        if self.staging:
            self.staging.forget()

    def extra_repr(self) -> str:
        """Show shape and optimizer in ``repr``.

        Returns:
            The shape and ``name=value`` pairs, separated by commas.
        """
        path = self.store.path if isinstance(self.store, File) else "host" if self.store else None
        where = f", store={str(path)!r}" if path else ""
        return f"{(self.n, *self.shape)}, optimizer={self.rule.optimizer!r}, lr={self.rule.lr:g}{where}"


def _check_rows(rows: Tensor) -> None:
    if not isinstance(rows, Tensor) or not rows.is_floating_point():
        kind = rows.dtype if isinstance(rows, Tensor) else type(rows).__name__
        raise TypeError(f"rows must be a tensor of floating-point numbers, got {kind}: call rows.float()")
    if not rows.ndim:
        raise ValueError("rows must have a first dimension, the rows; got a single number: pass row.expand(n)")


def _common_row(rows: Tensor) -> Tensor:
    """Return the row that all rows equal, according to the strides."""
    if len(rows) > 1 and rows.stride(0) != 0:
        raise ValueError("the rows of a table in a file must start equal: pass row.expand(n, *row.shape)")
    return rows[0] if len(rows) else rows.new_zeros(rows.shape[1:])
