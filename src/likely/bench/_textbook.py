"""The robust likelihood as one would write it down: the formula, its special cases, and a spline for log Z."""

from functools import cache

import torch
from torch import Tensor

from likely.functional import robust_log_partition

_KNOTS, _END = 12289, 8.0


def robust_nll(prediction: Tensor, target: Tensor, alpha: Tensor, scale: Tensor) -> Tensor:
    """Mean NLL in eager torch, every case computed for every element; differentiated by autograd."""
    eps = torch.finfo(torch.float32).eps
    z2 = ((target - prediction) / scale).square()
    b = (alpha - 2).abs() + eps
    d = torch.where(alpha >= 0, alpha + eps, alpha - eps)
    otherwise = b / d * ((z2 / b + 1).pow(0.5 * d) - 1)
    at_zero, at_two = torch.log1p((0.5 * z2).clamp(max=3e37)), 0.5 * z2
    at_minus_infinity, at_infinity = -torch.expm1(-0.5 * z2), torch.expm1((0.5 * z2).clamp(max=87.5))
    rho = torch.where(alpha == 2, at_two, torch.where(alpha == 0, at_zero, otherwise))
    rho = torch.where(alpha == torch.inf, at_infinity, torch.where(alpha == -torch.inf, at_minus_infinity, rho))
    return (rho + scale.log() + _spline(alpha)).mean()


@cache
def _values(device: torch.device) -> Tensor:
    return robust_log_partition(torch.linspace(0, _END, _KNOTS, dtype=torch.float64)).float().to(device)


def _spline(alpha: Tensor) -> Tensor:
    """Catmull and Rom's, through values at equal steps."""
    values = _values(alpha.device)
    x = alpha * ((_KNOTS - 1) / _END)
    i = x.floor().long().clamp(1, _KNOTS - 3)
    f = x - i
    p, q, r, s = (values[i + k] for k in (-1, 0, 1, 2))
    return q + 0.5 * f * (r - p + f * (2 * p - 5 * q + 4 * r - s + f * (3 * (q - r) + s - p)))
