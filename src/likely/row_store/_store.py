"""A table of rows that step by themselves, wherever they are kept."""

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

_CHUNK = 2**22  # numbers looked at a time where all rows are


class RowStore(nn.Module):
    r"""``n`` rows of unconstrained values that step by themselves during ``backward``.

    ``optimizer`` is one of ``"rmsprop"`` (the paper's), ``"adagrad"`` and ``"sgd"``, with ``lr``, ``decay`` and
    ``eps``; the first two keep one running mean square per row. An index that occurs twice in a batch has its
    gradients summed first. The gradient of a row is clipped to the norm ``clip``, and ``weight_decay`` pulls the
    rows seen towards zero. A row whose gradient is not finite does not move.

    ``store`` says where the rows are: ``"device"``, with the model, which is fastest; ``"host"``, in the host's memory,
    from where :class:`LookAhead` fetches them ahead of need; or the path of a file, made if it is not there, which
    takes room as rows are touched and whose rows must begin alike: hand it ``row.expand(n, *row.shape)``. With
    ``dtype=torch.bfloat16`` rows are rounded by chance, so that small steps add up. With ``sharded=True`` each process
    of ``torch.distributed`` keeps its part of the rows; otherwise each keeps them all, and they stay equal.

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
        own = rows[self.shard.rows] if self.shard else rows
        self.store: File | Memory | None = None  # None: in buffers, which move with the model
        # It moves in any case, and so tells where the model is; and it counts, for rounding by chance.
        self.register_buffer("step_number", torch.zeros((), dtype=torch.long), persistent=False)
        if store in ("device", "host"):
            state = own.new_zeros(len(own) if self.rule.has_state else 0)
            kept = Memory(own.to(dtype, copy=True).contiguous(), state.to(torch.promote_types(dtype, torch.float32)))
            if store == "host":
                self.store = kept
            else:
                self.register_buffer("rows", kept.rows)
                self.register_buffer("mean_square", kept.mean_square)
        else:
            path, form = self._path(store, sharded=sharded), self._kind(len(own), dtype)
            self.store = File(path, form, _first(own))
        self.staging = Staging(self.store) if self.store else None
        self._begin()

    @property
    def rows(self) -> Tensor:
        """All rows that this process keeps, after the last step; a file's are read whole."""
        return self._kept("rows")

    @property
    def mean_square(self) -> Tensor:
        """The running mean squares of the same rows."""
        return self._kept("mean_square")

    def _kept(self, name: str) -> Tensor:
        self.flush()
        if isinstance(self.store, File):
            return torch.cat([getattr(pair, name) for pair in self.store.all()])
        return self.__getattr__(name) if self.store is None else getattr(self.store, name)  # type: ignore[return-value]

    def chunks(self) -> Iterator[Pair]:
        """All rows that this process keeps and their mean squares, some at a time."""
        self.flush()
        if isinstance(self.store, File):
            yield from self.store.all()
            return
        rows, mean_square = self.rows, self.mean_square
        size = max(1, _CHUNK // max(1, rows[:1].numel()))
        for first in range(0, len(rows), size):
            yield Pair(rows[first : first + size], mean_square[first : first + size])

    def forward(self, index: Tensor) -> Tensor:
        """The rows of ``index``, which step when a loss made from them is differentiated by ``backward``."""
        index = self._checked(index)
        rows = self.shard.ask(index, self._read) if self.shard else self._read(index)
        # Under torch.func, whose functions are pure, rows are numbers that do not step.
        if not torch.is_grad_enabled() or transformed():
            return rows
        leaf = rows.detach().requires_grad_()
        leaf.register_post_accumulate_grad_hook(lambda rows: self._step(index, rows.grad))
        return leaf

    def step(self, index: Tensor, grad: Tensor) -> None:
        """Move the rows of ``index`` against ``grad``; all others stay as they are, to the bit."""
        index = self._checked(index)
        wanted = (len(index), *self.shape)
        if not isinstance(grad, Tensor) or not grad.is_floating_point():
            kind = grad.dtype if isinstance(grad, Tensor) else type(grad).__name__
            raise TypeError(f"grad must be a tensor of floating-point numbers, got {kind}: call grad.float()")
        if tuple(grad.shape) != wanted:
            raise ValueError(f"grad must have the shape {wanted}, one row for each index, got {tuple(grad.shape)}")
        # At least float32, as backward gives it: eps is zero in half precision.
        self._step(index, grad.to(torch.promote_types(grad.dtype, torch.float32)))

    @torch.no_grad()
    def _step(self, index: Tensor, grad: Tensor) -> None:
        """What was checked when the rows were read is not looked at again."""
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
        store, here = self._rows_at_hand(), index.to(grad.device, non_blocking=True)
        if isinstance(store, Memory) and move(self.rule, here, store, grad):
            return
        old = store.read(index)
        rows, mean_square = step(self.rule, here, old, grad)
        if old.rows.dtype == torch.bfloat16:
            self.step_number += 1
        number = here + self.shard.first if self.shard else here
        store.write(index, Pair(rounded(rows, old.rows.dtype, number, self.step_number), mean_square), old)

    def prefetch(self, index: Tensor) -> None:
        """Begin to fetch the rows of a later batch; :class:`LookAhead` calls this."""
        if self.staging and processes() == 1:
            self.staging.device = self.step_number.device
            self.staging.prefetch(check_index(index, self.n, self.validate_args))

    def drop_prefetched(self) -> None:
        """Forget rows that were fetched for batches which will not come."""
        if self.staging:
            self.staging.drop_prefetched()

    def flush(self) -> None:
        """Wait for rows that are still being written; reading :attr:`rows` and saving do so too."""
        if self.staging:
            self.staging.flush()

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Save all rows and mean squares, at once or not at all.

        A table kept in a file saves in place: that is what it returns to when the process is killed and the file
        is opened again. Others write ``path``, and an older table there stays whole until the new one is complete.
        """
        self.flush()
        if isinstance(self.store, File):
            if path is not None:
                raise ValueError(f"this table is kept in {self.store.path}: save() takes no path")
            self.store.save()
        elif path is None:
            raise ValueError("a table in memory is saved by its path: save(path)")
        elif self.shard or processes() == 1 or dist.get_rank() == 0:  # one of equal copies will do
            self._format().create(self._own(path), torch.zeros(self.shape), self.chunks())

    @torch.no_grad()
    def load(self, path: str | os.PathLike[str]) -> None:
        """Read what :meth:`save` wrote into a table of the same size, kind and optimizer."""
        if isinstance(self.store, File):
            raise ValueError(f"this table is kept in {self.store.path}: what was saved there was read when it was made")
        rows, mean_square, own, first = self.rows, self.mean_square, self._own(path), 0
        if not own.exists():
            raise FileNotFoundError(f"there is no table {own}")
        saved = File(own, self._format(), torch.zeros(self.shape), read_only=True)
        for pair in saved.all():
            last = first + len(pair.rows)
            rows[first:last], mean_square[first:last] = pair
            first = last
        saved.close()
        if self.staging:
            self.staging.forget()

    def close(self) -> None:
        """Let go of a file, so that another table may open it; what was not saved is lost."""
        self.flush()
        if isinstance(self.store, File):
            self.store.close()

    def _checked(self, index: Tensor) -> Tensor:
        index = check_index(index, self.n, self.validate_args)
        unseen = index.is_cuda and not may_look(index, self.validate_args)
        if self.staging is None or self.shard:
            index = index.to(self.step_number.device, non_blocking=True)
        else:
            index = index.detach()  # a tensor of our own, for rows are lent as long as it lives
        if unseen:
            # A wrong index ends the program when the device comes to it; to look here would make the host wait.
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
        """The file of this process; refused where it would begin anew what other processes, or fewer, have begun."""
        if isinstance(store, str) and not {os.sep, "."} & set(store):
            raise ValueError(f"store must be 'device', 'host' or a path such as 'rows.table', got {store!r}")
        if processes() > 1 and not sharded:
            raise ValueError("a table in a file has one owner: with several processes use sharded=True")
        own, path, ours = self._own(store), Path(store), f"-of-{processes()}"
        parts = path.parent.glob(f"{glob.escape(path.name)}.*-of-*[0-9]")
        others = sorted(p.name for p in (path, *parts) if p.exists() and not p.name.endswith(ours))
        if others and not own.exists():
            raise ValueError(f"there is no {own.name}, but {', '.join(others)}: start as many processes as made them")
        return own

    def _own(self, path: str | os.PathLike[str]) -> Path:
        return Path(f"{os.fspath(path)}.{self.shard.rank}-of-{self.shard.world}" if self.shard else path)

    def __getstate__(self) -> dict[str, Any]:
        self.flush()
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._begin()

    def _begin(self) -> None:
        self._turn = threading.Lock()  # a step reads rows and writes them, so of two threads the second waits
        watch(self)

    def before_fork(self) -> None:
        """Wait for rows that are being read or written."""
        if self.staging:
            self.staging.wait()

    def in_child(self) -> None:
        """Take a lock and a thread of this process."""
        self._turn = threading.Lock()
        if self.staging:
            self.staging.begin()

    @contextmanager
    def _as_buffers(self) -> Iterator[None]:
        """Rows on the host, which must not move, are buffers only while a state_dict is made or read."""
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
        """Shape and optimizer, for ``repr``."""
        path = self.store.path if isinstance(self.store, File) else "host" if self.store else None
        where = f", store={str(path)!r}" if path else ""
        return f"{(self.n, *self.shape)}, optimizer={self.rule.optimizer!r}, lr={self.rule.lr:g}{where}"


def _check_rows(rows: Tensor) -> None:
    if not isinstance(rows, Tensor) or not rows.is_floating_point():
        kind = rows.dtype if isinstance(rows, Tensor) else type(rows).__name__
        raise TypeError(f"rows must be a tensor of floating-point numbers, got {kind}: call rows.float()")
    if not rows.ndim:
        raise ValueError("rows must have a first dimension, the rows, got a single number: row.expand(n) has n of them")


def _first(rows: Tensor) -> Tensor:
    """The row that all others equal, as the strides tell."""
    if len(rows) > 1 and rows.stride(0) != 0:
        raise ValueError("the rows of a table in a file begin alike: hand it row.expand(n, *row.shape)")
    return rows[0] if len(rows) else rows.new_zeros(rows.shape[1:])
