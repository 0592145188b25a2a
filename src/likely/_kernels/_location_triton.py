# Kernels are compiled by Triton, which infers the types of their arguments from the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""Triton kernels of likely._kernels._location: one pass over the data computes the loss and every gradient.

A fixed number of programs processes the blocks; each adds up its blocks and writes one sum, so that the result is the
same from run to run.
"""

from collections.abc import Sequence
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from likely._kernels._coefficients import partition
from likely._kernels._formulas_triton import (
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
from likely._kernels._location import Location
from likely._kernels._native import Layout
from likely._kernels._reduce_triton import BLOCK, WARPS, add_up, cores, on_device

PROGRAMS_PER_CORE = 32
ALONE = 16 * BLOCK  # largest number of elements for a single program, whose sums are final

# In the order of likely._kernels.KINDS.
NORMAL, LAPLACE, STUDENT_T = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
ROBUST, BERNOULLI = tl.constexpr(3), tl.constexpr(4)
GROUPS = tl.constexpr(2)  # values of a parameter: 0, one; 1, one per element; 2, one per group


@triton.jit
def _read(raw, index, mask, inner, count, low, width, VALUES: tl.constexpr, CONSTRAINT: tl.constexpr):
    """Return the values of a parameter for the elements of a block, and their slopes in the raw numbers."""
    place = (index // inner) % count if VALUES == GROUPS else index
    return constrained(tl.load(raw + place, mask, other=1.0).to(tl.float32), low, width, CONSTRAINT)


@triton.jit
def _normaliser(phi, q_table, r0, r1, r2, s0, s1, s2, KIND: tl.constexpr):
    """Return the logarithm of the normaliser of Student's t or of ρ, and its slope in the shape."""
    if KIND == STUDENT_T:
        value, slope = student_t_normaliser(phi)
    else:
        value, slope = robust_normaliser(phi, q_table, r0, r1, r2, s0, s1, s2)
    return value, slope


@triton.jit
def _bernoulli(z, y):
    """Return the NLL of a label y at the logit z, and its slope."""
    t = fast_exp2(-tl.abs(z) * LOG2E)
    opposite = 1.0 / (1.0 + t)
    value = tl.maximum(z, 0.0) + log1p_positive(t) - y * z
    return value, tl.where(z < 0.0, t * opposite, opposite) - y


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
    HAS_SHAPE: tl.constexpr = not (KIND < STUDENT_T or KIND > ROBUST)
    sigma, sigma_slope = constrained(tl.load(scale).to(tl.float32), scale_low, scale_width, SCALE_CONSTRAINT)
    inverse, log_sigma = fast_reciprocal(sigma), fast_log2(sigma) * LN2 + constant
    r0, r1, r2 = tl.load(r_table + PARTS), tl.load(r_table + 5 * PARTS), tl.load(r_table + 9 * PARTS)
    s0, s1, s2 = tl.load(r_table + 2 * PARTS), tl.load(r_table + 6 * PARTS), tl.load(r_table + 10 * PARTS)
    log_z, log_z_slope = 0.0, 0.0
    phi, phi_slope = 1.0, 1.0
    if HAS_SHAPE:
        phi, phi_slope = constrained(tl.load(shape).to(tl.float32), shape_low, shape_width, SHAPE_CONSTRAINT)
        log_z, log_z_slope = _normaliser(phi, q_table, r0, r1, r2, s0, s1, s2, KIND)
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
            own_sigma, own_slope = _read(
                scale, index, mask, scale_inner, scale_count, scale_low, scale_width, SCALES, SCALE_CONSTRAINT
            )
            own_inverse, own_log = fast_reciprocal(own_sigma), fast_log2(own_sigma) * LN2 + constant
        shape_slope = tl.zeros([BLOCK], tl.float32)
        if KIND == BERNOULLI:
            z = x * own_inverse
            value, slope = _bernoulli(z, y)
            value += constant
        else:
            z = (y - x) * own_inverse
            value = tl.zeros([BLOCK], tl.float32) + own_log
        if KIND == NORMAL:
            value += 0.5 * z * z
            slope = z
        if KIND == LAPLACE:
            value += tl.abs(z)
            slope = tl.where(z > 0, 1.0, tl.where(z < 0, -1.0, z))
        if HAS_SHAPE:
            own_phi, own_phi_slope = phi, phi_slope
            own_z, own_z_slope = log_z, log_z_slope
            if SHAPES:
                own_phi, own_phi_slope = _read(
                    shape, index, mask, shape_inner, shape_count, shape_low, shape_width, SHAPES, SHAPE_CONSTRAINT
                )
                own_z, own_z_slope = _normaliser(own_phi, q_table, r0, r1, r2, s0, s1, s2, KIND)
            if KIND == STUDENT_T:
                psi, slope, psi_slope = student_t(z, own_phi)
            else:
                psi, slope, psi_slope = robust(z, own_phi)
            value += psi + own_z
            shape_slope += psi_slope + own_z_slope
            if SHAPE_CONSTRAINT:
                shape_slope *= own_phi_slope
        weight = factor
        if upstream is not None:
            weight *= tl.load(upstream + index, mask, other=0.0)
        if KIND == BERNOULLI:
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


def _values(layout: Layout, n: int) -> int:
    """How many values of a parameter there are for n elements: one, one per element, or one per group."""
    return 0 if layout.numbers == 1 else 1 if layout.is_each(n) else 2


def _programs(tensor: Tensor) -> int:
    n = tensor.numel()
    return 1 if n <= ALONE else min(triton.cdiv(n, BLOCK), PROGRAMS_PER_CORE * cores(tensor.device))


def location(
    job: Location,
    tensors: Sequence[Tensor],
    slopes: Sequence[Tensor | None],
    losses: Tensor | None,
    upstream: Tensor | None,
) -> Tensor | None:
    """Return the loss of raw parameters; write their gradients and the prediction's into ``slopes``.

    With ``losses``, every NLL is written there instead; ``upstream`` multiplies each in the gradients.
    """
    prediction, target, *raw = tensors
    n, programs = prediction.numel(), _programs(prediction)
    layouts = (*job.layouts, Layout())[:2]
    d_prediction, *d_parameters = (*slopes, None)[:3]
    loss = None
    if losses is None:
        loss = prediction.new_empty(() if programs == 1 else programs, dtype=torch.float32)
    # Slopes of every element; of parameters that are a single number, the sums of each program.
    element_slopes = [_element_slopes(s, own, prediction) for s, own in zip(d_parameters, layouts, strict=True)]
    sums = [_program_sums(s, own, programs) for s, own in zip(d_parameters, layouts, strict=True)]
    first, second = layouts
    with on_device(prediction):
        _location_kernel[(programs,)](
            prediction,
            target,
            *(*raw, None)[:2],
            upstream,
            losses,
            d_prediction,
            *element_slopes,
            loss,
            *sums,
            *_tables(prediction.device),
            n,
            job.constant,
            job.factor,
            first.inner,
            first.numbers,
            first.low,
            first.width,
            second.inner,
            second.numbers,
            second.low,
            second.width,
            KIND=job.kind,
            SCALES=_values(first, n),
            SHAPES=_values(second, n),
            SCALE_CONSTRAINT=first.constraint,
            SHAPE_CONSTRAINT=second.constraint,
            WIDE=n > 2**31 - BLOCK,
            BLOCK=BLOCK,
            num_warps=WARPS,
        )
    for slope, layout, wide in zip(d_parameters, layouts, element_slopes, strict=True):
        if slope is not None and wide is not None and wide is not slope:
            torch.sum(wide.view(-1, layout.numbers, layout.inner), (0, 2), out=slope.view(-1))
    if programs == 1 or loss is None:
        return loss
    d_scale, d_shape = d_parameters
    if sums[1] is not None and d_shape is not None:
        torch.sum(sums[1], 0, dtype=d_shape.dtype, out=d_shape.view(()))
    return add_up(loss, None, sums[0], d_scale)[0]


def _element_slopes(slope: Tensor | None, layout: Layout, prediction: Tensor) -> Tensor | None:
    if slope is None or layout.numbers == 1:
        return None
    return slope if layout.is_each(prediction.numel()) else prediction.new_empty(prediction.numel())


def _program_sums(slope: Tensor | None, layout: Layout, programs: int) -> Tensor | None:
    if slope is None or layout.numbers > 1:
        return None
    return slope if programs == 1 else slope.new_empty(programs, dtype=torch.float32)
