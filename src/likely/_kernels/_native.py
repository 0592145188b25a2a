"""How the compiled kernels on the CPU are called."""

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from struct import Struct
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from likely._native import in_threads, load, typed, workers_of
from likely._numerics.partition import partition

KINDS = ("normal", "laplace", "student_t", "robust", "bernoulli")
PARTS, TERMS = 4, 10  # as in location.cpp
MAX_CLASSES = 1024  # as in softmax.cpp

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
def library() -> Any:
    """The functions of location.cpp, softmax.cpp and head.cpp by name; None unless all are there."""
    location, softmax, head = (load(f"_kernels/{name}") for name in ("location", "softmax", "head"))
    if not (location and softmax and head):
        return None
    return SimpleNamespace(
        location=typed(location.likely_location, "iqqqsPP", ctypes.c_int),
        softmax=typed(softmax.likely_softmax, "qqqs"),
        labels=typed(softmax.likely_labels, "Pqqq", ctypes.c_int64),
        moments=typed(head.likely_moments, "PqqiffPPPP"),
        head=typed(head.likely_head, "PqqqPPPP"),
        head_slopes=typed(head.likely_head_slopes, "PPqqqPPPPP"),
        tables=[t.ctypes.data for t in partition(PARTS, TERMS)],  # cached by partition, and so never freed
    )


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
    workers = workers_of(n, unit)
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
    allowed = in_threads(lambda *part: native.location(job.kind, *part, packed, *native.tables), n, unit, workers)
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
    workers = workers_of(rows * classes, classes)
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
    in_threads(lambda *part: native.softmax(*part, packed), rows, 1, workers)
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
