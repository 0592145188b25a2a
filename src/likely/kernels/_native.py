"""Compiled code, where the wheel brought it (see hatch_build.py), and the CPU kernels of location.cpp."""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from likely.kernels._coefficients import partition

KINDS = ("normal", "laplace", "student_t", "robust")
PARTS, TERMS = 4, 10  # as in location.cpp
_A_THREAD = 1 << 16  # elements worth a thread of their own

_TENSORS = ("prediction", "target", "scale", "shape", "upstream", "each", "d_prediction", "d_scale", "d_shape")


class _Job(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in _TENSORS),
        *((name, ctypes.c_int64) for name in ("scale_step", "shape_step")),
        *((name, ctypes.c_float) for name in ("factor", "constant")),
    )


def load(source: str) -> ctypes.CDLL | None:
    """The library of a source file, by its place in the package, for this processor; None where there is none."""
    stem = Path(__file__).parents[1] / source
    for generation in (torch.backends.cpu.get_cpu_capability(), "DEFAULT"):
        try:
            return ctypes.CDLL(f"{stem}-{generation}.so")
        except OSError:  # not built, or for another system
            continue
    return None


@cache
def library() -> ctypes.CDLL | None:
    """The kernels of location.cpp."""
    found = load("kernels/location")
    if found:
        found.likely_location.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64] + [ctypes.c_void_p] * 4
        found.likely_location.restype = None
    return found


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor()


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_threads.cache_clear)


def location(
    kind: str, /, *inputs: Tensor | None, constant: float = 0.0, factor: float = 1.0, **results: Tensor | None
) -> tuple[float, ...]:
    """Fill the tensors each, d_prediction, d_scale and d_shape that are given; return the three sums.

    The inputs are prediction, target, scale and shape, and ``upstream`` by name: float32 and contiguous all; scale and
    shape hold one number or one per element. The sums are of the loss and of the slopes of scale and shape, as if each
    were one number.
    """
    native, (prediction, target, scale, shape) = library(), inputs
    assert native is not None
    assert prediction is not None
    assert scale is not None
    shape = scale if shape is None else shape  # read, not used
    n, tensors = prediction.numel(), (prediction, target, scale, shape, *map(results.get, _TENSORS[4:]))
    pointers = [None if t is None else t.data_ptr() for t in tensors]
    job = _Job(*pointers, scale.numel() > 1, shape.numel() > 1, factor, constant)
    q, r = partition(PARTS, TERMS)

    def between(start: int, end: int) -> list[float]:
        sums = (ctypes.c_double * 3)()
        native.likely_location(KINDS.index(kind), start, end, ctypes.byref(job), q.ctypes.data, r.ctypes.data, sums)
        return list(sums)

    workers = max(1, min(torch.get_num_threads(), n // _A_THREAD))
    ends = [n * k // workers for k in range(workers + 1)]
    if workers == 1:
        return tuple(between(0, n))
    return tuple(map(sum, zip(*_threads().map(between, ends[:-1], ends[1:]), strict=True)))
