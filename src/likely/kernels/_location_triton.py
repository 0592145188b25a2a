# Kernels are compiled by Triton, which reads their types off the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""Triton kernels of likely.kernels._location: every gradient is computed as the data is read.

The formulas are those of location.cpp, where they are explained, with the GPU's own logarithm, power of two and
reciprocal, which are right to 2e-7 of the NLL. A fixed number of programs goes through the blocks; each adds up its own
and writes one sum, so that the result is the same from run to run.
"""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from likely.kernels._coefficients import partition
from likely.kernels._direct import Location
from likely.kernels._location import outputs, with_room
from likely.kernels._native import KINDS, Layout

PARTS, TERMS = tl.constexpr(32), tl.constexpr(5)
BLOCK, WARPS, PROGRAMS_A_CORE = 1024, 8, 32
ALONE = 16 * BLOCK  # elements that one program goes through, so that nothing is left to add up

NORMAL, LAPLACE, STUDENT_T, ROBUST = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
ONE, EACH, GROUPS = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)  # how a parameter is read
SOFTPLUS = tl.constexpr(1)
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
def _log1p(t):
    """log(1 + t) for t from 0 on."""
    series = t * (1.0 - t * (0.5 - t * (1 / 3 - t * (0.25 - t * (0.2 - t * (1 / 6))))))
    return tl.where(t < 0.125, series, _log2(1.0 + t) * LN2)


@triton.jit
def constrained(raw, low, width, CONSTRAINT: tl.constexpr):
    """The value of a raw parameter, and its slope; the constraints are those of parameters.h."""
    value = raw
    slope = raw * 0.0 + 1.0
    if CONSTRAINT:
        t = _exp2(-tl.abs(raw) * LOG2E)
        inverse = 1.0 / (1.0 + t)
        sigmoid = tl.where(raw < 0.0, t * inverse, inverse)
        if CONSTRAINT == SOFTPLUS:
            value = (tl.maximum(raw, 0.0) + _log1p(t) + low) * width
            slope = sigmoid * width
        else:
            value = low + width * sigmoid
            slope = width * t * inverse * inverse
    return value, slope


@triton.jit
def _tail(z, b):
    """log(1 + z²/b), z² / (b + z²) and z b / (b + z²)."""
    large = tl.abs(z) > 1e17
    z2 = z * z
    inverse = _inverse(tl.where(large, z, b + z2))
    q = z2 * _inverse(b)
    log = _log2(tl.where(large, tl.abs(z), 1.0 + q)) * LN2
    log = tl.where(large, 2.0 * log - _log2(b) * LN2, tl.where(q < 0.125, _log1p(q), log))
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
    inverse = _inverse(sigma)
    log_sigma = _log2(sigma) * LN2 + constant
    log_z, log_z_slope = 0.0, 0.0
    phi, phi_slope = 1.0, 1.0
    r0, r1, r2 = tl.load(r_table + PARTS), tl.load(r_table + 5 * PARTS), tl.load(r_table + 9 * PARTS)
    s0, s1, s2 = tl.load(r_table + 2 * PARTS), tl.load(r_table + 6 * PARTS), tl.load(r_table + 10 * PARTS)
    HAS_SHAPE: tl.constexpr = not (KIND < STUDENT_T or KIND > ROBUST)
    if HAS_SHAPE:
        phi, phi_slope = constrained(tl.load(shape).to(tl.float32), shape_low, shape_width, SHAPE_CONSTRAINT)
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
        own_inverse, own_log, own_slope = inverse, log_sigma, sigma_slope
        if SCALES:
            place = (index // scale_inner) % scale_count if SCALES == GROUPS else index
            raw = tl.load(scale + place, mask, other=1.0).to(tl.float32)
            own_sigma, own_slope = constrained(raw, scale_low, scale_width, SCALE_CONSTRAINT)
            own_inverse, own_log = _inverse(own_sigma), _log2(own_sigma) * LN2 + constant
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
            t = _exp2(-tl.abs(z) * LOG2E)
            opposite = 1.0 / (1.0 + t)
            value = tl.maximum(z, 0.0) + _log1p(t) - y * z + constant
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
                    own_z, own_z_slope = _student_t_normaliser(own_phi)
                psi, slope, psi_slope = _student_t(z, own_phi)
            else:
                if SHAPES:
                    own_z, own_z_slope = _robust_normaliser(own_phi, q_table, r0, r1, r2, s0, s1, s2)
                psi, slope, psi_slope = _robust(z, own_phi)
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


@triton.jit
def _add_up_kernel(losses, counts, slopes, loss, factor, slope, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    mask = index < n
    total = tl.sum(tl.load(losses + index, mask, other=0.0))
    if counts is not None:
        share = 1.0 / tl.maximum(tl.sum(tl.load(counts + index, mask, other=0.0)), 1.0)
        tl.store(factor, share)
        total *= share
    tl.store(loss, total)
    if slopes is not None:
        tl.store(slope, tl.sum(tl.load(slopes + index, mask, other=0.0)))


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
def cores(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


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

    It writes each NLL and the slopes of prediction, scale and shape into ``results``, one number per element, and the
    sums of every program, of the loss and of the slopes of parameters that are one number, into ``sums``.
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


def on_device(tensor: Tensor) -> AbstractContextManager[Any]:
    """The tensor's device, entered only where it is not the current one."""
    elsewhere = tensor.is_cuda and tensor.get_device() != torch.cuda.current_device()
    return torch.cuda.device_of(tensor) if elsewhere else nullcontext()


def add_up(
    losses: Tensor, counts: Tensor | None, slopes: Tensor | None, slope: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The sum of losses, over that of counts where they are given, and one over the latter; ``slopes`` go to ``slope``.

    One launch in the place of several operations, each of which takes the host as long.
    """
    loss = losses.new_empty(())
    factor = None if counts is None else losses.new_empty(())
    with on_device(losses):
        _add_up_kernel[(1,)](
            losses, counts, slopes, loss, factor, slope, len(losses), BLOCK=triton.next_power_of_2(len(losses))
        )
    return loss, factor


def _programs(tensor: Tensor) -> int:
    return min(triton.cdiv(tensor.numel(), BLOCK), PROGRAMS_A_CORE * cores(tensor.device))


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
    """Fill ``losses`` and the slopes that have more than one element; sums of every program for those that have one."""
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
    """The loss of raw parameters; their gradients and the prediction's are written into ``slopes``."""
    prediction, target, *raw = tensors
    n = prediction.numel()
    programs = 1 if n <= ALONE else _programs(prediction)
    loss = prediction.new_empty(() if programs == 1 else programs)
    layouts = (*job.layouts, Layout())[:2]
    element_slopes: list[
        Tensor | None
    ] = []  # slopes of every element, and the sums of those of parameters that are one number
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
    """The slopes, those of parameters that are one number from their sums."""
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


def rescale_(values: Sequence[Tensor], factor: Tensor) -> None:
    for few in (values[k : k + 3] for k in range(0, len(values), 3)):
        sizes = [v.numel() for v in few]
        programs = min(triton.cdiv(max(sizes), BLOCK), 4 * cores(factor.device))  # few: most have nothing to do
        with torch.cuda.device_of(factor):
            _rescale_kernel[(programs,)](
                *[*few, None, None][:3],
                factor,
                *[*sizes, 0, 0][:3],
                WIDE=max(sizes) > 2**31 - BLOCK,
                BLOCK=BLOCK,
                num_warps=WARPS,
            )
