"""How exact log Z and ρ are: the largest errors over a grid, against arbitrary precision."""

from __future__ import annotations

from collections.abc import Iterator

import mpmath as mp
import numpy as np
import torch
from torch import Tensor

from experiments.benchmarks._bars import result_of
from experiments.benchmarks._robust_reference import log_partition, log_partition_slope, rho, rho_slopes
from experiments.entries import Bar, Context, Result
from likely.functional import robust_log_partition, robust_rho

BARS = {
    "log Z(α)": {torch.float64: 1e-12, torch.float32: 5e-7},
    "∂ log Z/∂α": {torch.float64: 1e-9, torch.float32: 2e-5},
    "ρ": {torch.float64: 1e-12, torch.float32: 2e-6},
    "∂ρ/∂x": {torch.float64: 1e-12, torch.float32: 2e-6},
    "∂ρ/∂σ": {torch.float64: 1e-12, torch.float32: 2e-6},
    "∂ρ/∂α": {torch.float64: 1e-12, torch.float32: 1e-4},
}
_SLOPE_SCALE = mp.mpf("1e-3")  # ∂ρ/∂α passes through zero: its error is relative to this plus its size


def run(context: Context) -> Result:
    """Measure every error in both precisions and hold it against its bar."""
    bars = []
    for dtype in context.track((torch.float64, torch.float32)):
        measured = {**partition_errors(dtype, dense=not context.quick), **rho_errors(dtype)}
        precision = str(dtype).removeprefix("torch.")
        bars += [Bar(f"{name}, {precision}", error, "≤", BARS[name][dtype]) for name, error in measured.items()]
    notes = (
        "The largest relative errors, α in [0, 400] for Z and [0, 8] for ρ, |x/σ| from 1e-4 to 1e4, densest around "
        "α = 0, 1 and 2; ∂ρ/∂α relative to 1e-3 plus its size, away from |α - 2| < 1e-6, where its tangent is vertical."
    )
    return result_of(bars, notes=notes)


def shapes(*, dense: bool) -> list[float]:
    """α from 0 to 400, with extra points around the seams and the singularity at 2."""
    steps = [10.0**-k for k in range(2, 9)]
    grid = np.linspace(0, 8, 401 if dense else 65).round(6).tolist()
    seams = [1e-9, 1e-4, 0.999999, 1.0, 2.999999, 3.0, 4.0, 30.0, 400.0]
    return sorted({*grid, *seams, *(2 + s for s in steps), *(2 - s for s in steps)} - {2.0})


def partition_errors(dtype: torch.dtype, *, dense: bool) -> dict[str, float]:
    """The largest relative errors of log Z and its slope."""
    alpha = torch.tensor(shapes(dense=dense), dtype=dtype).unique()
    alpha = alpha[alpha != 2].requires_grad_()
    value = robust_log_partition(alpha)
    (slope,) = torch.autograd.grad(value.sum(), alpha)
    with mp.workdps(20):
        exact = [(log_partition(a), log_partition_slope(a)) for a in alpha.tolist()]
        pairs = list(zip(exact, value.tolist(), slope.tolist(), strict=True))
        return {
            "log Z(α)": float(max(abs(v / e - 1) for (e, _), v, _ in pairs)),
            "∂ log Z/∂α": float(max(abs(s / e - 1) for (_, e), _, s in pairs)),
        }


def rho_errors(dtype: torch.dtype) -> dict[str, float]:
    """The largest errors of ρ and its three slopes over the box."""
    rng = np.random.default_rng(0)
    seams = [0, 1e-12, 1e-6, 1e-3, 0.5, 0.999999, 1, 1.999, 2 - 1e-6, 2 + 1e-6, 2.001, 3, 4, 8]
    alpha, z = torch.meshgrid(
        torch.tensor([*seams, *rng.uniform(0, 8, 60)], dtype=dtype),
        torch.tensor([1e-4, 1e-2, 0.1, 1, 1e4, *10 ** rng.uniform(-4, 4, 8)], dtype=dtype),
        indexing="ij",
    )
    scale = torch.full_like(z, 0.7).requires_grad_()
    alpha, residual = alpha.clone().requires_grad_(), (z * 0.7).requires_grad_()
    value = robust_rho(residual, alpha=alpha, scale=scale)
    slopes = torch.autograd.grad(value.sum(), (residual, scale, alpha))
    worst = dict.fromkeys(("ρ", "∂ρ/∂x", "∂ρ/∂σ", "∂ρ/∂α"), 0.0)
    with mp.workdps(50):  # the textbook form loses 2 log10(1/α) digits
        for a, r, sigma, *got in _numbers(alpha, residual, scale, value, *slopes):
            x = mp.mpf(r) / mp.mpf(sigma)
            slope_x, slope_alpha = rho_slopes(x, mp.mpf(a))
            exact = (rho(x, mp.mpf(a)), slope_x / sigma, -slope_x * x / sigma, slope_alpha)
            for name, ours, true in zip(worst, got, exact, strict=True):
                if name != "∂ρ/∂α":
                    worst[name] = max(worst[name], float(abs(ours / true - 1)))
                elif abs(a - 2) >= 1e-6:
                    worst[name] = max(worst[name], float(abs(ours - true) / (_SLOPE_SCALE + abs(true))))
    return worst


def _numbers(*tensors: Tensor) -> Iterator[tuple[float, ...]]:
    yield from zip(*(t.detach().flatten().tolist() for t in tensors), strict=True)
