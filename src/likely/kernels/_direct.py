"""From stored parameters to a loss in one node of the graph, for the batches most people have.

A loss of a few thousand numbers takes less time than the operations around it: constraint, broadcasting, checks, and a
node for each of them in the backward pass. Here one kernel does all of that. It is used without ``torch.func``, tracer,
compiler or dispatch mode, and a result that is not finite is discarded: the caller then takes the slow path, which
raises an error that explains the cause.
"""

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions.transforms import Transform

from likely.constraints import Exp, Interval, ShiftedSoftplus
from likely.kernels import _native
from likely.kernels._head import Head, by_kernel, by_torch, write_slopes
from likely.kernels._location import rescale_
from likely.kernels._native import Layout
from likely.kernels._operator import is_bare

_LARGE = 1 << 20  # elements from which a kernel that returns early at a factor of one is faster

Plain = Callable[..., Tensor]
Result = tuple[Tensor, Tensor | None]  # the loss, and a factor that the gradients still need
Moments = list[Tensor | None]  # of the parameters that are predicted from features


class Location(NamedTuple):
    """A location likelihood and how a kernel reads its parameters, for batches of one form."""

    kind: int
    layouts: tuple[Layout, ...]
    constant: float
    factor: float
    plain: Plain

    def run(self, tensors: Sequence[Tensor], slopes: Sequence[Tensor | None]) -> Result:
        """Compute the loss, and write the gradients."""
        if tensors[0].is_cuda:
            return _triton("location").location_direct(self, tensors, slopes), None
        prediction, target, *raw = tensors
        read: list[tuple[Tensor | None, Layout]] = list(zip(raw, self.layouts, strict=True))
        d_prediction, *room = slopes
        if len(read) == 1:
            read.append((None, _native.ONE))
            room.append(None)
        loss = _native.location(
            self.kind,
            prediction,
            target,
            read,
            room,
            d_prediction=d_prediction,
            constant=self.constant,
            factor=self.factor,
        )
        return loss, None


class Softmax(NamedTuple):
    """The softmax likelihood of logits (rows, classes) with class numbers, and how a kernel reads the temperature."""

    layout: Layout
    ignore_index: int
    smoothing: float
    mean: bool
    multiplier: float
    plain: Plain

    def run(self, tensors: Sequence[Tensor], slopes: Sequence[Tensor | None]) -> Result:
        """Compute the loss, and write the gradients."""
        if tensors[0].is_cuda:
            return _triton("softmax").softmax_direct(self, tensors, slopes)
        logits, target, raw = tensors
        loss = _native.softmax(
            logits,
            target if target.dtype is torch.int64 else target.long(),
            raw,
            self.layout,
            slopes[1],
            d_logits=slopes[0],
            ignore_index=self.ignore_index,
            smoothing=self.smoothing,
            mean=self.mean,
            multiplier=self.multiplier,
        )
        return loss, None


Job = Location | Softmax


def _triton(name: str) -> Any:
    """The kernels on CUDA; Triton is imported when they are first used."""
    return import_module(f"likely.kernels._{name}_triton")


def direct(job: Job, prediction: Tensor, target: Tensor, *parameters: Tensor | Head) -> Tensor | None:
    """Compute a loss from the prediction, the target and raw parameters in one node of the graph."""
    moments: list[Tensor | None] = []
    tensors: list[Tensor] = []
    for parameter in parameters:
        if isinstance(parameter, Head):
            moments.append(parameter.moments)
            tensors += parameter[:3]
        else:
            moments.append(None)
            tensors.append(parameter)
    if torch.is_grad_enabled():
        loss: Tensor = _Direct.apply(job, moments, prediction, target, *tensors)
    else:
        loss, *_ = _run(job, moments, (prediction, target, *tensors), (False,) * (2 + len(tensors)))
    return loss if loss.is_cuda or math.isfinite(loss.item()) else None  # a device is not waited for


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
    if constraint is None:
        return 0, 0.0, 0.0
    if type(constraint) is ShiftedSoftplus and constraint.offset > 0:  # else it may round to zero
        return 1, constraint.offset, 1 / (math.log(2) + constraint.offset)
    if type(constraint) is Interval:
        return 2, constraint.low, constraint.high - constraint.low
    if type(constraint) is Exp:
        return 3, constraint.floor, 0.0
    return None


class _Direct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, job: Job, moments: Moments, *tensors: Tensor) -> Tensor:
        ctx.job, ctx.moments = job, moments
        ctx.save_for_backward(*tensors)
        loss, ctx.slopes, ctx.factor = _run(job, moments, tensors, ctx.needs_input_grad[2:])
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # the gradient may be differentiated again
            return None, None, *_by_torch(ctx.job, ctx.moments, ctx.saved_tensors, grad)
        slopes, ctx.slopes = ctx.slopes, None
        if slopes is None:  # retain_graph: the first backward pass has used them
            _, slopes, ctx.factor = _run(ctx.job, ctx.moments, ctx.saved_tensors, ctx.needs_input_grad[2:])
        grad = grad if ctx.factor is None else grad * ctx.factor
        if not is_bare(grad):  # a batch of gradients
            return None, None, *(None if s is None else s * grad for s in slopes)
        _multiply([s for s in slopes if s is not None], grad)
        return None, None, *slopes


def _multiply(slopes: list[Tensor], grad: Tensor) -> None:
    if grad.is_cuda and max(s.numel() for s in slopes) > _LARGE:
        rescale_(slopes, grad)
    elif grad.is_cuda:
        torch._foreach_mul_(slopes, grad)
    else:
        rescale_.cpu(slopes, grad)


def _run(
    job: Job, moments: Moments, tensors: Sequence[Tensor], needs: Sequence[bool]
) -> tuple[Tensor, list[Tensor | None], Tensor | None]:
    """The loss, the gradients that are needed, in the order of the tensors (a target has none), and their factor."""
    slopes = [torch.empty_like(t) if n else None for t, n in zip(tensors, needs, strict=True)]
    raw, d_raw = list(tensors[2:]), slopes[2:]
    heads = []
    for place, moment in enumerate(moments):
        if moment is not None:
            head = (*raw[place : place + 3], moment)
            wanted = d_raw[place : place + 3]
            raw[place : place + 3] = [by_kernel(*head)]
            d_raw[place : place + 3] = [torch.empty_like(raw[place]) if any(needs) else None]
            heads.append((head, d_raw[place], wanted))
    loss, factor = job.run((*tensors[:2], *raw), (slopes[0], *d_raw))
    for head, slope, wanted in heads:
        if slope is not None:
            write_slopes(head, slope, wanted)
    return loss, slopes, factor


def _by_torch(job: Job, moments: Moments, tensors: Sequence[Tensor], grad: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again."""
    raw = list(tensors[2:])
    for place, moment in enumerate(moments):
        if moment is not None:
            features, weight, bias = raw[place : place + 3]
            raw[place : place + 3] = [by_torch(features, weight, bias, moment)]
    asked = [t for t in tensors if t.requires_grad]
    slopes = iter(torch.autograd.grad(job.plain(*tensors[:2], *raw), asked, grad, create_graph=True))
    return tuple(next(slopes) if t.requires_grad else None for t in tensors)
