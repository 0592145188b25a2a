r"""ρ(z, α), Barron's general robust loss of a standardised residual, and its derivatives without cancellation.

With :math:`b = |\alpha - 2|`, :math:`v = z/\sqrt b`, :math:`h = \sqrt{1 + v^2}` and :math:`L = 2 \log h`,

.. math:: \rho = \frac b\alpha (h^\alpha - 1), \qquad
          \partial_z \rho = \frac z h h^{\alpha - 1}.

Every power of :math:`h` and every difference below is arranged so that no large numbers are subtracted and nothing
overflows before ρ itself does: for α ≥ 1 :math:`h^\alpha - 1` is split into :math:`v^2 h^{\alpha-2}` and
:math:`h^{\alpha-2} - 1`, which stays exact as :math:`b \to 0`; below 1 it is :math:`\mathrm{expm1}(\alpha L/2)`,
which stays exact as :math:`\alpha \to 0`. All real α and ±∞ are allowed; only the likelihood needs α ≥ 0.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from likely._numerics.special import polynomial, with_slopes

# e^h = 1 + h + …: the terms of d/dh (expm1(h)/h), enough for float64 up to |h| = ½.
_SERIES = [(k + 1) / math.factorial(k + 2) for k in range(14)]


class _Parts(NamedTuple):
    alpha: Tensor
    b: Tensor
    g: Tensor  # z / h, at most √b in size
    h: Tensor
    L: Tensor

    def power(self, p: Tensor) -> Tensor:
        """Return h^p: by L where h is near one (rounding h would be magnified), by ``pow`` elsewhere."""
        near = self.h < math.e
        exponent = 0.5 * p * torch.where(near, self.L, 0.0)
        return torch.where(near, exponent.exp(), torch.where(near, 1.0, self.h) ** p)


def _parts(z: Tensor, alpha: Tensor) -> _Parts:
    limits = torch.finfo(z.dtype)
    alpha = alpha.clamp(-(limits.eps**-2), limits.eps**-2)  # beyond these, α is equivalent to ±∞
    # ∂ρ/∂α is infinite at α = 2; one rounding step away it is finite, so that α can leave 2.
    b = (alpha - 2).abs().clamp(min=limits.eps)
    z = z.clamp(-(limits.max**0.9), limits.max**0.9)
    v = z * b.rsqrt()
    h = _hypot(v)
    near = h < math.e
    L = torch.where(near, torch.log1p(torch.where(near, v, 0.0).square()), 2 * h.log())
    return _Parts(alpha, b, z / h, h, L)


def _hypot(v: Tensor) -> Tensor:
    """Return √(1 + v²) without overflow; in a compiled graph by operations that ONNX has."""
    if not torch.compiler.is_compiling():
        return torch.hypot(torch.ones_like(v), v)
    size = v.abs()
    larger = size.clamp(min=1)
    return larger * (1 + (size.clamp(max=1) / larger).square()).sqrt()


def _value(parts: _Parts) -> Tensor:
    alpha, b, g, _, L = parts
    high = alpha >= 1
    a = torch.where(high, alpha, 1.0)
    above = (g.square() * parts.power(a) + b * torch.expm1(0.5 * (a - 2) * L)) / a
    exponent = 0.5 * torch.where(high, 0.0, alpha) * L
    below = 0.5 * b * L * _exprel(exponent)
    # For negative α it approaches (α - 2) / α from below, and rounding could exceed that.
    bound = torch.where(alpha < 0, (alpha - 2) / alpha, torch.inf)
    return torch.where(high, above, torch.minimum(below, bound))


def _slope_z(parts: _Parts) -> Tensor:
    return parts.g * parts.power(parts.alpha - 1)


def _slope_alpha(parts: _Parts) -> Tensor:
    alpha, b, g, _, L = parts
    high = alpha >= 1
    a = torch.where(high, alpha, 1.0)
    sign = torch.where(a > 2, 1.0, -1.0).to(a.dtype)
    above = parts.power(a) * (b / a * L - (2 / a + 1) / a * g.square()) / 2
    above = above + 2 * sign * torch.expm1(0.5 * (a - 2) * L) / a.square()
    exponent = 0.5 * torch.where(high, 0.0, alpha) * L
    below = 0.5 * (L.square() * _exprel_slope(exponent) - exponent.exp() * (L - g.square() / b))
    return torch.where(high, above, below)


def _exprel(x: Tensor) -> Tensor:
    nonzero = torch.where(x == 0, 1.0, x)
    return torch.where(x == 0, 1 + 0.5 * x, torch.expm1(nonzero) / nonzero)


def _exprel_slope(x: Tensor) -> Tensor:
    small = x.abs() < 0.5
    series = polynomial(_SERIES, torch.where(small, x, 0.0))
    far = torch.where(small, 1.0, x)
    return torch.where(small, series, (far * far.exp() - torch.expm1(far)) / far.square())


_rho = with_slopes(_parts, _value, _slope_z, _slope_alpha)


def rho(z: Tensor, alpha: Tensor) -> Tensor:
    """Return ρ(z, α) elementwise for tensors of one dtype, twice differentiable in both."""
    return _rho(*torch.broadcast_tensors(z, alpha))
