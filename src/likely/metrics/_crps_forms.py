r"""The CRPS of each family.

For a symmetric density with mean 0 and scale 1,

.. math:: \mathrm{CRPS}(z) = z (2F(z) - 1) - 2 \int_0^{|z|} x f(x)\,dx + 2 \int_0^\infty (1 - F(x))^2 dx,

which stays finite and exact where the mean is infinite: the last term depends on the shape alone.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import distributions as td
from torch.distributions import Distribution

from likely import functional
from likely._special import log1p_square
from likely.distributions import Huber, Robust, StudentT, _reach
from likely.metrics._input import Array, row_blocks
from likely.metrics._predictive import cdf, check_support, in_double, quantile, through_torch

_SQRT_PI, _SQRT_2PI = math.sqrt(math.pi), math.sqrt(2 * math.pi)
_NODES = 24
# Panels from 0 to a residual, over the whole half line, and for a CDF that may have kinks.
_NEAR, _FAR, _ANY = 4, 16, 32


def crps_values(distribution: Distribution, y: Array) -> Array:
    """The CRPS of each target: by formula, by the distribution's own ``crps`` if it has one, or by quadrature."""
    form = _FORMS.get(type(distribution))  # not a subclass: it may have changed what the formula rests on
    if form is not None:
        with np.errstate(over="ignore", under="ignore"):
            return form(distribution, y)
    own = getattr(distribution, "crps", None)
    return through_torch(distribution, "crps", y) if callable(own) else _by_quadrature(distribution, y)


def _by_quadrature(distribution: Distribution, y: Array) -> Array:
    """The same three terms about the median of any continuous CDF, by Gauss–Legendre sums in sinh⁻¹."""
    middle = quantile(distribution, 0.5)
    width = quantile(distribution, 0.75) - quantile(distribution, 0.25)
    width = np.where(width > 0, width, 1.0)
    nodes, weights, _ = _rule()

    def integral(f: Callable[[Array], Array], end: Array) -> Array:
        """∫ f over distances from the median up to ``end``."""
        stop = np.arcsinh(np.minimum(end / width, 1e17))
        total = np.zeros(y.shape)
        for panel in range(_ANY):
            for node, weight in zip(nodes, weights, strict=True):
                v = stop * (panel + node) / _ANY
                total += weight * np.cosh(v) * f(width * np.sinh(v))
        return np.asarray(total * width * stop / _ANY)

    tail = 1e-12 if in_double(distribution) else 1e-6
    right = integral(lambda x: (1 - cdf(distribution, middle + x)) ** 2, quantile(distribution, 1 - tail) - middle)
    left = integral(lambda x: cdf(distribution, middle - x) ** 2, middle - quantile(distribution, tail))
    side = np.sign(y - middle)
    inner = integral(lambda x: side * (2 * cdf(distribution, middle + side * x) - 1), np.abs(y - middle))
    return np.asarray(inner + left + right)


def _standard(distribution: Distribution, y: Array) -> tuple[Array, Array]:
    loc, scale = distribution.loc.numpy(), distribution.scale.numpy()  # type: ignore[attr-defined]
    return (y - loc) / scale, scale


def _normal(distribution: td.Normal, y: Array) -> Array:
    z, scale = _standard(distribution, y)
    density = np.exp(-0.5 * z**2) / _SQRT_2PI
    return np.asarray(scale * (z * special.erf(z / math.sqrt(2)) + 2 * density - 1 / _SQRT_PI))


def _laplace(distribution: td.Laplace, y: Array) -> Array:
    z, scale = _standard(distribution, y)
    return np.asarray(scale * (np.abs(z) + np.expm1(-np.abs(z)) + 0.25))


def _student(distribution: StudentT, y: Array) -> Array:
    """Finite from ½ degree of freedom on; the usual formula, arranged to hold at and below 1 too."""
    z, scale = _standard(distribution, y)
    df = np.maximum(distribution.df.numpy(), 0.5)
    height = 1 / (np.sqrt(df) * special.beta(0.5, 0.5 * df))
    spread = log1p_square(torch.from_numpy(z / np.sqrt(df))).numpy()
    moment = height * df * 0.5 * spread * special.exprel(-0.5 * (df - 1) * spread)
    constant = 2 * df * height * _student_shape(df)
    crps = z * (2 * special.stdtr(df, z) - 1) - 2 * moment + constant
    return np.asarray(np.where(df > 0.5, scale * crps, np.inf))


def _student_shape(df: Array) -> Array:
    """(1 - B(½, ν-½) / B(½, ν/2)) / (ν - 1), by a series of the logarithm where that is 0/0."""
    e = df - 1
    near = np.abs(e) < 1e-4
    slope = -math.log(2) + e * (math.pi**2 / 8 - e * 1.75 * float(special.zeta(3)))
    log_ratio = special.betaln(0.5, df - 0.5) - special.betaln(0.5, 0.5 * df)
    away = -np.expm1(log_ratio) / np.where(near, 1, e)
    return np.asarray(np.where(near, -slope * special.exprel(e * slope), away))


def _huber(distribution: Huber, y: Array) -> Array:
    z, scale = _standard(distribution, y)
    size = np.abs(z)
    d = np.minimum(np.atleast_1d(distribution.delta.numpy()), 38.0)  # beyond, the tails weigh less than rounding
    tip = np.exp(-0.5 * d**2)
    partition = functional.huber_log_partition(torch.from_numpy(d)).exp().numpy()
    tail = tip / (d * partition)
    inside, beyond = np.minimum(size, d), np.maximum(size - d, 0)
    centre = _SQRT_2PI * special.erf(inside / math.sqrt(2)) / partition
    mass = np.where(size <= d, centre, 1 - 2 * tail * np.exp(-d * beyond))
    outer = tail * (d + 1 / d - (size + 1 / d) * np.exp(-d * beyond))
    moment = -np.expm1(-0.5 * inside**2) / partition + np.where(size <= d, 0.0, outer)
    return np.asarray(scale * (size * mass - 2 * moment + _huber_constant(d, partition, tail)))


def _huber_constant(d: Array, partition: Array, tail: Array) -> Array:
    """2∫(1 - F)², the centre by the integrals of Φ and Φ²."""
    share = _SQRT_2PI / partition
    phi, density = special.ndtr(d), np.exp(-0.5 * d**2) / _SQRT_2PI
    first = d * phi + density - 1 / _SQRT_2PI  # ∫₀ᵈ Φ
    second = d * phi**2 + 2 * phi * density - 1 / _SQRT_2PI - (special.ndtr(math.sqrt(2) * d) - 0.5) / _SQRT_PI
    half = first - 0.5 * d  # ∫₀ᵈ (Φ - ½)
    square = second - first + 0.25 * d
    return np.asarray(2 * (0.25 * d - share * half + share**2 * square + tail**2 / (2 * d)))


def _robust(distribution: Robust, y: Array) -> Array:
    """By Gauss–Legendre sums in sinh⁻¹ x, right to 1e-12."""
    z, scale = _standard(distribution, y)
    alpha = np.broadcast_to(distribution.alpha.numpy(), z.shape).flatten()
    shapes, which = np.unique(alpha, return_inverse=True)
    constant = np.concatenate([_robust_constant(shapes[block]) for block in row_blocks(len(shapes), _FAR * _NODES)])
    size = np.abs(z).ravel()
    crps = constant[which]
    for block in row_blocks(len(size), _NEAR * _NODES):
        end = np.minimum(np.arcsinh(size[block]), _end(alpha[block]))
        x, density, width = _on_panels(alpha[block], end, _NEAR)
        mass = density * width * _rule()[1]
        crps[block] += 2 * (size[block] * mass.sum((1, 2)) - (mass * x).sum((1, 2)))
    return np.asarray(scale * crps.reshape(z.shape))


def _robust_constant(alpha: Array) -> Array:
    """2∫(1 - F)²: the tails at the nodes are sums over the panels to their right."""
    _, weights, upto = _rule()
    x, density, width = _on_panels(alpha, _end(alpha), _FAR)
    mass = (density * width * weights).sum(-1)
    from_here = np.flip(np.cumsum(np.flip(mass, 1), 1), 1)
    tail = from_here[..., None] - width * (density @ upto.T)
    return np.asarray(2 * (tail**2 * np.hypot(1, x) * width * weights).sum((1, 2)))


def _end(alpha: Array) -> Array:
    """Where the density has fallen by e⁻⁸⁰, or x by e⁴⁰: what lies beyond is lost in rounding."""
    return np.asarray(np.arcsinh(_reach(torch.from_numpy(np.minimum(alpha, 1e8)), 80.0).numpy()))


def _on_panels(alpha: Array, end: Array, panels: int) -> tuple[Array, Array, Array]:
    """Points x = sinh v on panels over v ≤ end, the density in v there, and the width of the panels."""
    v = end[:, None, None] * (np.arange(panels)[:, None] + _rule()[0]) / panels
    x = np.sinh(v)
    shape = torch.from_numpy(alpha)[:, None, None]
    log_density = Robust(shape, 0.0, 1.0, validate_args=False).log_prob(torch.from_numpy(x)).numpy()
    return x, np.exp(log_density) * np.cosh(v), end[:, None, None] / panels


@cache
def _rule() -> tuple[Array, Array, Array]:
    """Gauss–Legendre nodes and weights on [0, 1], and the matrix that integrates from 0 up to each node."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    degree = np.arange(len(nodes))
    values = np.polynomial.legendre.legvander(nodes, len(nodes))
    below = np.concatenate([-np.ones((len(nodes), 1)), values[:, :-2]], 1)  # P₋₁ = -1: ∫P₀ starts at -1
    integrals = (values[:, 1:] - below) / (2 * degree + 1)
    upto = integrals @ (values[:, :-1] * weights[:, None] * (degree + 0.5)).T
    return (nodes + 1) / 2, weights / 2, upto / 2


def _poisson(distribution: td.Poisson, y: Array) -> Array:
    """Wei & Held (2014)."""
    rate, whole = distribution.rate.numpy(), np.floor(y)
    log_point = special.xlogy(whole.clip(0), rate) - rate - special.gammaln(whole.clip(0) + 1)
    point = np.where(whole < 0, 0.0, np.exp(log_point))
    spread = special.ive(0, 2 * rate) + special.ive(1, 2 * rate)
    return np.asarray((y - rate) * (2 * cdf(distribution, y) - 1) + rate * (2 * point - spread))


def _negative_binomial(distribution: td.NegativeBinomial, y: Array) -> Array:
    """E|X - y| in closed form; ½E|X - X'| by its Fourier integral, which no small dispersion harms."""
    count, odds = distribution.total_count.numpy(), np.exp(distribution.logits.numpy())
    mean = count * odds
    longer = td.NegativeBinomial(distribution.total_count + 1, logits=distribution.logits, validate_args=False)
    distance = y * (2 * cdf(distribution, y) - 1) - mean * (2 * cdf(longer, y - 1) - 1)
    count, spread = np.broadcast_arrays(count, odds * (1 + odds))
    pairs, which = np.unique(np.stack([count.ravel(), spread.ravel()]), axis=1, return_inverse=True)
    half = np.concatenate([_half_difference(*pairs[:, block]) for block in row_blocks(pairs.shape[1], 1200)])
    return np.asarray(distance - half[which.ravel()].reshape(count.shape))


def _half_difference(count: Array, spread: Array) -> Array:
    """½E|X - X'| = ∫ (1 - |φ|²) / (2 sin²θ) dθ / π over [0, π/2], by the trapezoid rule in log tan θ."""
    step = 0.1
    log_tan = np.arange(-80, 40, step)
    sine = 1 / (1 + np.exp(-2 * log_tan))  # sin²θ
    fall = -np.expm1(-count[:, None] * np.log1p(4 * spread[:, None] * sine))
    # dθ = sin θ cos θ d(log tan θ)
    return np.asarray((fall * 0.5 * np.exp(-log_tan)).sum(1) * step / math.pi)


def _bernoulli(distribution: td.Bernoulli, y: Array) -> Array:
    check_support(distribution, y)
    return np.asarray((distribution.probs.numpy() - y) ** 2)


def _categorical(distribution: td.Categorical, y: Array) -> Array:
    """The ranked probability score: classes are taken in their order."""
    check_support(distribution, y)
    reached = np.arange(distribution.param_shape[-1] - 1) >= y[..., None]
    return np.asarray(np.square(distribution.probs.numpy().cumsum(-1)[..., :-1] - reached).sum(-1))


_FORMS: dict[type[Distribution], Callable[[Any, Array], Array]] = {
    td.Normal: _normal,
    td.Laplace: _laplace,
    StudentT: _student,
    Huber: _huber,
    Robust: _robust,
    td.Poisson: _poisson,
    td.NegativeBinomial: _negative_binomial,
    td.Bernoulli: _bernoulli,
    td.Categorical: _categorical,
}
