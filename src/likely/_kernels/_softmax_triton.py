# Kernels are compiled by Triton, which infers the types of their arguments from the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""Triton kernels of likely._kernels._softmax: one program per row, online softmax in float32.

A row is read twice, the second time mostly from the cache, which holds all rows that are processed at the same time.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from likely._kernels._formulas_triton import constrained
from likely._kernels._reduce_triton import add_up, cores, on_device
from likely._kernels._softmax import Softmax

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


@triton.jit
def _softmax_kernel(
    logits,
    target,
    temperature,
    factor,
    upstream,
    norms,
    losses,
    d_logits,
    d_temperature,
    classes,
    stride,
    out_stride,
    ignore_index,
    SMOOTHING: tl.constexpr,
    PER_ROW: tl.constexpr,
    FORWARD: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    label = tl.load(target + row)
    cold = 1.0 / tl.load(temperature + row if PER_ROW else temperature).to(tl.float32)
    weight = tl.load(factor).to(tl.float32) if upstream is None else tl.load(upstream + row).to(tl.float32)
    if label == ignore_index:
        if FORWARD:
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
        if FORWARD:
            inside = (label >= 0) & (label < classes)  # other labels would read outside the row
            u = tl.load(logits + label, inside, other=float("nan")).to(tl.float32) * cold
            norm, mean, plain, finite = _sums(logits, classes, cold, SMOOTHING, BLOCK)
            nll = norm - (1.0 - SMOOTHING) * u
            slope = (1.0 - SMOOTHING) * tl.where(u == -float("inf"), 0.0, u) - mean
            if SMOOTHING > 0:
                nll -= SMOOTHING * plain / classes
                slope += SMOOTHING * finite / classes
            if norms is not None:
                tl.store(norms + row, norm)
                tl.store(losses + row, nll)
                tl.store(d_temperature + row, slope * cold)
            else:
                tl.store(losses + row, weight * nll)
                tl.store(d_temperature + row, weight * slope * cold)
        else:
            norm = tl.load(norms + row)
        if d_logits is not None:
            _write_slopes(logits, d_logits + row * out_stride, classes, label, cold, norm, weight, SMOOTHING, BLOCK)


def _launch(
    logits: Tensor,
    target: Tensor,
    temperature: Tensor,
    ignore_index: int,
    smoothing: float,
    *,
    factor: Tensor | None = None,
    upstream: Tensor | None = None,
    norms: Tensor | None = None,
    losses: Tensor | None = None,
    d_logits: Tensor | None = None,
    d_temperature: Tensor | None = None,
) -> None:
    rows, classes = logits.shape
    block = min(BLOCK, triton.next_power_of_2(classes))
    with torch.cuda.device_of(logits):
        _softmax_kernel[(rows,)](
            logits,
            target,
            temperature,
            target if factor is None else factor,
            upstream,
            norms,
            losses,
            d_logits,
            d_temperature,
            classes,
            logits.stride(0),
            0 if d_logits is None else d_logits.stride(0),
            ignore_index,
            SMOOTHING=smoothing,
            PER_ROW=temperature.numel() > 1,
            FORWARD=losses is not None,
            BLOCK=block,
            num_warps=max(1, min(WARPS, block // 256)),
        )


def _rows(logits: Tensor) -> Tensor:
    return logits.new_empty(len(logits), dtype=torch.float32)


def softmax_sum(*arguments: Any) -> tuple[Tensor, Tensor]:
    """Return the sum of the NLLs times a factor, and every row's slope in the temperature; write into d_logits."""
    *rows, factor, d_logits = arguments
    losses, slope = _rows(rows[0]), _rows(rows[0])
    _launch(*rows, factor=factor, losses=losses, d_logits=d_logits, d_temperature=slope)
    return losses.sum(), slope


def softmax_each(*rows: Any) -> tuple[Tensor, Tensor, Tensor]:
    losses, norms, slope = (_rows(rows[0]) for _ in range(3))
    unit_factor = torch.ones((), device=rows[0].device)
    _launch(*rows, factor=unit_factor, norms=norms, losses=losses, d_temperature=slope)
    return losses, norms, slope


def softmax_slopes(*arguments: Any) -> None:
    *rows, norm, upstream, d_logits = arguments
    _launch(*rows, upstream=upstream, norms=norm, d_logits=d_logits)


@triton.jit
def _few_kernel(
    logits,
    target,
    temperature,
    d_logits,
    d_temperature,
    loss_sums,
    kept_sums,
    slope_sums,
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
    """Compute rows with few classes, several per block; slopes are those of the sum."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    column = tl.arange(0, CLASSES)
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
        if d_temperature is not None:
            tl.store(d_temperature + row, slope, inside)
    count = tl.maximum(tl.sum(counted), 1.0) if ALONE else tl.sum(counted)
    loss = tl.sum(total)
    if ALONE and MEAN:
        loss /= count
        count = 1.0 / count
    tl.store(loss_sums + program, loss)
    if kept_sums is not None:
        tl.store(kept_sums + program, count)
    if slope_sums is not None:
        tl.store(slope_sums + program, tl.sum(slopes))


def softmax_of_few_classes(
    job: Softmax, tensors: Sequence[Tensor], slopes: Sequence[Tensor | None]
) -> tuple[Tensor, Tensor | None]:
    """Return the loss of logits with few classes and a raw temperature, and the factor that slopes still lack."""
    logits, target, raw = tensors
    rows, classes = logits.shape
    wide = triton.next_power_of_2(classes)
    alone = rows * wide <= 1 << 14  # a single program for few rows, whose sums are final
    height = max(1, (4096 if alone else 1024) // wide)
    blocks = triton.cdiv(rows, height)
    programs = 1 if alone else min(blocks, 16 * cores(logits.device))
    room = () if alone else (programs,)
    loss, counts = logits.new_empty(room), logits.new_empty(room) if job.mean else None
    shared = job.layout.numbers == 1
    slope = slopes[1]
    sums = None if slope is None or not shared else slope if alone else logits.new_empty(room)
    with on_device(logits):
        _few_kernel[(programs,)](
            logits,
            target.long(),
            raw,
            slopes[0],
            None if shared else slope,
            loss,
            counts,
            sums,
            rows,
            classes,
            job.ignore_index,
            job.smoothing,
            job.layout.low,
            job.layout.width,
            job.multiplier,
            CONSTRAINT=job.layout.constraint,
            TEMPERATURES=not shared,
            MEAN=job.mean,
            ALONE=alone,
            ROWS=height,
            CLASSES=wide,
            num_warps=16 if alone else 4,
        )
    return (loss, counts) if alone else add_up(loss, counts, sums, slope)
