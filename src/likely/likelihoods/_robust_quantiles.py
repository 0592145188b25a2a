"""Probabilities, quantiles and samples of the robust density at location 0 and scale 1."""

import math
from functools import cache

import numpy as np
import torch
from torch import Tensor

from likely._partition import log_partition
from likely._rho import rho


def reach(alpha: Tensor, depth: float = 38.0) -> Tensor:
    """The z at which ρ(z, α) reaches ``depth``: beyond it lies less than e^-depth of the density's height."""
    b = (alpha - 2).abs().clamp(min=torch.finfo(alpha.dtype).eps)
    exponent = torch.where(alpha > 1e-6, torch.log1p(depth * alpha / b) / alpha.clamp(min=1e-6), depth / b)
    return (b * torch.expm1(2 * exponent.clamp(max=40.0))).sqrt()


@cache
def _legendre(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    nodes, weights = np.polynomial.legendre.leggauss(48)
    return (
        torch.as_tensor((nodes + 1) / 2, dtype=dtype, device=device),
        torch.as_tensor(weights / 2, dtype=dtype, device=device),
    )


def half_mass(z: Tensor, alpha: Tensor) -> Tensor:
    """The probability between 0 and z ≥ 0."""
    nodes, weights = _legendre(z.dtype, z.device)
    v = torch.asinh(torch.minimum(z, reach(alpha.detach()))).unsqueeze(-1)
    inner = v * nodes
    alpha = alpha.unsqueeze(-1)
    density = torch.exp(-rho(torch.sinh(inner), alpha) - log_partition(alpha))
    return (v * weights * density * torch.cosh(inner)).sum(-1)


def half_quantile(mass: Tensor, alpha: Tensor) -> Tensor:
    """The z ≥ 0 with ``mass`` between 0 and it, by Newton steps in sinh⁻¹ z inside a shrinking bracket."""
    low, high = torch.zeros_like(mass), torch.asinh(reach(alpha))
    v = torch.minimum(2 * mass, high)
    for _ in range(60):
        z = torch.sinh(v)
        gap = half_mass(z, alpha) - mass
        low, high = torch.where(gap < 0, v, low), torch.where(gap > 0, v, high)
        slope = torch.exp(-rho(z, alpha) - log_partition(alpha)) * torch.cosh(v)
        step = v - gap / slope
        new = torch.where((step > low) & (step < high), step, 0.5 * (low + high))
        done = (new - v).abs() <= 4 * torch.finfo(v.dtype).eps * (1 + v.abs())
        v = torch.where(gap == 0, v, new)
        if bool((done | (gap == 0)).all()):
            break
    return torch.sinh(v)


def rejection_sample(alpha: Tensor) -> Tensor:
    """Proposals from the Cauchy that α = 0 is, or from the normal above α = 2: ρ grows with α, so both cover."""
    alpha = alpha.contiguous()
    sample = torch.empty_like(alpha)
    waiting = torch.arange(alpha.numel(), device=alpha.device)
    while len(waiting):
        a = alpha.view(-1)[waiting]
        normal = a >= 2
        cauchy = math.sqrt(2) * torch.tan(math.pi * (torch.rand_like(a) - 0.5))
        z = torch.where(normal, torch.randn_like(a), cauchy)
        advantage = rho(z, torch.where(normal, 2.0, 0.0).to(a)) - rho(z, a)
        accepted = torch.rand_like(a).log() < advantage
        sample.view(-1)[waiting[accepted]] = z[accepted]
        waiting = waiting[~accepted]
    return sample
