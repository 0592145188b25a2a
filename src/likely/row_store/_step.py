"""A step of a rule, by a kernel where there is one, else by the rule's formulas in torch or NumPy; and its rounding."""

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._kernels import _native, applies
from likely.row_store._memory import Pair
from likely.row_store._rule import Rule

_FEW = 2**14  # largest number of values for which NumPy is used
# Largest batch for the kernel that compares each place with all others; a larger batch is sorted.
_IN_A_KERNEL = 2**13
_NO_MEMORY, _NO_ROW = 1, 2  # errors that rule.cpp returns
# 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9 and 0x94D049BB133111EB, as signed numbers of 64 bits
_GOLDEN, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685


def move(rule: Rule, index: Tensor, home: Pair, grad: Tensor) -> bool:
    """Move the rows of ``index`` in place if there is a kernel for it; return whether there is."""
    kernel = (
        _kernel(index, grad, resident=True) if home.rows.dtype == grad.dtype and home.rows.is_contiguous() else None
    )
    if kernel:
        kernel(rule, index, grad, home, home)
    return kernel is not None


def step(rule: Rule, index: Tensor, old: Pair, grad: Tensor) -> Pair:
    """Return the rows of ``index`` after a step. For few numbers on the CPU, NumPy takes a third of torch's time."""
    rows, mean_square = old.rows.to(grad.dtype), old.mean_square.to(grad.dtype)
    if kernel := _kernel(index, grad):
        gathered = Pair(rows.contiguous(), mean_square)
        new = Pair(*map(torch.empty_like, gathered))
        kernel(rule, index, grad, gathered, new)
        return new
    if grad.device.type != "cpu" or grad.numel() > _FEW:
        return Pair(*rule(rows, mean_square, summed(index, grad)))
    with np.errstate(all="ignore"):
        updated = rule(rows.numpy(), mean_square.numpy(), _summed_by_numpy(index.numpy(), grad.numpy()))
    return Pair(*map(torch.from_numpy, updated))


def _kernel(
    index: Tensor, grad: Tensor, *, resident: bool = False
) -> Callable[[Rule, Tensor, Tensor, Pair, Pair], None] | None:
    """Return the kernel of a step, or None where there is none; ``resident``: whether rows are moved in place."""
    if grad.dtype != torch.float32 or not applies(grad):
        return None
    if not grad.is_cuda:
        return _native_step if library() else None
    from likely.row_store import _many_triton, _rule_triton  # where Triton is installed

    if len(index) <= _IN_A_KERNEL:
        return _rule_triton.step
    return _many_triton.step if resident and grad[0].numel() <= _many_triton.WIDEST else None


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
        native.likely_step.argtypes = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 7 + [ctypes.c_int64]
    return native


def _native_step(rule: Rule, index: Tensor, grad: Tensor, old: Pair, new: Pair) -> None:
    """Write the rows of ``index`` after a step into ``new``; where it is ``old`` itself, it has all rows of a table."""
    native = library()
    assert native is not None
    index, grad = index.contiguous(), grad.contiguous()
    clip = math.inf if rule.clip is None else rule.clip
    options = _Rule(rule.number, rule.lr, 1 - rule.decay, rule.eps, clip, rule.weight_decay)
    pointers = (t.data_ptr() for t in (index, grad, *old, *new))
    home = len(new.rows) if new is old else 0
    missing = native.likely_step(len(index), grad[0].numel(), *pointers, ctypes.byref(options), home)
    if missing == _NO_MEMORY:
        raise MemoryError(f"no memory for a step of {len(index)} rows")
    if missing == _NO_ROW:
        raise IndexError(f"an index lies outside the {home} rows of a table: Data(n) too small?")


def summed(index: Tensor, grad: Tensor) -> Tensor:
    """Return the gradients with those of a repeated index added up, in each of its places.

    A row that is in the batch twice is then written twice, with the same value. Sorting instead of ``unique``
    keeps the shapes fixed, so that the host need not wait for a GPU.
    """
    ordered, order = index.sort(stable=True)
    group = torch.cat([ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).cumsum(0)])
    place = torch.empty_like(order).scatter_(0, order, group)
    return torch.zeros_like(grad).index_add_(0, place, grad).index_select(0, place)


def _summed_by_numpy(index: NDArray[Any], grad: NDArray[Any]) -> NDArray[Any]:
    ordered = np.sort(index)
    if (ordered[1:] != ordered[:-1]).all():
        return grad
    rows, place = np.unique(index, return_inverse=True)
    total = np.zeros((len(rows), *grad.shape[1:]), grad.dtype)
    np.add.at(total, place, grad)
    return total[place]


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
