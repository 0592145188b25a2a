# Kernels are compiled by Triton, which infers the types of their arguments from the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""Constraints of parameters, and densities with their slopes, as functions that Triton kernels call.

The formulas are those of location.cpp and parameters.h, where they are explained, with the GPU's approximate logarithm,
power of two and reciprocal; the NLL is accurate to 2e-7.
"""

import os

import triton
import triton.language as tl

PARTS, TERMS = tl.constexpr(32), tl.constexpr(5)  # of the table of ρ's normaliser
SOFTPLUS, EXPONENTIAL = tl.constexpr(1), tl.constexpr(3)
LN2, LOG2E = tl.constexpr(0.6931471805599453), tl.constexpr(1.4426950408889634)

# The interpreter does not support inline assembly.
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")


@triton.jit
def _assembly(x, INSTRUCTION: tl.constexpr):
    return tl.inline_asm_elementwise(INSTRUCTION, "=f,f", [x], tl.float32, is_pure=True, pack=1)


@triton.jit
def fast_log2(x):
    return tl.log2(x) if INTERPRETED else _assembly(x, "lg2.approx.ftz.f32 $0, $1;")


@triton.jit
def fast_exp2(x):
    return tl.exp2(x) if INTERPRETED else _assembly(x, "ex2.approx.ftz.f32 $0, $1;")


@triton.jit
def fast_reciprocal(x):
    return 1.0 / x if INTERPRETED else _assembly(x, "rcp.approx.ftz.f32 $0, $1;")


@triton.jit
def log1p_positive(t):
    """Return log(1 + t) for t ≥ 0."""
    series = t * (1.0 - t * (0.5 - t * (1 / 3 - t * (0.25 - t * (0.2 - t * (1 / 6))))))
    return tl.where(t < 0.125, series, fast_log2(1.0 + t) * LN2)


@triton.jit
def constrained(raw, low, width, CONSTRAINT: tl.constexpr):
    """Return the value of a raw parameter and its slope; the constraints are those of parameters.h."""
    value = raw
    slope = raw * 0.0 + 1.0
    if CONSTRAINT == EXPONENTIAL:
        slope = fast_exp2(tl.minimum(raw, 80.0) * LOG2E)
        value = slope + low
    elif CONSTRAINT:
        t = fast_exp2(-tl.abs(raw) * LOG2E)
        inverse = 1.0 / (1.0 + t)
        sigmoid = tl.where(raw < 0.0, t * inverse, inverse)
        if CONSTRAINT == SOFTPLUS:
            value = (tl.maximum(raw, 0.0) + log1p_positive(t) + low) * width
            slope = sigmoid * width
        else:
            value = low + width * sigmoid
            slope = width * t * inverse * inverse
    return value, slope


@triton.jit
def tail(z, b):
    """Return log(1 + z²/b), z² / (b + z²) and z b / (b + z²)."""
    large = tl.abs(z) > 1e17
    z2 = z * z
    inverse = fast_reciprocal(tl.where(large, z, b + z2))
    q = z2 * fast_reciprocal(b)
    log = fast_log2(tl.where(large, tl.abs(z), 1.0 + q)) * LN2
    log = tl.where(large, 2.0 * log - fast_log2(b) * LN2, tl.where(q < 0.125, log1p_positive(q), log))
    return log, tl.where(large, 1.0, z2 * inverse), b * inverse * tl.where(large, 1.0, z)


@triton.jit
def student_t_normaliser(df):
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
    return -series - 0.5 * LN2 * fast_log2(tl.where(low, product, 1.0)), -0.5 * slope


@triton.jit
def student_t(z, df):
    log, share, pull = tail(z, df)
    more = 1.0 + 1.0 / df
    return 0.5 * (df + 1.0) * log, more * pull, 0.5 * (log - more * share)


@triton.jit
def _distance_from_two(alpha):
    return tl.maximum(tl.abs(tl.minimum(alpha, 7e13) - 2.0), 1.1920929e-7)


@triton.jit
def robust_normaliser(alpha, q_table, r0, r1, r2, s0, s1, s2):
    """Return log Z and its slope; r and s are R's coefficients below and above α = 2."""
    low, above, high = alpha < 1.0, alpha > 2.0, alpha >= 3.0
    b = _distance_from_two(alpha)
    log_b = fast_log2(b) * LN2
    i = fast_reciprocal(alpha)
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
    grown = fast_exp2(exponent * (log_b * LOG2E))
    growth = grown - 1.0
    u = b * growth
    bend = sign * b * log_b * i
    du = growth + grown * (exponent - 2.0 * bend * i)
    chain = q + dt
    # At α = 2 the slope is evaluated one rounding step away; the value is the constant itself.
    near = 0.918938533 + tl.where(alpha == 2.0, 0.0, 0.5 * bend + b * q + u * r)
    near_slope = 0.5 * i * (log_b + 1.0 - bend) + sign * (chain + du * r + u * dr)
    value = tl.where(low, 1.4913034 + alpha * q, tl.where(high, q, near))
    slope = tl.where(low, chain, tl.where(high, t * dt * (-2 / 3), near_slope))
    return tl.where(alpha < 0.0, float("inf"), value), tl.where(alpha < 0.0, 0.0, slope)


@triton.jit
def robust(z, alpha):
    a = tl.minimum(alpha, 7e13)
    b = _distance_from_two(alpha)
    log, share, pull = tail(tl.minimum(tl.maximum(z, -4.6e34), 4.6e34), b)
    i = fast_reciprocal(a)
    g2 = b * share
    x = 0.5 * a * log
    power = fast_exp2(x * LOG2E)
    shrink = fast_exp2((x - log) * LOG2E) - 1.0
    inverse = fast_reciprocal(x)
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
