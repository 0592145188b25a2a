"""A step of a rule: by a kernel where one applies, else by the rule's formulas in torch or NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely.kernels import applies
from likely.row_store import _rule_native
from likely.row_store._memory import Pair
from likely.row_store._rule import Rule

_FEW = 2**14  # numbers
_IN_A_KERNEL = 2**13  # places in a batch, at most: each looks at all others


def move(rule: Rule, index: Tensor, home: Pair, grad: Tensor) -> bool:
    """Move the rows of ``index`` in the tensors they live in, if a kernel can."""
    kernel = _kernel(index, grad) if home.rows.dtype == grad.dtype and home.rows.is_contiguous() else None
    if kernel:
        kernel(rule, index, grad, home, home)
    return kernel is not None


def step(rule: Rule, index: Tensor, old: Pair, grad: Tensor) -> Pair:
    """What the rows of ``index`` become. Of few numbers on the CPU NumPy makes it in a third of torch's time."""
    rows, mean_square = old.rows.to(grad.dtype), old.mean_square.to(grad.dtype)
    if kernel := _kernel(index, grad):
        gathered = Pair(rows.contiguous(), mean_square)
        new = Pair(*map(torch.empty_like, gathered))
        kernel(rule, index, grad, gathered, new)
        return new
    if grad.device.type != "cpu" or grad.numel() > _FEW:
        return Pair(*rule(rows, mean_square, summed(index, grad)))
    with np.errstate(all="ignore"):
        found = rule(rows.numpy(), mean_square.numpy(), _summed_by_numpy(index.numpy(), grad.numpy()))
    return Pair(*map(torch.from_numpy, found))


def _kernel(index: Tensor, grad: Tensor) -> Callable[[Rule, Tensor, Tensor, Pair, Pair], None] | None:
    """A step in one go, where there is one."""
    if grad.dtype != torch.float32 or not applies(grad):
        return None
    if not grad.is_cuda:
        return _rule_native.step if _rule_native.library() else None
    if len(index) > _IN_A_KERNEL:
        return None
    from likely.row_store import _rule_triton  # where Triton is installed

    return _rule_triton.step


def summed(index: Tensor, grad: Tensor) -> Tensor:
    """The gradients with those of a repeated index added up, in each of its places.

    A row that is in the batch twice is then written twice, with the same value. Sorting instead of ``unique``
    keeps the shapes fixed, so that a GPU need not report back.
    """
    ordered, order = index.sort(stable=True)
    group = torch.cat([ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).cumsum(0)])
    place = torch.empty_like(order).scatter_(0, order, group)
    return torch.zeros_like(grad).index_add_(0, place, grad).index_select(0, place)


def _summed_by_numpy(index: NDArray[Any], grad: NDArray[Any]) -> NDArray[Any]:
    ordered = np.sort(index)
    if (ordered[1:] != ordered[:-1]).all():
        return grad
    found, place = np.unique(index, return_inverse=True)
    total = np.zeros((len(found), *grad.shape[1:]), grad.dtype)
    np.add.at(total, place, grad)
    return total[place]
