# Kernels are compiled by Triton, which infers the types of their arguments from the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""Triton kernels of likely._kernels._softmax: one program per row, online softmax in float32.

A row is read twice, the second time mostly from the cache, which holds all rows that are processed at the same time.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from likely._kernels._formulas_triton import constrained
from likely._kernels._reduce_triton import add_up, cores
from likely._kernels._softmax import Softmax
from likely._launch_triton import Kernel

BLOCK, WARPS = 2048, 4


@triton.jit
def _sums(logits, classes, cold, SMOOTHING: tl.constexpr, BLOCK: tl.constexpr):
    """Return log Σ eᵘ, E u over finite u, and the sums of u and of finite u."""
    highest = -float("inf")
    total = 0.0
    first = 0.0
    plain = 0.0
    finite = 0.0
    for start in range(0, classes, BLOCK):
        index = start + tl.arange(0, BLOCK)
        mask = index < classes
        u = tl.load(logits + index, mask, other=-float("inf")).to(tl.float32) * cold
        known = tl.where(u == -float("inf"), 0.0, u)
        above = tl.maximum(highest, tl.max(u))
        base = tl.where(above == -float("inf"), 0.0, above)
        e = tl.exp(u - base)
        shrink = tl.exp(highest - base)
        total = total * shrink + tl.sum(e)
        first = first * shrink + tl.sum(e * known)
        highest = above
        if SMOOTHING > 0:
            plain += tl.sum(tl.where(mask, u, 0.0))
            finite += tl.sum(known)
    return highest + tl.log(total), first / total, plain, finite


@triton.jit
def _write_slopes(logits, slopes, classes, label, cold, norm, weight, SMOOTHING: tl.constexpr, BLOCK: tl.constexpr):
    for start in range(0, classes, BLOCK):
        index = start + tl.arange(0, BLOCK)
        mask = index < classes
        u = tl.load(logits + index, mask, other=-float("inf")).to(tl.float32) * cold
        p = tl.exp(u - norm) - SMOOTHING / classes
        slope = tl.where(index == label, p - (1.0 - SMOOTHING), p)
        tl.store(slopes + index, slope * weight * cold, mask)


@Kernel
@triton.jit
def _softmax_kernel(
    logits,
    target,
    temperature,
    weights,
    norms,
    losses,
    d_logits,
    d_temperature,
    classes,
    stride,
    temperature_stride,
    weight_stride,
    out_stride,
    ignore_index,
    SMOOTHING: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute a row's loss and slopes times its weight; without ``losses`` only slopes, from the norm of before."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    label = tl.load(target + row)
    cold = 1.0 / tl.load(temperature + row * temperature_stride).to(tl.float32)
    weight = 1.0
    if weights is not None:
        weight = tl.load(weights + row * weight_stride).to(tl.float32)
    if label == ignore_index:
        if losses is not None:
            tl.store(losses + row, 0.0)
            tl.store(d_temperature + row, 0.0)
            if norms is not None:
                tl.store(norms + row, 0.0)
        if d_logits is not None:
            d_logits += row * out_stride
            for start in range(0, classes, BLOCK):
                index = start + tl.arange(0, BLOCK)
                tl.store(d_logits + index, tl.zeros([BLOCK], tl.float32), index < classes)
    else:
        if losses is not None:
            inside = (label >= 0) & (label < classes)  # other labels would read outside the row
            u = tl.load(logits + label, inside, other=float("nan")).to(tl.float32) * cold
            norm, mean, plain, finite = _sums(logits, classes, cold, SMOOTHING, BLOCK)
            nll = norm - (1.0 - SMOOTHING) * u
            slope = (1.0 - SMOOTHING) * tl.where(u == -float("inf"), 0.0, u) - mean
            if SMOOTHING > 0:
                nll -= SMOOTHING * plain / classes
                slope += SMOOTHING * finite / classes
            tl.store(losses + row, weight * nll)
            tl.store(d_temperature + row, weight * slope * cold)
            if norms is not None:
                tl.store(norms + row, norm)
        else:
            norm = tl.load(norms + row)
        if d_logits is not None:
            _write_slopes(logits, d_logits + row * out_stride, classes, label, cold, norm, weight, SMOOTHING, BLOCK)


def softmax_rows(
    logits: Tensor,
    target: Tensor,
    temperature: Tensor,
    ignore_index: int,
    smoothing: float,
    weights: Tensor | None,
    norms: Tensor | None,
    d_logits: Tensor | None,
    *,
    forward: bool = True,
) -> list[Tensor | None]:
    """Return every row's loss and its slope in the temperature, times one weight or one per row.

    Norms and the gradient of the logits are written where they are given; without ``forward`` only the latter, from
    norms that are known.
    """
    rows, classes = logits.shape
    losses, slope = (logits.new_empty(rows, dtype=torch.float32) if forward else None for _ in range(2))
    block = min(BLOCK, triton.next_power_of_2(classes))
    _softmax_kernel(
        rows,
        max(1, min(WARPS, block // 256)),
        (logits, target, temperature, weights, norms, losses, d_logits, slope),
        classes,
        logits.stride(0),
        int(temperature.numel() > 1),
        int(weights is not None and weights.numel() > 1),
        0 if d_logits is None else d_logits.stride(0),
        ignore_index,
        SMOOTHING=smoothing,
        BLOCK=block,
    )
    return [losses, slope]


@Kernel
@triton.jit
def _few_kernel(
    logits,
    target,
    temperature,
    d_logits,
    d_temperature,
    sums,
    rows,
    classes,
    ignored,
    smoothing,
    low,
    width,
    multiplier,
    CONSTRAINT: tl.constexpr,
    TEMPERATURES: tl.constexpr,
    MEAN: tl.constexpr,
    ALONE: tl.constexpr,
    ROWS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    """Compute rows with few classes, several per block; slopes are those of the sum, of a single program the mean's."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    column = tl.arange(0, CLASSES)
    if MEAN and ALONE:
        labels = tl.zeros([ROWS], tl.float32)
        for start in range(0, rows, ROWS):
            index = start + tl.arange(0, ROWS)
            labels += tl.where(tl.load(target + index, index < rows, other=ignored) != ignored, 1.0, 0.0)
        multiplier /= tl.maximum(tl.sum(labels), 1.0)
    total = tl.zeros([ROWS], tl.float32)
    counted = tl.zeros([ROWS], tl.float32)
    slopes = tl.zeros([ROWS], tl.float32)
    for block in range(program, tl.cdiv(rows, ROWS), programs):
        row = (block * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        inside = row < rows
        mask = inside[:, None] & (column < classes)[None, :]
        place = row[:, None] * classes + column[None, :]
        y = tl.load(target + row, inside, other=ignored)
        raw = tl.load(temperature + (row if TEMPERATURES else row * 0), inside, other=1.0)
        hot, hot_slope = constrained(raw, low, width, CONSTRAINT)
        cold = 1.0 / hot
        u = tl.load(logits + place, mask, other=-float("inf")) * cold[:, None]
        u -= tl.max(u, 1)[:, None]
        e = tl.exp(u)
        norm = tl.sum(e, 1)
        p = e / norm[:, None]
        finite = tl.where(mask & (u > -float("inf")), u, 0.0)
        is_label = column[None, :] == y[:, None]
        label = tl.where(is_label, 1.0 - smoothing, 0.0) + tl.where(mask, smoothing / classes, 0.0)
        chosen = tl.sum(tl.where(label > 0.0, label * u, 0.0), 1)
        valid = inside & (y != ignored)
        nll = tl.log(norm) - chosen
        nll = tl.where((y < 0) | (y >= classes), float("nan"), nll)
        slope = tl.where(valid, tl.sum((label - p) * finite, 1) * cold * hot_slope * multiplier, 0.0)
        total += tl.where(valid, nll * multiplier, 0.0)
        counted += tl.where(valid, 1.0, 0.0)
        slopes += slope
        if d_logits is not None:
            weight = tl.where(valid, cold * multiplier, 0.0)
            tl.store(d_logits + place, (p - label) * weight[:, None], mask)
        if d_temperature is not None and TEMPERATURES:
            tl.store(d_temperature + row, slope, inside)
    tl.store(sums + program, tl.sum(total))
    if not ALONE:
        tl.store(sums + programs + program, tl.sum(slopes))
        tl.store(sums + 2 * programs + program, tl.sum(counted))
    elif d_temperature is not None and not TEMPERATURES:
        tl.store(d_temperature, tl.sum(slopes))


def softmax_of_few_classes(
    job: Softmax, tensors: Sequence[Tensor], slopes: Sequence[Tensor | None]
) -> tuple[Tensor, Tensor | None]:
    """Return the loss of logits with few classes and a raw temperature, and the factor that slopes still lack."""
    logits, target, raw = tensors
    rows, classes = logits.shape
    wide = triton.next_power_of_2(classes)
    alone = rows * wide <= 1 << 14  # a single program for few rows, whose sums are final
    height = max(1, (4096 if alone else 1024) // wide)
    programs = 1 if alone else min(triton.cdiv(rows, height), 16 * cores(logits.device))
    sums = logits.new_empty(() if alone else (3, programs))
    shared = job.layout.numbers == 1
    _few_kernel(
        programs,
        16 if alone else 4,
        (logits, target.long(), raw, *slopes, sums),
        rows,
        classes,
        job.ignore_index,
        float(job.smoothing),
        job.layout.low,
        job.layout.width,
        job.multiplier,
        CONSTRAINT=job.layout.constraint,
        TEMPERATURES=not shared,
        MEAN=job.mean,
        ALONE=alone,
        ROWS=height,
        CLASSES=wide,
    )
    return (sums, None) if alone else add_up(sums, first=slopes[1] if shared else None, counted=job.mean)
