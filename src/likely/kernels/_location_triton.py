# Kernels are compiled by Triton, which reads their types off the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""Triton kernels of likely.kernels._location: every gradient is computed as the data is read.

The formulas are those of location.cpp, where they are explained, with the GPU's own logarithm, power of two and
reciprocal, which are right to 2e-7 of the NLL. A fixed number of programs goes through the blocks; each adds up its own
and writes one sum, so that the result is the same from run to run.
"""

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from likely.kernels._coefficients import partition
from likely.kernels._location import outputs, with_room
from likely.kernels._native import KINDS

PARTS, TERMS = tl.constexpr(32), tl.constexpr(5)
BLOCK, WARPS, PROGRAMS_A_CORE = 1024, 8, 32

NORMAL, LAPLACE, STUDENT_T = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
LN2, LOG2E = tl.constexpr(0.6931471805599453), tl.constexpr(1.4426950408889634)

if os.environ.get("TRITON_INTERPRET") == "1":  # knows no assembly

    @triton.jit
    def _log2(x):
        return tl.log2(x)

    @triton.jit
    def _exp2(x):
        return tl.exp2(x)

    @triton.jit
    def _inverse(x):
        return 1.0 / x

else:

    @triton.jit
    def _log2(x):
        return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)

    @triton.jit
    def _exp2(x):
        return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)

    @triton.jit
    def _inverse(x):
        return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)


@triton.jit
def _tail(z, b):
    """log(1 + z²/b), z² / (b + z²) and z b / (b + z²)."""
    large = tl.abs(z) > 1e17
    z2 = z * z
    inverse = _inverse(tl.where(large, z, b + z2))
    q = z2 * _inverse(b)
    log = _log2(tl.where(large, tl.abs(z), 1.0 + q)) * LN2
    series = q * (1.0 - q * (0.5 - q * (1 / 3 - q * (0.25 - q * (0.2 - q * (1 / 6))))))
    log = tl.where(large, 2.0 * log - _log2(b) * LN2, tl.where(q < 0.125, series, log))
    return log, tl.where(large, 1.0, z2 * inverse), b * inverse * tl.where(large, 1.0, z)


@triton.jit
def _student_t_normaliser(df):
    x = 0.5 * df
    low = x < 4.0
    y = tl.where(low, x + 4.0, x)
    i = 1.0 / y
    s = i * i
    series = i * (-0.125 + s * (1 / 192 + s * (-1 / 640 + s * (17 / 14336))))
    slope = s * (0.125 + s * (-1 / 64 + s * (1 / 128 - s * (17 / 2048))))
    product = y / x
    total = -2.0 / (x * y)
    for j in tl.static_range(4):
        top = x + j
        inverse = 1.0 / (top * (top + 0.5))
        step = top * top * inverse
        product *= step * step
        total += 0.5 * inverse
    slope += tl.where(low, total, 0.0)
    return -series - 0.5 * LN2 * _log2(tl.where(low, product, 1.0)), -0.5 * slope


@triton.jit
def _student_t(z, df):
    log, share, pull = _tail(z, df)
    more = 1.0 + 1.0 / df
    return 0.5 * (df + 1.0) * log, more * pull, 0.5 * (log - more * share)


@triton.jit
def _distance_from_two(alpha):
    return tl.maximum(tl.abs(tl.minimum(alpha, 7e13) - 2.0), 1.1920929e-7)


@triton.jit
def _robust_normaliser(alpha, q_table, r0, r1, r2, s0, s1, s2):
    """log Z and its slope; r and s are R's coefficients below and above α = 2."""
    low, above, high = alpha < 1.0, alpha > 2.0, alpha >= 3.0
    b = _distance_from_two(alpha)
    log_b = _log2(b) * LN2
    i = _inverse(alpha)
    t = tl.where(high, 3.0 * i, tl.sqrt(tl.where(low, tl.maximum(alpha, 0.0), b)))
    part = tl.minimum((t * PARTS).to(tl.int32), PARTS - 1)
    x = (t * PARTS - part.to(tl.float32)) * 2.0 - 1.0
    piece = tl.where(high, 3, tl.where(above, 2, tl.where(low, 0, 1)))
    part = tl.maximum(part + piece * PARTS, 0)  # NaN
    q = tl.load(q_table + (TERMS - 1) * 4 * PARTS + part)
    dq = tl.zeros_like(q)
    for k in tl.static_range(TERMS - 2, -1, -1):
        dq = dq * x + q
        q = q * x + tl.load(q_table + k * 4 * PARTS + part)
    dt = t * dq * PARTS
    r0, r1, r2 = tl.where(above, s0, r0), tl.where(above, s1, r1), tl.where(above, s2, r2)
    r, dr = r0 + b * (r1 + b * r2), r1 + 2.0 * b * r2

    sign = tl.where(above, 1.0, -1.0)
    exponent = 2.0 * i - 1.0
    grown = _exp2(exponent * (log_b * LOG2E))
    growth = grown - 1.0
    u = b * growth
    bend = sign * b * log_b * i
    du = growth + grown * (exponent - 2.0 * bend * i)
    chain = q + dt
    # At α = 2 the slope is taken one rounding step away, the value is the constant itself.
    near = 0.918938533 + tl.where(alpha == 2.0, 0.0, 0.5 * bend + b * q + u * r)
    near_slope = 0.5 * i * (log_b + 1.0 - bend) + sign * (chain + du * r + u * dr)
    value = tl.where(low, 1.4913034 + alpha * q, tl.where(high, q, near))
    slope = tl.where(low, chain, tl.where(high, t * dt * (-2 / 3), near_slope))
    return tl.where(alpha < 0.0, float("inf"), value), tl.where(alpha < 0.0, 0.0, slope)


@triton.jit
def _robust(z, alpha):
    a = tl.minimum(alpha, 7e13)
    b = _distance_from_two(alpha)
    log, share, pull = _tail(tl.minimum(tl.maximum(z, -4.6e34), 4.6e34), b)
    i = _inverse(a)
    g2 = b * share
    x = 0.5 * a * log
    power = _exp2(x * LOG2E)
    shrink = _exp2((x - log) * LOG2E) - 1.0
    inverse = _inverse(x)
    far = (power - 1.0) * inverse
    small = x < 0.25
    near = 1.0 + x * (0.5 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x * (1 / 720)))))
    near_slope = 0.5 + x * (1 / 3 + x * (1 / 8 + x * (1 / 30 + x * (1 / 144 + x * (1 / 840)))))
    rel_slope = tl.where(small, near_slope, (power - far) * inverse)
    above = (g2 * power + b * shrink) * i
    above_slope = i * (0.5 * power * (b * log - (2.0 * i + 1.0) * g2) + 2.0 * tl.where(a > 2.0, shrink, -shrink) * i)
    below = 0.5 * b * log * tl.where(small, near, far)
    below_slope = 0.5 * (log * log * rel_slope - power * (log - share))
    high = a >= 1.0
    return tl.where(high, above, below), pull * power, tl.where(high, above_slope, below_slope)


@triton.jit
def _location_kernel(
    prediction,
    target,
    scale,
    shape,
    upstream,
    each,
    d_prediction,
    d_scale,
    d_shape,
    sums,
    q_table,
    r_table,
    n,
    constant,
    factor,
    KIND: tl.constexpr,
    SCALES: tl.constexpr,
    SHAPES: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program, programs = tl.program_id(0), tl.num_programs(0)
    sigma = tl.load(scale).to(tl.float32)
    inverse = _inverse(sigma)
    log_sigma = _log2(sigma) * LN2 + constant
    log_z, log_z_slope = 0.0, 0.0
    phi = 1.0
    r0, r1, r2 = tl.load(r_table + PARTS), tl.load(r_table + 5 * PARTS), tl.load(r_table + 9 * PARTS)
    s0, s1, s2 = tl.load(r_table + 2 * PARTS), tl.load(r_table + 6 * PARTS), tl.load(r_table + 10 * PARTS)
    if KIND >= STUDENT_T:
        phi = tl.load(shape).to(tl.float32)
        if KIND == STUDENT_T:
            log_z, log_z_slope = _student_t_normaliser(phi)
        else:
            log_z, log_z_slope = _robust_normaliser(phi, q_table, r0, r1, r2, s0, s1, s2)
    total = tl.zeros([BLOCK], tl.float32)
    scale_total = tl.zeros([BLOCK], tl.float32)
    shape_total = tl.zeros([BLOCK], tl.float32)
    for block in range(program, tl.cdiv(n, BLOCK), programs):
        index = (block.to(tl.int64) if WIDE else block) * BLOCK + tl.arange(0, BLOCK)
        mask = index < n
        y = tl.load(target + index, mask, other=0.0).to(tl.float32)
        x = tl.load(prediction + index, mask, other=0.0).to(tl.float32)
        own_inverse, own_log = inverse, log_sigma
        if SCALES:
            own = tl.load(scale + index, mask, other=1.0).to(tl.float32)
            own_inverse, own_log = _inverse(own), _log2(own) * LN2 + constant
        z = (y - x) * own_inverse
        value = tl.zeros([BLOCK], tl.float32) + own_log
        shape_slope = tl.zeros([BLOCK], tl.float32)
        if KIND == NORMAL:
            value += 0.5 * z * z
            slope = z
        elif KIND == LAPLACE:
            value += tl.abs(z)
            slope = tl.where(z > 0, 1.0, tl.where(z < 0, -1.0, z))
        else:
            own_phi = tl.load(shape + index, mask, other=1.0).to(tl.float32) if SHAPES else phi
            own_z, own_z_slope = log_z, log_z_slope
            if KIND == STUDENT_T:
                if SHAPES:
                    own_z, own_z_slope = _student_t_normaliser(own_phi)
                psi, slope, psi_slope = _student_t(z, own_phi)
            else:
                if SHAPES:
                    own_z, own_z_slope = _robust_normaliser(own_phi, q_table, r0, r1, r2, s0, s1, s2)
                psi, slope, psi_slope = _robust(z, own_phi)
            value += psi + own_z
            shape_slope += psi_slope + own_z_slope
        weight = factor
        if upstream is not None:
            weight *= tl.load(upstream + index, mask, other=0.0)
        scale_slope = weight * (1.0 - z * slope) * own_inverse
        if each is not None:
            tl.store(each + index, value, mask)
        if d_prediction is not None:
            tl.store(d_prediction + index, -weight * slope * own_inverse, mask)
        if d_scale is not None:
            tl.store(d_scale + index, scale_slope, mask)
        if d_shape is not None:
            tl.store(d_shape + index, weight * shape_slope, mask)
        if sums is not None:
            total += tl.where(mask, weight * value, 0.0)
            if not SCALES:
                scale_total += tl.where(mask, scale_slope, 0.0)
            if KIND >= STUDENT_T and not SHAPES:
                shape_total += tl.where(mask, weight * shape_slope, 0.0)
    if sums is not None:
        tl.store(sums + program, tl.sum(total))
        tl.store(sums + programs + program, tl.sum(scale_total))
        tl.store(sums + 2 * programs + program, tl.sum(shape_total))


@triton.jit
def _scale_by(values, by, n, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        index = (block.to(tl.int64) if WIDE else block) * BLOCK + tl.arange(0, BLOCK)
        mask = index < n
        tl.store(values + index, tl.load(values + index, mask).to(tl.float32) * by, mask)


@triton.jit
def _rescale_kernel(first, second, third, factor, n0, n1, n2, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    by = tl.load(factor).to(tl.float32)
    if by != 1.0:
        _scale_by(first, by, n0, WIDE, BLOCK)
        if second is not None:
            _scale_by(second, by, n1, WIDE, BLOCK)
        if third is not None:
            _scale_by(third, by, n2, WIDE, BLOCK)


@cache
def _tables(device: torch.device) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(t).to(device) for t in partition(PARTS.value, TERMS.value))


@cache
def _cores(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


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
    each: Tensor | None = None,
    slopes: Sequence[Tensor] = (),
    sums: bool = False,
) -> Tensor:
    """Fill ``each`` and the slopes that have more than one element; sums of every program for those that have one."""
    n = prediction.numel()
    programs = min(triton.cdiv(n, BLOCK), PROGRAMS_A_CORE * _cores(prediction.device))
    partial = prediction.new_empty((3, programs), dtype=torch.float32)
    room = with_room(slopes) or [None] * 3
    with torch.cuda.device_of(prediction):
        _location_kernel[(programs,)](
            prediction,
            target,
            scale,
            shape,
            upstream,
            each,
            *room,
            partial if sums else None,
            *_tables(prediction.device),
            n,
            constant,
            factor,
            KIND=KINDS.index(kind),
            SCALES=scale.numel() > 1,
            SHAPES=shape is not None and shape.numel() > 1,
            WIDE=n > 2**31 - BLOCK,
            BLOCK=BLOCK,
            num_warps=WARPS,
        )
    return partial


def _filled(slopes: Sequence[Tensor], partial: Tensor) -> tuple[Tensor, ...]:
    """The slopes, those of parameters that are one number from their sums."""
    return tuple(
        partial[k].sum().to(slope.dtype).view(slope.shape) if k and slope.numel() == 1 else slope
        for k, slope in enumerate(slopes)
    )


def location_sum(*given: Any) -> tuple[Tensor, ...]:
    *inputs, constant, factor, wanted = given
    slopes = outputs(inputs, wanted)
    partial = _launch(*inputs, constant=constant, factor=factor, slopes=slopes, sums=True)
    return partial[0].sum(), *_filled(slopes, partial)


def location_each(*given: Any) -> Tensor:
    *inputs, constant = given
    each = torch.empty_like(inputs[1], dtype=torch.float32)
    _launch(*inputs, constant=constant, each=each)
    return each


def location_slopes(*given: Any) -> tuple[Tensor, ...]:
    *inputs, upstream, wanted = given
    slopes = outputs(inputs, wanted)
    single = any(s.numel() == 1 for s in slopes[1:])
    return _filled(slopes, _launch(*inputs, upstream=upstream.contiguous(), slopes=slopes, sums=single))


def rescale_(values: Sequence[Tensor], factor: Tensor) -> None:
    for few in (values[k : k + 3] for k in range(0, len(values), 3)):
        sizes = [v.numel() for v in few]
        programs = min(triton.cdiv(max(sizes), BLOCK), 4 * _cores(factor.device))  # few: most have nothing to do
        with torch.cuda.device_of(factor):
            _rescale_kernel[(programs,)](
                *[*few, None, None][:3],
                factor,
                *[*sizes, 0, 0][:3],
                WIDE=max(sizes) > 2**31 - BLOCK,
                BLOCK=BLOCK,
                num_warps=WARPS,
            )
