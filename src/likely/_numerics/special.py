"""Elementary functions that stay accurate where the textbook formula cancels or overflows."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def log1p_square(z: Tensor) -> Tensor:
    """Return log(1 + z²), which does not overflow unless z does."""
    large = z.abs() > 1e9
    return torch.where(
        large, 2 * torch.where(large, z, 1.0).abs().log(), torch.log1p(torch.where(large, 0.0, z).square())
    )


def log_cosh(x: Tensor) -> Tensor:
    """Return log cosh x, with accurate value and slope (tanh x) for small x, and |x| - log 2 for large x."""
    far = x.abs() > 20
    near = 0.5 * torch.log1p(torch.sinh(torch.where(far, 0.0, x)).square())
    return torch.where(far, torch.where(far, x, 20.0).abs() - math.log(2), near)


def normal_cdf(z: Tensor) -> Tensor:
    """Return the normal distribution function, whose lower tail torch.special.ndtr rounds to zero."""
    return 0.5 * torch.erfc(-z / math.sqrt(2))


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SHIFT = 8


def polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """Return Σ coefficients[k] xᵏ."""
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def stirling(y: Tensor) -> Tensor:
    """Return Stirling's series: log Γ(y) - (y - ½) log y + y - ½ log 2π for y ≥ 8, exact to rounding."""
    return polynomial(_STIRLING, y.square().reciprocal()) / y


def log_gamma_ratio(x: Tensor, d: Tensor | float) -> Tensor:
    """Return log Γ(x + d) - log Γ(x) - d log x for x > 0 and d ≥ 0, without cancellation for large x.

    The recurrence of Γ lifts x by 8, where Stirling's series is exact.
    """
    lifted = x + _SHIFT
    result = (lifted + (d - 0.5)) * torch.log1p(d / lifted) - d + stirling(lifted + d) - stirling(lifted)
    result = result + d * torch.log1p(_SHIFT / x)
    for j in range(_SHIFT):
        result = result - torch.log1p(d / (x + j))
    return result


_HALF_STEP = (1 / 8, -1 / 64, 1 / 128, -17 / 2048, 31 / 2048, -691 / 16384, 5461 / 32768)


def digamma_half_step(x: Tensor) -> Tensor:
    """Return ψ(x + ½) - ψ(x) for x > 0, without cancellation: the recurrence of ψ lifts x by 8."""
    lifted = x + _SHIFT
    inverse_square = lifted.square().reciprocal()
    result = 0.5 / lifted + polynomial(_HALF_STEP, inverse_square) * inverse_square
    for j in range(_SHIFT):
        result = result + 0.5 / ((x + j) * (x + (j + 0.5)))
    return result


def log_minus_digamma(x: Tensor) -> Tensor:
    """Return log x - ψ(x) for x > 0, without cancellation: the recurrence of ψ lifts x by 8."""
    lifted = x + _SHIFT
    inverse_square = lifted.square().reciprocal()
    slopes = [(2 * k + 1) * coefficient for k, coefficient in enumerate(_STIRLING)]
    result = polynomial(slopes, inverse_square) * inverse_square + 0.5 / lifted - torch.log1p(_SHIFT / x)
    for j in range(_SHIFT):
        result = result + 1 / (x + j)
    return result


def log_factorial_remainder(x: Tensor) -> Tensor:
    """Return log Γ(x + 1) - x log x + x - ½ log 2π for x ≥ 0, without cancellation for large x."""
    large = x > _SHIFT
    far, near = torch.where(large, x, _SHIFT), torch.where(large, 1.0, x).clamp(min=torch.finfo(x.dtype).tiny)
    exact = torch.lgamma(near + 1) - near * near.log() + near - 0.5 * math.log(2 * math.pi)
    return torch.where(large, stirling(far) + 0.5 * far.log(), exact)


def log_gamma_remainder(x: Tensor) -> Tensor:
    """Return log Γ(x) - x log x + x - ½ log 2π for x > 0, without cancellation for large x."""
    return log_factorial_remainder(x) - x.log()


def exp_remainder(u: Tensor) -> Tensor:
    """Return exp(u) - 1 - u, without cancellation: for small u by its series, up to terms below rounding."""
    small = u.abs() < 0.5
    near, far = torch.where(small, u, 0.0), torch.where(small, 1.0, u)
    series = torch.ones_like(near)
    for k in range(17, 2, -1):
        series = 1 + near * series / k
    return torch.where(small, 0.5 * near.square() * series, torch.expm1(far) - far)


def with_slopes(
    parts: Callable[..., Any], value: Callable[[Any], Tensor], *slopes: Callable[[Any], Tensor]
) -> Callable[..., Tensor]:
    """A function of tensors of one shape, ``value(parts(*tensors))``, that stores only them for its exact slopes."""

    class Backward(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*tensors: Tensor) -> Tensor:
            return value(parts(*tensors))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            known = parts(*ctx.saved_tensors)
            return tuple(
                grad * slope(known) if wanted else None
                for slope, wanted in zip(slopes, ctx.needs_input_grad, strict=True)
            )

    class Forward(Backward):
        generate_vmap_rule = True

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
            # torch switches off forward-mode differentiation here for all levels, not only for the present one: a
            # second derivative by jacfwd(jacfwd(…)) would silently be zero.
            with forward_ad._set_fwd_grad_enabled(True):
                known = parts(*(forward_ad.unpack_dual(saved).primal for saved in ctx.saved_tensors))
                pairs = zip(tangents, slopes, strict=True)
                return sum(tangent * slope(known) for tangent, slope in pairs if tangent is not None)

    def call(*tensors: Tensor) -> Tensor:
        # The compiler does not support functions with a jvp, and needs none.
        result: Tensor = (Backward if torch.compiler.is_compiling() else Forward).apply(*tensors)
        return result

    return call
