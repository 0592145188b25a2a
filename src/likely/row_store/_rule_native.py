"""The step of likely.row_store._rule by rule.cpp, where the wheel brought it compiled."""

from __future__ import annotations

import ctypes
import math
from functools import cache

from torch import Tensor

from likely.kernels import _native
from likely.row_store._memory import Pair
from likely.row_store._rule import Rule

_MEMORY, _A_ROW = 1, 2  # what may be missing


class _Rule(ctypes.Structure):
    _fields_ = (
        ("optimizer", ctypes.c_int64),
        *((name, ctypes.c_double) for name in ("lr", "new_weight", "eps", "clip", "weight_decay")),
    )


@cache
def library() -> ctypes.CDLL | None:
    """The library for this processor, or None."""
    found = _native.load("row_store/rule")
    if found:
        found.likely_step.argtypes = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 7 + [ctypes.c_int64]
    return found


def step(rule: Rule, index: Tensor, grad: Tensor, old: Pair, new: Pair) -> None:
    """Fill ``new`` with what the rows of ``index`` become; where it is ``old`` itself, it has all rows of a table."""
    native = library()
    assert native is not None
    index, grad = index.contiguous(), grad.contiguous()
    clip = math.inf if rule.clip is None else rule.clip
    given = _Rule(rule.number, rule.lr, 1 - rule.decay, rule.eps, clip, rule.weight_decay)
    pointers = (t.data_ptr() for t in (index, grad, *old, *new))
    home = len(new.rows) if new is old else 0
    missing = native.likely_step(len(index), grad[0].numel(), *pointers, ctypes.byref(given), home)
    if missing == _MEMORY:
        raise MemoryError(f"no memory for a step of {len(index)} rows")
    if missing == _A_ROW:
        raise IndexError(f"an index lies outside the {home} rows of a table: Data(n) too small?")
