"""log Z and ρ in arbitrary precision, by the textbook formulas and quadrature: slow, and sharing nothing with ours."""

import functools
from typing import Any

import mpmath as mp

Real = Any  # an mpf, which mpmath leaves untyped


@functools.cache
def log_partition(alpha: float) -> Real:
    """Gauss–Legendre on the density itself, in v = sinh⁻¹ x."""

    def density(v: Real) -> Real:
        return mp.exp(-rho(mp.sinh(v), mp.mpf(alpha))) * mp.cosh(v)

    return mp.log(2 * mp.quad(density, panels(alpha), method="gauss-legendre"))


@functools.cache
def log_partition_slope(alpha: float) -> Real:
    """-E ∂ρ/∂α, again by quadrature."""

    def slope(v: Real) -> Real:
        x = mp.sinh(v)
        return -rho_slopes(x, mp.mpf(alpha))[1] * mp.exp(-rho(x, mp.mpf(alpha))) * mp.cosh(v)

    return 2 * mp.quad(slope, panels(alpha), method="gauss-legendre") / mp.exp(log_partition(alpha))


def panels(alpha: float) -> list[float]:
    """Shorter towards zero, because ρ has branch points at x = ±i√|α - 2|, and long enough for the tail."""
    ends = [0, 1e-4, 1e-2, 0.1, 0.5, 1, 1.5, 2, 2.5, 3, 4, 6]
    return ends + ([9, 13] if alpha < 1.2 else []) + ([20, 30, 50, 75] if alpha < 0.5 else [])


def rho(x: Real, alpha: Real) -> Real:
    if alpha == 0:
        return mp.log1p(x * x / 2)
    if alpha == 2:
        return x * x / 2
    b = abs(alpha - 2)
    return b / alpha * ((x * x / b + 1) ** (alpha / 2) - 1)


def rho_slopes(x: Real, alpha: Real) -> tuple[Real, Real]:
    b = abs(alpha - 2)
    y = x * x / b
    power, log = (1 + y) ** (alpha / 2), mp.log1p(y)
    slope_x = x * (1 + y) ** (alpha / 2 - 1)
    if alpha == 0:
        return slope_x, log**2 / 4 - (log - y / (1 + y)) / 2
    sign = mp.sign(alpha - 2)
    return slope_x, 2 * sign / alpha**2 * (power - 1) + power * (b * log / (2 * alpha) - sign * y / (1 + y) / 2)
