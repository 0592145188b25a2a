"""From stored parameters to a loss in one node of the graph, for the batches most people have.

A loss of a few thousand numbers takes less time than the operations around it: constraint, broadcasting, checks, and a
node for each of them on the way back. Here the kernel on the CPU does all of that. It is used where nobody looks on (no
``torch.func``, no tracer, no compiler, no dispatch mode), and a result that is not finite is not trusted: whoever asked
goes the long way then, which finds out why.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions.transforms import Transform

from likely.constraints import Interval, ShiftedSoftplus
from likely.kernels import _native
from likely.kernels._native import Layout
from likely.kernels._operator import is_bare

Plain = Callable[..., Tensor]


class Location(NamedTuple):
    """The likelihood of a batch of one form: which one, how its parameters are read, and what a sum is multiplied by."""

    kind: int
    layouts: tuple[Layout, ...]
    constant: float
    factor: float
    plain: Plain  # of prediction, target and raw parameters: the same loss, differentiable any number of times

    def run(self, tensors: Sequence[Tensor], slopes: Sequence[Tensor | None]) -> Tensor:
        """The loss; gradients of the prediction and the raw parameters are written into ``slopes``."""
        prediction, target, *raw = tensors
        read: list[tuple[Tensor | None, Layout]] = list(zip(raw, self.layouts, strict=True))
        d_prediction, *room = slopes
        if len(read) == 1:
            read.append((None, _native.ONE))
            room.append(None)
        return _native.location(
            self.kind,
            prediction,
            target,
            read,
            room,
            d_prediction=d_prediction,
            constant=self.constant,
            factor=self.factor,
        )


class Softmax(NamedTuple):
    """The softmax likelihood of logits (rows, classes) with class numbers."""

    layout: Layout
    ignore_index: int
    smoothing: float
    mean: bool
    multiplier: float
    plain: Plain

    def run(self, tensors: Sequence[Tensor], slopes: Sequence[Tensor | None]) -> Tensor:
        """The loss; gradients of the logits and the raw temperature are written into ``slopes``."""
        logits, target, raw = tensors
        return _native.softmax(
            logits,
            target,
            raw,
            self.layout,
            slopes[1],
            d_logits=slopes[0],
            ignore_index=self.ignore_index,
            smoothing=self.smoothing,
            mean=self.mean,
            multiplier=self.multiplier,
        )


Job = Location | Softmax


def direct(job: Job, *tensors: Tensor) -> Tensor | None:
    """The loss of prediction, target and raw parameters; None if it is not finite, and so wants an explanation."""
    loss: Tensor = _Direct.apply(job, *tensors) if torch.is_grad_enabled() else job.run(tensors, [None] * (len(tensors) - 1))
    return loss if math.isfinite(loss.item()) else None


def layout_of(shape: Sequence[int], within: Sequence[int], constraint: Transform | None) -> Layout | None:
    """How a kernel reads a parameter that broadcasts to ``within``; None where it cannot.

    >>> layout_of((256, 1), (256, 10), None), layout_of((2, 1, 3), (2, 5, 3), None)
    (Layout(inner=10, count=256, constraint=0, low=0.0, width=0.0), None)
    """
    code = _code_of(constraint)
    if code is None:
        return None
    padded = (1,) * (len(within) - len(shape)) + tuple(shape)
    own = [axis for axis, size in enumerate(padded) if size > 1]
    if not own:
        return Layout(1, 1, *code)
    first, last = own[0], own[-1] + 1
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
    return None


class _Direct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, job: Job, *tensors: Tensor) -> Tensor:
        ctx.job, ctx.slopes = job, _room(tensors, ctx.needs_input_grad)
        ctx.save_for_backward(*tensors)
        return job.run(tensors, ctx.slopes)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # the gradient may be differentiated again
            tensors = ctx.saved_tensors
            asked = [t for t in tensors if t.requires_grad]
            slopes = iter(torch.autograd.grad(ctx.job.plain(*tensors), asked, grad, create_graph=True))
            return None, *(next(slopes) if t.requires_grad else None for t in tensors)
        slopes, ctx.slopes = ctx.slopes, None
        if slopes is None:  # the graph was kept, and the first pass has given them away
            slopes = _room(ctx.saved_tensors, ctx.needs_input_grad)
            ctx.job.run(ctx.saved_tensors, slopes)
        if not is_bare(grad):  # a batch of gradients
            slopes = [None if s is None else s * grad for s in slopes]
        elif (by := grad.item()) != 1:
            for slope in slopes:
                if slope is not None:
                    slope.mul_(by)
        d_prediction, *rest = slopes
        return None, d_prediction, None, *rest


def _room(tensors: Sequence[Tensor], needs: Sequence[bool]) -> list[Tensor | None]:
    """For the gradients of the prediction and of the raw parameters that learn; a target does not."""
    prediction, _, *raw = tensors
    first = torch.empty_like(prediction) if needs[1] else None
    return [first, *(torch.empty_like(r) if n else None for r, n in zip(raw, needs[3:], strict=True))]
