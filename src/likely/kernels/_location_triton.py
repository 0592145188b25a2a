# Kernels are compiled by Triton, which infers the types of their arguments from the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""Triton kernels of likely.kernels._location: one pass over the data computes the loss and every gradient.

A fixed number of programs processes the blocks; each adds up its blocks and writes one sum, so that the result is the
same from run to run.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from likely.kernels._coefficients import partition
from likely.kernels._direct import Location
from likely.kernels._formulas_triton import (
    LN2,
    LOG2E,
    PARTS,
    TERMS,
    constrained,
    fast_exp2,
    fast_log2,
    fast_reciprocal,
    log1p_positive,
    robust,
    robust_normaliser,
    student_t,
    student_t_normaliser,
)
from likely.kernels._location import outputs, with_room
from likely.kernels._native import KINDS, Layout
from likely.kernels._reduce_triton import BLOCK, WARPS, add_up, cores, on_device, rescale_

__all__ = ["location_direct", "location_each", "location_slopes", "location_sum", "rescale_"]

PROGRAMS_PER_CORE = 32
ALONE = 16 * BLOCK  # largest number of elements for a single program, whose sums are final

NORMAL, LAPLACE, STUDENT_T, ROBUST = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
ONE, EACH, GROUPS = (
    tl.constexpr(0),
    tl.constexpr(1),
    tl.constexpr(2),
)  # values of a parameter: one, one per element, per group


@triton.jit
def _location_kernel(
    prediction,
    target,
    scale,
    shape,
    upstream,
    losses,
    d_prediction,
    d_scale,
    d_shape,
    loss_sums,
    scale_sums,
    shape_sums,
    q_table,
    r_table,
    n,
    constant,
    factor,
    scale_inner,
    scale_count,
    scale_low,
    scale_width,
    shape_inner,
    shape_count,
    shape_low,
    shape_width,
    KIND: tl.constexpr,
    SCALES: tl.constexpr,
    SHAPES: tl.constexpr,
    SCALE_CONSTRAINT: tl.constexpr,
    SHAPE_CONSTRAINT: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program, programs = tl.program_id(0), tl.num_programs(0)
    sigma, sigma_slope = constrained(tl.load(scale).to(tl.float32), scale_low, scale_width, SCALE_CONSTRAINT)
    inverse = fast_reciprocal(sigma)
    log_sigma = fast_log2(sigma) * LN2 + constant
    log_z, log_z_slope = 0.0, 0.0
    phi, phi_slope = 1.0, 1.0
    r0, r1, r2 = tl.load(r_table + PARTS), tl.load(r_table + 5 * PARTS), tl.load(r_table + 9 * PARTS)
    s0, s1, s2 = tl.load(r_table + 2 * PARTS), tl.load(r_table + 6 * PARTS), tl.load(r_table + 10 * PARTS)
    HAS_SHAPE: tl.constexpr = not (KIND < STUDENT_T or KIND > ROBUST)
    if HAS_SHAPE:
        phi, phi_slope = constrained(tl.load(shape).to(tl.float32), shape_low, shape_width, SHAPE_CONSTRAINT)
        if KIND == STUDENT_T:
            log_z, log_z_slope = student_t_normaliser(phi)
        else:
            log_z, log_z_slope = robust_normaliser(phi, q_table, r0, r1, r2, s0, s1, s2)
    total = tl.zeros([BLOCK], tl.float32)
    scale_total = tl.zeros([BLOCK], tl.float32)
    shape_total = tl.zeros([BLOCK], tl.float32)
    for block in range(program, tl.cdiv(n, BLOCK), programs):
        index = (block.to(tl.int64) if WIDE else block) * BLOCK + tl.arange(0, BLOCK)
        mask = index < n
        y = tl.load(target + index, mask, other=0.0).to(tl.float32)
        x = tl.load(prediction + index, mask, other=0.0).to(tl.float32)
        own_inverse, own_log, own_slope = inverse, log_sigma, sigma_slope
        if SCALES:
            place = (index // scale_inner) % scale_count if SCALES == GROUPS else index
            raw = tl.load(scale + place, mask, other=1.0).to(tl.float32)
            own_sigma, own_slope = constrained(raw, scale_low, scale_width, SCALE_CONSTRAINT)
            own_inverse, own_log = fast_reciprocal(own_sigma), fast_log2(own_sigma) * LN2 + constant
        z = (y - x) * own_inverse
        value = tl.zeros([BLOCK], tl.float32) + own_log
        shape_slope = tl.zeros([BLOCK], tl.float32)
        if KIND == NORMAL:
            value += 0.5 * z * z
            slope = z
        elif KIND == LAPLACE:
            value += tl.abs(z)
            slope = tl.where(z > 0, 1.0, tl.where(z < 0, -1.0, z))
        elif KIND > ROBUST:  # Bernoulli
            z = x * own_inverse
            t = fast_exp2(-tl.abs(z) * LOG2E)
            opposite = 1.0 / (1.0 + t)
            value = tl.maximum(z, 0.0) + log1p_positive(t) - y * z + constant
            slope = tl.where(z < 0.0, t * opposite, opposite) - y
        else:
            own_phi, own_phi_slope = phi, phi_slope
            if SHAPES:
                place = (index // shape_inner) % shape_count if SHAPES == GROUPS else index
                raw = tl.load(shape + place, mask, other=1.0).to(tl.float32)
                own_phi, own_phi_slope = constrained(raw, shape_low, shape_width, SHAPE_CONSTRAINT)
            own_z, own_z_slope = log_z, log_z_slope
            if KIND == STUDENT_T:
                if SHAPES:
                    own_z, own_z_slope = student_t_normaliser(own_phi)
                psi, slope, psi_slope = student_t(z, own_phi)
            else:
                if SHAPES:
                    own_z, own_z_slope = robust_normaliser(own_phi, q_table, r0, r1, r2, s0, s1, s2)
                psi, slope, psi_slope = robust(z, own_phi)
            value += psi + own_z
            shape_slope += psi_slope + own_z_slope
            if SHAPE_CONSTRAINT:
                shape_slope *= own_phi_slope
        weight = factor
        if upstream is not None:
            weight *= tl.load(upstream + index, mask, other=0.0)
        if KIND > ROBUST:
            scale_slope = -weight * z * slope * own_inverse
            slope = -slope
        else:
            scale_slope = weight * (1.0 - z * slope) * own_inverse
        if SCALE_CONSTRAINT:
            scale_slope *= own_slope
        if losses is not None:
            tl.store(losses + index, value, mask)
        if d_prediction is not None:
            tl.store(d_prediction + index, -weight * slope * own_inverse, mask)
        if d_scale is not None:
            tl.store(d_scale + index, scale_slope, mask)
        if d_shape is not None:
            tl.store(d_shape + index, weight * shape_slope, mask)
        if loss_sums is not None:
            total += tl.where(mask, weight * value, 0.0)
            if not SCALES:
                scale_total += tl.where(mask, scale_slope, 0.0)
            if HAS_SHAPE and not SHAPES:
                shape_total += tl.where(mask, weight * shape_slope, 0.0)
    if loss_sums is not None:
        tl.store(loss_sums + program, tl.sum(total))
        if scale_sums is not None:
            tl.store(scale_sums + program, tl.sum(scale_total))
        if shape_sums is not None:
            tl.store(shape_sums + program, tl.sum(shape_total))


@cache
def _tables(device: torch.device) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(t).to(device) for t in partition(PARTS.value, TERMS.value))


def _run(
    kind: int,
    tensors: Sequence[Tensor | None],
    results: Sequence[Tensor | None],
    sums: Sequence[Tensor | None],
    *,
    layouts: Sequence[Layout],
    programs: int,
    constant: float = 0.0,
    factor: float = 1.0,
) -> None:
    """Launch the kernel on prediction, target, scale, shape and upstream.

    It writes each NLL and the slopes of prediction, scale and shape into ``results``, one number per element; and the
    sums of each program, of the loss and of the slopes of parameters that are a single number, into ``sums``.
    """
    prediction = tensors[0]
    assert prediction is not None
    n = prediction.numel()
    first, second = layouts

    def reads(layout: Layout) -> int:
        return 0 if layout.numbers == 1 else 1 if layout.is_each(n) else 2

    with on_device(prediction):
        _location_kernel[(programs,)](
            *tensors,
            *results,
            *sums,
            *_tables(prediction.device),
            n,
            constant,
            factor,
            first.inner,
            first.numbers,
            first.low,
            first.width,
            second.inner,
            second.numbers,
            second.low,
            second.width,
            KIND=kind,
            SCALES=reads(first),
            SHAPES=reads(second),
            SCALE_CONSTRAINT=first.constraint,
            SHAPE_CONSTRAINT=second.constraint,
            WIDE=n > 2**31 - BLOCK,
            BLOCK=BLOCK,
            num_warps=WARPS,
        )


def _programs(tensor: Tensor) -> int:
    return min(triton.cdiv(tensor.numel(), BLOCK), PROGRAMS_PER_CORE * cores(tensor.device))


def _launch(
    kind: str,
    prediction: Tensor,
    target: Tensor,
    scale: Tensor,
    shape: Tensor | None,
    *,
    constant: float = 0.0,
    factor: float = 1.0,
    upstream: Tensor | None = None,
    losses: Tensor | None = None,
    slopes: Sequence[Tensor] = (),
    sums: bool = False,
) -> Tensor:
    """Fill ``losses`` and slopes of more than one element; return the sums of each program for all others."""
    programs = _programs(prediction)
    partial = prediction.new_empty((3, programs), dtype=torch.float32)
    _run(
        KINDS.index(kind),
        (prediction, target, scale, shape, upstream),
        (losses, *(with_room(slopes) or [None] * 3)),
        tuple(partial) if sums else (None,) * 3,
        layouts=[Layout.of(p) for p in (scale, shape)],
        programs=programs,
        constant=constant,
        factor=factor,
    )
    return partial


def location_direct(job: Location, tensors: Sequence[Tensor], slopes: Sequence[Tensor | None]) -> Tensor:
    """Return the loss of raw parameters; write their gradients and the prediction's into ``slopes``."""
    prediction, target, *raw = tensors
    n = prediction.numel()
    programs = 1 if n <= ALONE else _programs(prediction)
    loss = prediction.new_empty(() if programs == 1 else programs)
    layouts = (*job.layouts, Layout())[:2]
    # Slopes of every element; of parameters that are a single number, the sums of each program.
    element_slopes: list[Tensor | None] = []
    sums: list[Tensor | None] = []
    for slope, layout in zip((*slopes[1:], None), layouts, strict=False):
        shared = layout.numbers == 1
        element_slopes.append(
            None if slope is None or shared else slope if layout.is_each(n) else prediction.new_empty(n)
        )
        sums.append(None if slope is None or not shared else slope if programs == 1 else slope.new_empty(programs))
    _run(
        job.kind,
        (prediction, target, *(*raw, None)[:2], None),
        (None, slopes[0], *element_slopes),
        (loss, *sums),
        layouts=layouts,
        programs=programs,
        constant=job.constant,
        factor=job.factor,
    )
    for slope, layout, wide in zip((*slopes[1:], None), layouts, element_slopes, strict=False):
        if slope is not None and wide is not None and wide is not slope:
            torch.sum(wide.view(-1, layout.numbers, layout.inner), (0, 2), out=slope.view(-1))
    if programs == 1:
        return loss
    if sums[1] is not None and slopes[2] is not None:
        torch.sum(sums[1], 0, out=slopes[2].view(()))
    return add_up(loss, None, sums[0], slopes[1])[0]


def _filled(slopes: Sequence[Tensor], partial: Tensor) -> tuple[Tensor, ...]:
    """Return the slopes; those of parameters that are a single number are summed from ``partial``."""
    return tuple(
        partial[k].sum().to(slope.dtype).view(slope.shape) if k and slope.numel() == 1 else slope
        for k, slope in enumerate(slopes)
    )


def location_sum(*arguments: Any) -> tuple[Tensor, ...]:
    *inputs, constant, factor, wanted = arguments
    slopes = outputs(inputs, wanted)
    partial = _launch(*inputs, constant=constant, factor=factor, slopes=slopes, sums=True)
    return partial[0].sum(), *_filled(slopes, partial)


def location_each(*arguments: Any) -> Tensor:
    *inputs, constant = arguments
    losses = torch.empty_like(inputs[1], dtype=torch.float32)
    _launch(*inputs, constant=constant, losses=losses)
    return losses


def location_slopes(*arguments: Any) -> tuple[Tensor, ...]:
    *inputs, upstream, wanted = arguments
    slopes = outputs(inputs, wanted)
    single = any(s.numel() == 1 for s in slopes[1:])
    return _filled(slopes, _launch(*inputs, upstream=upstream.contiguous(), slopes=slopes, sums=single))
