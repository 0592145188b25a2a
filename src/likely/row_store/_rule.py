"""Rows in memory, and a step of the row-wise optimizers: in place by a kernel where there is one, else by formulas."""

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from likely._kernels import _native, applies
from likely._validation import check_not_negative, check_positive

OPTIMIZERS = ("rmsprop", "adagrad", "sgd")


class Pair(NamedTuple):
    """Rows and their running mean squares; with SGD the second is empty."""

    rows: Tensor
    mean_square: Tensor


class Memory(Pair):
    """A tensor of all rows and one of their mean squares."""

    @property
    def device(self) -> torch.device:
        """Where rows are read, moved and written."""
        return self.rows.device

    def read(self, index: Tensor) -> Pair:
        """Gather the rows of ``index``."""
        state = self.mean_square.index_select(0, index) if len(self.mean_square) else self.mean_square
        return Pair(self.rows.index_select(0, index), state)

    def write(self, index: Tensor, new: Pair) -> None:
        """Scatter rows; the rows of an index that occurs twice must be equal."""
        self.rows.index_copy_(0, index, new.rows)
        if len(self.mean_square):
            self.mean_square.index_copy_(0, index, new.mean_square.to(self.mean_square.dtype))


@dataclass
class Rule:
    """A step of RMSProp, Adagrad or SGD with clipping and weight decay."""

    optimizer: str
    lr: float
    decay: float
    eps: float
    clip: float | None
    weight_decay: float

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}; got {self.optimizer!r}")
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay must lie in [0, 1), got {self.decay}")
        for name in ("lr", "eps", "clip"):
            if (value := getattr(self, name)) is not None:
                check_positive(name, value)
        check_not_negative("weight_decay", self.weight_decay)

    @property
    def number(self) -> int:
        """The number of the optimizer in kernels."""
        return OPTIMIZERS.index(self.optimizer)

    @property
    def has_state(self) -> bool:
        """Whether there is a running mean square per row."""
        return self.optimizer != "sgd"

    def __call__(self, rows: Tensor, mean_square: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows and mean squares after a step; a row whose gradient is not finite is exactly unchanged."""
        flat, old = grad.reshape(len(grad), -1), rows.reshape(len(rows), -1)
        wide = flat.shape[1] > 1  # scalars, the most frequent case, need no sums
        moves = flat.isfinite().all(1)[:, None] if wide else flat.isfinite()
        flat = torch.where(moves, flat, 0.0)
        if self.clip is not None:
            length = flat.square().sum(1).sqrt()[:, None] if wide else flat.abs()
            flat = torch.where(length > self.clip, flat / (length / self.clip), flat)
        change = flat
        if self.has_state:
            square = flat.square().mean(1) if wide else flat.square()[:, 0]
            mean_square = torch.where(square == 0, mean_square, self._accumulated(mean_square, square))
            change = flat / (mean_square.sqrt()[:, None] + self.eps)
        if self.weight_decay:
            change = change + self.weight_decay * old * moves
        return (old - self.lr * change).reshape(rows.shape), mean_square

    def _accumulated(self, old: Tensor, square: Tensor) -> Tensor:
        if self.optimizer == "adagrad":
            return old + square
        # The first gradient of a row starts its mean square, so that the first step has the length lr.
        return torch.where(old == 0, square, old + (1 - self.decay) * (square - old))


_NO_MEMORY, _NO_ROW = 1, 2  # errors that rule.cpp returns
# 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9 and 0x94D049BB133111EB, as signed numbers of 64 bits
_GOLDEN, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685


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
    native = _native.load("row_store/rule")
    if native:
        native.likely_move_rows.argtypes = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 5 + [ctypes.c_int64]
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
