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
from likely._kernels._native import Layout, Slopes
from likely._kernels._reduce_triton import BLOCK, WARPS, add_up, cores
from likely._launch_triton import Kernel
from likely._numerics.partition import partition

PROGRAMS_PER_CORE = 32
ALONE = 16 * BLOCK  # largest number of elements for a single program, whose sums are final

# In the order of likely._kernels.KINDS.
NORMAL, LAPLACE, STUDENT_T = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
ROBUST, BERNOULLI = tl.constexpr(3), tl.constexpr(4)
GROUPS = tl.constexpr(2)  # values of a parameter: 0, one; 1, one per element; 2, one per group


@triton.jit
def _read(raw, index, mask, inner, numbers, CONSTRAINT: tl.constexpr, low, width, VALUES: tl.constexpr):
    """Return the values of a parameter for the elements of a block, and their slopes in the raw numbers."""
    place = (index // inner) % numbers if VALUES == GROUPS else index
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
    """Return the NLL of a label y at the logit -z, and its slope."""
    t = fast_exp2(-tl.abs(z) * LOG2E)
    opposite = 1.0 / (1.0 + t)
    value = tl.maximum(-z, 0.0) + log1p_positive(t) + y * z
    return value, y - tl.where(z > 0.0, t * opposite, opposite)


@triton.jit
def _density(z, y, phi, KIND: tl.constexpr):
    """Return the NLL of a standardised residual but for its normaliser, and its slopes in z and in the shape."""
    shape_slope = tl.zeros_like(z)
    if KIND == NORMAL:
        value, slope = 0.5 * z * z, z
    elif KIND == LAPLACE:
        value, slope = tl.abs(z), tl.where(z > 0, 1.0, tl.where(z < 0, -1.0, z))
    elif KIND == STUDENT_T:
        value, slope, shape_slope = student_t(z, phi)
    elif KIND == ROBUST:
        value, slope, shape_slope = robust(z, phi)
    else:
        value, slope = _bernoulli(z, y)
    return value, slope, shape_slope


@Kernel
@triton.jit
def _location_kernel(
    prediction,
    target,
    scale,
    shape,
    upstream,
    losses,
    sums,
    d_prediction,
    d_scale,
    d_shape,
    q_table,
    r_table,
    n,
    constant,
    factor,
    scale_inner,
    scale_numbers,
    SCALE_CONSTRAINT: tl.constexpr,
    scale_low,
    scale_width,
    shape_inner,
    shape_numbers,
    SHAPE_CONSTRAINT: tl.constexpr,
    shape_low,
    shape_width,
    KIND: tl.constexpr,
    SCALES: tl.constexpr,
    SHAPES: tl.constexpr,
    WIDE: tl.constexpr,
    ALONE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write losses, or their sum per program, and slopes; those of a parameter with one number as sums too."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    sigma, sigma_slope = constrained(tl.load(scale).to(tl.float32), scale_low, scale_width, SCALE_CONSTRAINT)
    inverse, log_sigma = fast_reciprocal(sigma), fast_log2(sigma) * LN2 + constant
    r0, r1, r2 = tl.load(r_table + PARTS), tl.load(r_table + 5 * PARTS), tl.load(r_table + 9 * PARTS)
    s0, s1, s2 = tl.load(r_table + 2 * PARTS), tl.load(r_table + 6 * PARTS), tl.load(r_table + 10 * PARTS)
    phi, phi_slope, log_z, log_z_slope = 1.0, 1.0, 0.0, 0.0
    if shape is not None:
        phi, phi_slope = constrained(tl.load(shape).to(tl.float32), shape_low, shape_width, SHAPE_CONSTRAINT)
        log_z, log_z_slope = _normaliser(phi, q_table, r0, r1, r2, s0, s1, s2, KIND)
    total = tl.zeros([BLOCK], tl.float32)
    scale_total, shape_total = total, total
    for block in range(program, tl.cdiv(n, BLOCK), programs):
        index = (block.to(tl.int64) if WIDE else block) * BLOCK + tl.arange(0, BLOCK)
        mask = index < n
        y = tl.load(target + index, mask, other=0.0).to(tl.float32)
        x = tl.load(prediction + index, mask, other=0.0).to(tl.float32)
        own_inverse, own_log, own_slope = inverse, log_sigma, sigma_slope
        if SCALES:
            own_sigma, own_slope = _read(
                scale, index, mask, scale_inner, scale_numbers, SCALE_CONSTRAINT, scale_low, scale_width, SCALES
            )
            own_inverse, own_log = fast_reciprocal(own_sigma), fast_log2(own_sigma) * LN2 + constant
        own_phi, own_phi_slope, own_z, own_z_slope = phi, phi_slope, log_z, log_z_slope
        if SHAPES:
            own_phi, own_phi_slope = _read(
                shape, index, mask, shape_inner, shape_numbers, SHAPE_CONSTRAINT, shape_low, shape_width, SHAPES
            )
            own_z, own_z_slope = _normaliser(own_phi, q_table, r0, r1, r2, s0, s1, s2, KIND)
        if KIND == BERNOULLI:  # a logit over a temperature has no normaliser
            z, own_log, unit = -x * own_inverse, constant, 0.0
        else:
            z, unit = (y - x) * own_inverse, 1.0
        value, slope, shape_slope = _density(z, y, own_phi, KIND)
        value = own_log + (value + own_z)
        shape_slope += own_z_slope
        weight = factor
        if upstream is not None:
            weight *= tl.load(upstream + index, mask, other=0.0)
        scale_slope = weight * (unit - z * slope) * own_inverse
        if SCALE_CONSTRAINT:
            scale_slope *= own_slope
        if SHAPE_CONSTRAINT:
            shape_slope *= own_phi_slope
        if losses is not None:
            tl.store(losses + index, value, mask)
        if sums is not None:
            total += tl.where(mask, weight * value, 0.0)
        if d_prediction is not None:
            tl.store(d_prediction + index, -weight * slope * own_inverse, mask)
        if d_scale is not None:
            if SCALES:
                tl.store(d_scale + index, scale_slope, mask)
            else:
                scale_total += tl.where(mask, scale_slope, 0.0)
        if d_shape is not None:
            if SHAPES:
                tl.store(d_shape + index, weight * shape_slope, mask)
            else:
                shape_total += tl.where(mask, weight * shape_slope, 0.0)
    if sums is not None:
        tl.store(sums + program, tl.sum(total))
    if d_scale is not None and not SCALES:
        tl.store(d_scale if ALONE else sums + programs + program, tl.sum(scale_total))
    if d_shape is not None and not SHAPES:
        tl.store(d_shape if ALONE else sums + 2 * programs + program, tl.sum(shape_total))


@cache
def _tables(device: torch.device) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(t).to(device) for t in partition(PARTS.value, TERMS.value))


def _values(layout: Layout, n: int) -> int:
    """How many values of a parameter there are for n elements: one, one per element, or one per group."""
    return 0 if layout.numbers == 1 else 1 if layout.numbers == n else GROUPS.value


def location(
    job: Location,
    tensors: Sequence[Tensor],
    slopes: Slopes,
    losses: Tensor | None,
    upstream: Tensor | None,
) -> Tensor | None:
    """Return the loss of raw parameters; write their gradients and the prediction's into ``slopes``.

    With ``losses``, every NLL is written there instead; ``upstream`` multiplies each in the gradients.
    """
    prediction = tensors[0]
    n = prediction.numel()
    scale, shape = layouts = (*job.layouts, Layout())[:2]
    programs = 1 if n <= ALONE else min(triton.cdiv(n, BLOCK), PROGRAMS_PER_CORE * cores(prediction.device))
    d_prediction, *d_parameters = (*slopes, None)[:3]
    room = () if programs == 1 else (3, programs)
    sums = prediction.new_empty(room, dtype=torch.float32) if losses is None else None
    values = [_values(own, n) for own in layouts]
    pairs = list(zip(d_parameters, values, strict=True))
    written = [
        prediction.new_empty(n, dtype=torch.float32) if s is not None and value == GROUPS.value else s
        for s, value in pairs
    ]
    data, tables = (*tensors, None)[:4], _tables(prediction.device)
    _location_kernel(
        programs,
        WARPS,
        (*data, upstream, losses, sums, d_prediction, *written, *tables),
        n,
        job.constant,
        job.factor,
        *scale,
        *shape,
        KIND=job.kind,
        SCALES=values[0],
        SHAPES=values[1],
        WIDE=n > 2**31 - BLOCK,
        ALONE=programs == 1,
        BLOCK=BLOCK,
    )
    for slope, own, wide in zip(d_parameters, layouts, written, strict=True):
        if slope is not None and wide is not None and wide is not slope:
            parts = wide.view(-1, own.numbers, own.inner)
            torch.sum(parts, (0, 2), dtype=slope.dtype, out=slope.view(-1))
    if sums is None or programs == 1:
        return sums
    first, second = (None if value else s for s, value in pairs)
    return add_up(sums, first=first, second=second)[0]
