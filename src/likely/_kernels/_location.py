r"""Normal, Laplace, Student's t, robust and Bernoulli NLLs: one pass over the data computes loss and gradients.

On CUDA by a Triton kernel, on the CPU by compiled code; gradients of gradients go through the plain formulas that
:mod:`likely.likelihoods` leaves in ``PLAIN``. ``torch.compile`` sees the operator ``likely::location_sum``.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions.transforms import Transform

from likely._kernels import _native
from likely._kernels._native import Layout, Slopes
from likely._kernels._node import (
    LIBRARY,
    Plain,
    differentiable_slopes,
    fused_loss,
    fused_losses,
    register,
    triton_kernels,
    with_target,
)
from likely._validation import broadcast, reduce
from likely.constraints import Exp, Interval, ShiftedSoftplus

PLAIN: dict[str, Callable[..., Tensor]] = {}  # (prediction, target, scale[, shape]) -> NLL without constants


class Location(NamedTuple):
    """A location likelihood and how a kernel reads its parameters, for batches of one form."""

    kind: int
    layouts: tuple[Layout, ...]
    constant: float
    factor: float
    plain: Plain

    def run(
        self,
        tensors: Sequence[Tensor],
        slopes: Slopes,
        losses: Tensor | None = None,
        upstream: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        """Return the sum of the NLLs, each times ``factor``; write gradients and, if given, every NLL."""
        run = triton_kernels("location").location if tensors[0].is_cuda else _native.location
        return run(self, tensors, slopes, losses, upstream), None

    def each(self, tensors: Sequence[Tensor]) -> tuple[Tensor, None]:
        """Return the NLL of every element."""
        losses = torch.empty_like(tensors[0], dtype=torch.float32)
        return losses, self.run(tensors, (None,) * (len(tensors) - 1), losses)[1]

    def each_slopes(self, tensors: Sequence[Tensor], kept: None, upstream: Tensor, slopes: Slopes) -> None:
        """Write the gradients of NLLs that are multiplied by ``upstream``."""
        self.run(tensors, slopes, upstream=upstream)


def layout_of(shape: Sequence[int], within: Sequence[int], constraint: Transform | None) -> Layout | None:
    """The layout of a parameter that broadcasts to ``within``.

    >>> layout_of((256, 1), (256, 10), None), layout_of((2, 1, 3), (2, 5, 3), None)
    (Layout(inner=10, numbers=256, constraint=0, low=0.0, width=0.0), None)
    """
    code = _code_of(constraint)
    if code is None:
        return None
    padded = (1,) * (len(within) - len(shape)) + tuple(shape)
    axes = [axis for axis, size in enumerate(padded) if size > 1]
    if not axes:
        return Layout(1, 1, *code)
    first, last = axes[0], axes[-1] + 1
    if tuple(padded[first:last]) != tuple(within[first:last]):
        return None
    return Layout(math.prod(within[last:]), math.prod(within[first:last]), *code)


def _code_of(constraint: Transform | None) -> tuple[int, float, float] | None:
    """The number of a constraint in the kernels, and its two constants."""
    if constraint is None:
        return 0, 0.0, 0.0
    if type(constraint) is ShiftedSoftplus and constraint.offset > 0:  # else it may round to zero
        return 1, constraint.offset, 1 / (math.log(2) + constraint.offset)
    if type(constraint) is Interval:
        return 2, constraint.low, constraint.high - constraint.low
    if type(constraint) is Exp:
        return 3, constraint.floor, 0.0
    return None


def location_nll(
    kind: str, prediction: Tensor, target: Tensor, *parameters: Tensor, constant: float, reduction: str
) -> Tensor:
    """The NLL of a location likelihood, reduced; ``parameters`` are the scale and, if there is one, the shape."""
    if target.shape != prediction.shape or any(p.ndim and p.shape != prediction.shape for p in parameters):
        named = dict(zip(("scale", "shape"), parameters, strict=False))
        prediction, target, *wide = broadcast(prediction=prediction, target=target, **named)
        parameters = tuple(p if p.numel() == 1 else w for p, w in zip(parameters, wide, strict=True))
    tensors = [t.contiguous() for t in (prediction, target, *parameters)]
    factor = 1 / prediction.numel() if reduction == "mean" else 1.0
    if torch.compiler.is_compiling():
        wanted = [prediction.requires_grad or target.requires_grad, *(p.requires_grad for p in parameters)]
        wanted = [torch.is_grad_enabled() and w for w in wanted]
        loss: Tensor = _location_sum(kind, tensors, constant, factor, wanted)[0]
        return loss
    if reduction != "none" and not in_half(*tensors):
        return fused_loss(_job(kind, tensors, constant, factor), *tensors)
    return reduce(fused_losses(_job(kind, tensors, constant, None), *tensors), reduction)


def _job(kind: str, tensors: Sequence[Tensor], constant: float, factor: float | None) -> Location:
    """The job of parameters that are one number or one per element; of every element without a ``factor``."""
    layouts = tuple(Layout(1, p.numel()) for p in tensors[2:])
    plain = partial(_plain_nll, PLAIN[kind], factor)
    return Location(_native.KINDS.index(kind), layouts, constant, 1.0 if factor is None else factor, plain)


def _plain_nll(formula: Plain, factor: float | None, *tensors: Tensor) -> Tensor:
    nll = formula(*tensors)
    return nll if factor is None else nll.sum() * factor


def in_half(*tensors: Tensor) -> bool:
    """Whether a gradient is a float16, in which it must be scaled up (by a GradScaler) before it is stored."""
    return any(t.dtype == torch.float16 and t.requires_grad for t in tensors)


def _room(kind: str, tensors: list[Tensor], constant: float, factor: float, wanted: list[bool]) -> list[Tensor]:
    """A loss and the slopes of all but the target, without values; without elements where they are not wanted."""
    like = zip((tensors[0], *tensors[2:]), wanted, strict=True)
    slopes = [torch.empty_like(t) if asked else t.new_empty(0) for t, asked in like]
    return [tensors[0].new_empty((), dtype=torch.float32), *slopes]


def _sum_and_slopes(
    kind: str, tensors: list[Tensor], constant: float, factor: float, wanted: list[bool]
) -> list[Tensor]:
    _, *slopes = _room(kind, tensors, constant, factor, wanted)
    loss, _ = _job(kind, tensors, constant, factor).run(tensors, [s if s.numel() else None for s in slopes])
    return [loss, *slopes]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.kind, tensors, _, ctx.factor, _ = inputs
    ctx.save_for_backward(*tensors)
    ctx.slopes = output[1:]
    ctx.mark_non_differentiable(*ctx.slopes)


def _backward(ctx: Any, grads: list[Tensor]) -> tuple[Any, ...]:
    if torch.is_grad_enabled():
        plain = _plain_nll(PLAIN[ctx.kind], ctx.factor, *ctx.saved_tensors)
        slopes = differentiable_slopes(plain, ctx.saved_tensors, grads[0])
    else:
        slopes = with_target([s * grads[0] if s.numel() else None for s in ctx.slopes], ctx.needs_input_grad[1])
    return None, list(slopes), None, None, None


_location_sum = register(
    "location_sum(str kind, Tensor[] tensors, float constant, float factor, bool[] wanted) -> Tensor[]",
    _sum_and_slopes,
    _room,
)
torch.library.register_autograd("likely::location_sum", _backward, setup_context=_remember, lib=LIBRARY)
