"""Compiled code, where the wheel contains it (see hatch_build.py), and how its kernels on the CPU are called."""

import ctypes
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from struct import Struct
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.polynomial import Chebyshev, Polynomial
from numpy.polynomial.chebyshev import cheb2poly
from numpy.typing import NDArray
from torch import Tensor

from likely._numerics.partition import COEFFICIENTS

KINDS = ("normal", "laplace", "student_t", "robust", "bernoulli")
PARTS, TERMS = 4, 10  # as in location.cpp
MAX_CLASSES = 1024  # as in softmax.cpp
MIN_ELEMENTS_PER_THREAD = 1 << 16

Slopes = Sequence[Tensor | None]  # room for the gradients of all tensors but the target; None where none is needed

# The structs of location.cpp and softmax.cpp, whose parameters are "2P3q2f".
_LOCATION, _SOFTMAX = Struct("6P2P3q2f2P3q2fq2f"), Struct("4P2P3q2f3q2f")


class Layout(NamedTuple):
    """How a kernel reads a parameter: each number applies to ``inner`` elements, and ``numbers`` of them repeat.

    >>> Layout(inner=10, numbers=256)   # one number per row of ten columns
    Layout(inner=10, numbers=256, constraint=0, low=0.0, width=0.0)
    """

    inner: int = 1
    numbers: int = 1
    constraint: int = 0
    low: float = 0.0
    width: float = 0.0


@cache
def partition(parts: int, terms: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """log Z's series (see likely._numerics.partition) cut into parts on which few powers are enough.

    Q and R as (power, piece · parts + part), Q in x from -1 to 1 across its part, R in b.

    >>> q, r = partition(4, 10)
    >>> q.shape, r.shape
    ((10, 16), (3, 16))
    """
    ends = np.linspace(0, 1, parts + 1)
    pieces, factors = COEFFICIENTS["Q_SINGLE"], COEFFICIENTS["R_SINGLE"]
    q, r = np.zeros((terms, 4 * parts)), np.zeros((len(factors[0]), 4 * parts))
    for piece, (series, factor) in enumerate(zip(pieces, factors, strict=True)):
        whole = Chebyshev(series, domain=[0, 1])
        powers = Chebyshev(factor, domain=[0, 1]).convert(kind=Polynomial).coef
        for part in range(parts):
            coefficients = cheb2poly(Chebyshev.interpolate(whole, terms - 1, domain=ends[part : part + 2]).coef)
            q[: len(coefficients), piece * parts + part] = coefficients
            r[: len(powers), piece * parts + part] = powers
    return q.astype(np.float32), r.astype(np.float32)


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
def library() -> Any:
    """The functions of location.cpp, softmax.cpp and head.cpp by name; None unless all are there."""
    location, softmax, head = (load(f"_kernels/{name}") for name in ("location", "softmax", "head"))
    if not (location and softmax and head):
        return None
    return SimpleNamespace(
        location=_typed(location.likely_location, "iqqqsPP", ctypes.c_int),
        softmax=_typed(softmax.likely_softmax, "qqqs"),
        labels=_typed(softmax.likely_labels, "Pqqq", ctypes.c_int64),
        moments=_typed(head.likely_moments, "PqqiffPPPP"),
        head=_typed(head.likely_head, "PqqqPPPP"),
        head_slopes=_typed(head.likely_head_slopes, "PPqqqPPPPP"),
        tables=[t.ctypes.data for t in partition(PARTS, TERMS)],  # cached by partition, and so never freed
    )


def _typed(function: Any, arguments: str, result: type | None = None) -> Any:
    """A C function with the types of its arguments, by the letters of :mod:`struct`."""
    types = {"i": ctypes.c_int, "q": ctypes.c_int64, "f": ctypes.c_float, "s": ctypes.c_char_p, "P": ctypes.c_void_p}
    function.argtypes, function.restype = [types[letter] for letter in arguments], result
    return function


_threads = cache(ThreadPoolExecutor)
if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_threads.cache_clear)


def _workers(elements: int, unit: int) -> int:
    """The number of threads for a batch that can be divided at multiples of ``unit`` only."""
    return max(1, min(torch.get_num_threads(), elements // max(MIN_ELEMENTS_PER_THREAD, unit)))


def location(
    job: Any, tensors: Sequence[Any], slopes: Slopes, losses: Tensor | None, upstream: Tensor | None
) -> Tensor:
    """The sum of the NLLs, each times the job's factor; NaN if a target is not such as the likelihood allows.

    All tensors are float32 and contiguous: prediction, target and raw parameters. ``slopes`` takes the gradients of
    all but the target, and ``losses`` every NLL, where they are given.
    """
    native = library()
    prediction, target, scale, shape = (*tensors, None)[:4]
    d_prediction, *slopes = (*slopes, None)[:3]
    layouts = (*job.layouts, Layout())[:2]
    n, unit = prediction.numel(), math.lcm(layouts[0].inner, layouts[1].inner)
    workers = _workers(n, unit)
    loss = prediction.new_empty(workers if workers > 1 else ())
    room = [_room(slope, layout, n, workers) for slope, layout in zip(slopes, layouts, strict=True)]
    packed = _LOCATION.pack(
        prediction.data_ptr(),
        target.data_ptr(),
        _at(upstream),
        _at(losses),
        _at(d_prediction),
        loss.data_ptr(),
        scale.data_ptr(),
        _at(room[0]),
        *layouts[0],
        _at(shape),
        _at(room[1]),
        *layouts[1],
        n,
        job.factor,
        job.constant,
    )
    allowed = _in_threads(lambda *part: native.location(job.kind, *part, packed, *native.tables), n, unit, workers)
    loss = _add_up(loss, slopes, room)
    return loss if all(allowed) else loss.fill_(math.nan)


def softmax(job: Any, tensors: Sequence[Tensor], slopes: Slopes) -> Tensor:
    """The NLL of logits (rows, classes), summed or averaged over the labels that count; NaN if a label is no class."""
    native = library()
    logits, target, raw = tensors
    target = target.long()
    d_logits, slope = slopes
    rows, classes = logits.shape
    counted = native.labels(target.data_ptr(), rows, classes, job.ignore_index)
    if counted < 0:
        return logits.new_full((), math.nan)
    workers = _workers(rows * classes, classes)
    loss = logits.new_empty(workers if workers > 1 else ())
    room = _room(slope, job.layout, rows, workers)
    packed = _SOFTMAX.pack(
        logits.data_ptr(),
        target.data_ptr(),
        _at(d_logits),
        loss.data_ptr(),
        raw.data_ptr(),
        _at(room),
        *job.layout,
        rows,
        classes,
        job.ignore_index,
        job.multiplier / max(counted, 1) if job.mean else job.multiplier,
        job.smoothing,
    )
    _in_threads(lambda *part: native.softmax(*part, packed), rows, 1, workers)
    return _add_up(loss, [slope], [room])


def moments(
    x: Tensor, mean: Tensor, var: Tensor, batches: Tensor, *, momentum: float, reach: float, learning: bool
) -> Tensor:
    """Update the running statistics from x, and return the mean and standard deviation to standardise x by."""
    width = len(mean)
    result = mean.new_empty((6, width))
    places = map(_at, (mean, var, batches, result))
    library().moments(x.data_ptr(), x.numel() // width, width, learning, momentum, reach, *places)
    return result


def head(features: Tensor, weight: Tensor, bias: Tensor, moments: Tensor) -> Tensor:
    """A linear layer's output for standardised features, shape (rows, outputs)."""
    outputs, width = weight.shape
    raw = features.new_empty((features.numel() // width, outputs))
    places = map(_at, (moments, weight, bias, raw))
    library().head(features.data_ptr(), len(raw), width, outputs, *places)
    return raw


def head_slopes(d_raw: Tensor, features: Tensor, weight: Tensor, moments: Tensor, slopes: Slopes) -> None:
    """Write the gradients of features, weight and bias into those of ``slopes`` that are tensors."""
    outputs, width = weight.shape
    places = map(_at, (moments, weight, *slopes))
    library().head_slopes(d_raw.data_ptr(), features.data_ptr(), len(d_raw), width, outputs, *places)


def _at(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _room(slope: Tensor | None, layout: Layout, n: int, workers: int) -> Tensor | None:
    """Where threads write a slope: separate places if several threads add to the same number."""
    if slope is None or workers == 1 or (layout.numbers > 1 and layout.inner * layout.numbers >= n):
        return slope
    return slope.new_empty(workers, layout.numbers)


def _add_up(loss: Tensor, slopes: Slopes, room: Sequence[Tensor | None]) -> Tensor:
    """Sum what threads wrote in places of their own."""
    if not loss.ndim:
        return loss
    for slope, places in zip(slopes, room, strict=True):
        if slope is not None and places is not None and places is not slope:
            torch.sum(places, 0, out=slope.view(-1))
    return loss.sum()


def _in_threads(run: Callable[[int, int, int], int | None], n: int, unit: int, workers: int) -> list[int | None]:
    """Run parts of n, each a multiple of ``unit``, in threads."""
    if workers == 1:
        return [run(0, n, 0)]
    ends = [n * k // workers // unit * unit for k in range(workers)] + [n]
    return list(_threads().map(run, ends[:-1], ends[1:], range(workers)))
