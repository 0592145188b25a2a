"""The robust likelihood in eager torch: as it was published, and in fewer words; both differentiated by autograd."""

from functools import cache

import torch
from torch import Tensor

from likely.functional import robust_log_partition

_EPS = torch.finfo(torch.float32).eps
_KNOTS_A_UNIT, _KNOTS, _END = 1024, 12289, 8.0


def published_nll(prediction: Tensor, target: Tensor, alpha: Tensor, scale: Tensor) -> Tensor:
    """Mean NLL after Barron, *A General and Adaptive Robust Loss Function* (CVPR 2019).

    All five cases of ρ for every element, one of them picked, and for log Z a cubic Hermite spline over an axis that
    is bent to be dense around α = 2. Arguments are checked and every function guarded, as in the library people use.
    """
    if not bool((alpha >= 0).all()) or not bool((scale >= 0).all()):
        raise ValueError("alpha and scale must not be negative")
    eps = torch.tensor(_EPS, device=alpha.device)
    z2 = ((prediction - target) / scale) ** 2
    at_two = 0.5 * z2
    at_zero = torch.log1p(torch.min(0.5 * z2, eps.new_tensor(3e38)))
    at_minus_infinity = -torch.expm1(-0.5 * z2)
    at_infinity = torch.expm1(torch.min(0.5 * z2, eps.new_tensor(87.5)))
    b = torch.max(eps, (alpha - 2).abs())
    a = torch.where(alpha >= 0, torch.ones_like(alpha), -torch.ones_like(alpha)) * torch.max(eps, alpha.abs())
    otherwise = b / a * ((z2 / b + 1).pow(0.5 * alpha) - 1)
    rho = torch.where(alpha == torch.inf, at_infinity, otherwise)
    rho = torch.where(alpha == 2, at_two, torch.where(alpha == 0, at_zero, rho))
    rho = torch.where(alpha == -torch.inf, at_minus_infinity, rho)
    return (rho + scale.log() + _hermite(_bent(alpha) * _KNOTS_A_UNIT)).mean()


def _bent(alpha: Tensor) -> Tensor:
    """From 0 to 12: steep around α = 2, logarithmic from 4 on."""
    near = (2.25 * alpha - 4.5) / ((alpha - 2).abs() + 0.25) + alpha + 2
    return torch.where(alpha < 4, near, 5 / 18 * torch.log(torch.min(4 * alpha - 15, alpha.new_tensor(3e37))) + 8)


@cache
def _knots(device: torch.device) -> tuple[Tensor, Tensor]:
    """log Z where the bent axis is a whole number of steps, and its slope there."""
    x = torch.linspace(-4, 8, _KNOTS, dtype=torch.float64)
    far = x.abs()
    near = 0.5 * far - 1.25 + (1.5625 - far * (1 - 0.25 * far)).sqrt()
    alpha = torch.where(x < 4, 2 + x.sign() * near, 3.75 + 0.25 * torch.exp(3.6 * (x - 4)))
    values = robust_log_partition(alpha)
    (slopes,) = torch.gradient(values)
    return values.float().to(device), slopes.float().to(device)


def _hermite(x: Tensor) -> Tensor:
    """Cubic between the knots, a straight line beyond them."""
    values, slopes = _knots(x.device)
    i = x.detach().floor().clamp(0, _KNOTS - 2).long()
    t = x - i
    h01 = -2 * t**3 + 3 * t**2
    h11 = t**3 - t**2
    h00, h10 = 1 - h01, h11 - t**2 + t
    between = values[i] * h00 + values[i + 1] * h01 + slopes[i] * h10 + slopes[i + 1] * h11
    below, above = slopes[0] * t + values[0], slopes[-1] * (t - 1) + values[-1]
    return torch.where(t < 0, below, torch.where(t > 1, above, between))


def robust_nll(prediction: Tensor, target: Tensor, alpha: Tensor, scale: Tensor, log_z: Tensor | None = None) -> Tensor:
    """Mean NLL in as few passes as one would write without thinking of fusion; its spline ends at α = 8.

    A module that keeps the table of log Z hands it over, so that nobody who compiles it follows how it is made.
    """
    log_z = log_z_table(alpha.device) if log_z is None else log_z
    z2 = ((target - prediction) / scale).square()
    b = (alpha - 2).abs() + _EPS
    d = torch.where(alpha >= 0, alpha + _EPS, alpha - _EPS)
    otherwise = b / d * ((z2 / b + 1).pow(0.5 * d) - 1)
    at_zero, at_two = torch.log1p((0.5 * z2).clamp(max=3e37)), 0.5 * z2
    at_minus_infinity, at_infinity = -torch.expm1(-0.5 * z2), torch.expm1((0.5 * z2).clamp(max=87.5))
    rho = torch.where(alpha == 2, at_two, torch.where(alpha == 0, at_zero, otherwise))
    rho = torch.where(alpha == torch.inf, at_infinity, torch.where(alpha == -torch.inf, at_minus_infinity, rho))
    return (rho + scale.log() + _spline(alpha, log_z)).mean()


@cache
def log_z_table(device: torch.device) -> Tensor:
    """log Z at equal steps of α, from 0 to 8."""
    return robust_log_partition(torch.linspace(0, _END, _KNOTS, dtype=torch.float64)).float().to(device)


def _spline(alpha: Tensor, values: Tensor) -> Tensor:
    """Catmull and Rom's, through values at equal steps."""
    x = alpha * ((_KNOTS - 1) / _END)
    i = x.floor().long().clamp(1, _KNOTS - 3)
    f = x - i
    p, q, r, s = (values.take(i + k) for k in (-1, 0, 1, 2))  # a single i in brackets would make the device wait
    return q + 0.5 * f * (r - p + f * (2 * p - 5 * q + 4 * r - s + f * (3 * (q - r) + s - p)))
