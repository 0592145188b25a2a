"""The step of likely.tables._rule by rule.cpp, where the wheel brought it compiled."""

import ctypes
import math
from functools import cache

import torch
from torch import Tensor

from likely.kernels import _native


class _Rule(ctypes.Structure):
    _fields_ = (
        ("optimizer", ctypes.c_int64),
        *((name, ctypes.c_double) for name in ("lr", "new_weight", "eps", "clip", "weight_decay")),
    )


@cache
def library() -> ctypes.CDLL | None:
    """The library for this processor, or None."""
    found = _native.load("tables/rule")
    if found:
        found.likely_step.argtypes = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 7 + [ctypes.c_int]
    return found


def step(
    index: Tensor,
    grad: Tensor,
    rows: Tensor,
    mean_square: Tensor,
    *,
    optimizer: str,
    lr: float,
    decay: float,
    eps: float,
    clip: float | None,
    weight_decay: float,
    resident: bool = False,
) -> tuple[Tensor, Tensor]:
    """What the rows of ``index`` and their mean squares become; ``resident`` are all rows, and moved where they are."""
    native = library()
    assert native is not None
    index, grad, new_rows, new_mean_square = index.contiguous(), grad.contiguous(), rows, mean_square
    if not resident:
        rows = rows.contiguous()
        new_rows, new_mean_square = torch.empty_like(rows), torch.empty_like(mean_square)
    kind = ("sgd", "rmsprop", "adagrad").index(optimizer)
    rule = _Rule(kind, lr, 1 - decay, eps, math.inf if clip is None else clip, weight_decay)
    tensors = (index, grad, rows, mean_square, new_rows, new_mean_square)
    pointers = (t.data_ptr() for t in tensors)
    if not native.likely_step(len(index), grad[0].numel(), *pointers, ctypes.byref(rule), resident):
        raise MemoryError(f"no memory for a step of {len(index)} rows")
    return new_rows, new_mean_square
