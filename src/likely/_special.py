"""Elementary functions that stay exact where the textbook form cancels or overflows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def log1p_square(z: Tensor) -> Tensor:
    """log(1 + z²) that does not overflow before z does."""
    large = z.abs() > 1e9
    return torch.where(
        large, 2 * torch.where(large, z, 1.0).abs().log(), torch.log1p(torch.where(large, 0.0, z).square())
    )


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SHIFT = 8


def stirling(x: Tensor) -> Tensor:
    """log Γ(x) - (x - ½) log x + x - ½ log 2π for x ≥ 8, where seven terms of the series are exact to rounding."""
    inverse_square = x.square().reciprocal()
    series = torch.full_like(x, _STIRLING[-1])
    for coefficient in reversed(_STIRLING[:-1]):
        series = series * inverse_square + coefficient
    return series / x


def log_gamma_ratio(x: Tensor, d: Tensor | float) -> Tensor:
    """log Γ(x + d) - log Γ(x) - d log x for x > 0 and d ≥ 0, without cancellation for large x.

    The recurrence of Γ lifts x by 8, where Stirling's series is exact.
    """
    lifted = x + _SHIFT
    result = (lifted + (d - 0.5)) * torch.log1p(d / lifted) - d + stirling(lifted + d) - stirling(lifted)
    result = result + d * torch.log1p(_SHIFT / x)
    for j in range(_SHIFT):
        result = result - torch.log1p(d / (x + j))
    return result


@contextmanager
def primals(ctx: Any) -> Iterator[list[Tensor]]:
    """What an autograd function has saved, for its ``jvp``, such that a tangent's own tangent is followed too.

    torch switches forward-mode differentiation off around ``jvp``, for all levels and not for this one alone: a second
    derivative by ``jacfwd(jacfwd(…))`` would be zero, without a word.
    """
    with forward_ad._set_fwd_grad_enabled(True):
        yield [forward_ad.unpack_dual(saved).primal for saved in ctx.saved_tensors]
