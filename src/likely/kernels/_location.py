r"""Normal, Laplace, Student's t and robust NLLs as torch operators that compute loss and gradients in one pass.

``likely::location_sum`` adds the NLLs up and computes every gradient on the way, so that the backward pass has
nothing left to do; ``likely::location_each`` and ``likely::location_slopes`` are the two passes of an NLL that is not
reduced. On CUDA they are Triton kernels, on the CPU compiled code, and gradients of gradients go through the plain
formulas that :mod:`likely.likelihoods` leaves in ``PLAIN``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from likely._validation import broadcast, reduce
from likely.kernels import _native
from likely.kernels._operator import Operator, is_bare

PLAIN: dict[str, Callable[..., Tensor]] = {}  # (prediction, target, scale[, shape]) -> NLL without constants

_INPUTS = "str kind, Tensor prediction, Tensor target, Tensor scale, Tensor? shape"


def location_nll(
    kind: str,
    prediction: Tensor,
    target: Tensor,
    scale: Tensor,
    shape: Tensor | None = None,
    *,
    constant: float,
    reduction: str,
) -> Tensor:
    """The NLL of a location likelihood, reduced."""
    parameters = [scale] if shape is None else [scale, shape]
    if target.shape != prediction.shape or any(p.ndim and p.shape != prediction.shape for p in parameters):
        named = dict(zip(("scale", "shape"), parameters, strict=False))
        prediction, target, *wide = broadcast(prediction=prediction, target=target, **named)
        parameters = [p if p.numel() == 1 else w for p, w in zip(parameters, wide, strict=True)]
    order = () if prediction.is_contiguous() else in_memory(prediction)
    prediction, target, scale, *rest = (
        (t.permute(order) if order and t.numel() > 1 else t).contiguous() for t in (prediction, target, *parameters)
    )
    inputs = (kind, prediction, target, scale, rest[0] if rest else None)
    if reduction == "none" or in_half(*inputs[1:]):
        losses: Tensor = location_each(*inputs, constant)
        return reduce(losses.permute([order.index(axis) for axis in range(len(order))]) if order else losses, reduction)
    learning = torch.is_grad_enabled()
    moving = [prediction.requires_grad or target.requires_grad, *(p.requires_grad for p in (scale, *rest)), False]
    factor = 1 / prediction.numel() if reduction == "mean" else 1.0
    return location_sum(*inputs, constant, factor, [learning and m for m in moving[:3]])[0]


def in_memory(tensor: Tensor) -> tuple[int, ...]:
    """The axes in their order in memory; read in this order, images in channels-last format need no copy.

    >>> in_memory(torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last))
    (0, 2, 3, 1)
    """
    return tuple(sorted(range(tensor.ndim), key=tensor.stride, reverse=True))


def in_half(*tensors: Tensor | None) -> bool:
    """Whether a gradient is a float16, in which it must be scaled up (by a GradScaler) before it is stored."""
    return any(t is not None and t.dtype == torch.float16 and t.requires_grad for t in tensors)


def outputs(inputs: Sequence[Any], wanted: Sequence[bool]) -> list[Tensor]:
    """Empty tensors for the slopes of prediction, scale and shape; without elements for those that are not wanted."""
    _, prediction, _, scale, shape = inputs
    like = (prediction, scale, prediction if shape is None else shape)
    return [torch.empty_like(t) if asked else t.new_empty(0) for t, asked in zip(like, wanted, strict=True)]


def with_room(slopes: Sequence[Tensor]) -> list[Tensor | None]:
    """The slopes that a kernel writes; that of a parameter which is one number is a sum."""
    return [s if s.numel() > 1 or (s.numel() and k == 0) else None for k, s in enumerate(slopes)]


# Every kernel is given the inputs of its schema, (kind, prediction, target, scale, shape), and then its options.


def _sum_cpu(*arguments: Any) -> tuple[Tensor, ...]:
    *inputs, constant, factor, wanted = arguments
    slopes = outputs(inputs, wanted)
    return _run_cpu(inputs, slopes, constant=constant, factor=factor), *slopes


def _slopes_cpu(*arguments: Any) -> tuple[Tensor, ...]:
    *inputs, upstream, wanted = arguments
    slopes = outputs(inputs, wanted)
    _run_cpu(inputs, slopes, upstream=upstream.contiguous())
    return tuple(slopes)


def _each_cpu(*arguments: Any) -> Tensor:
    *inputs, constant = arguments
    losses = torch.empty_like(inputs[1])
    _run_cpu(inputs, [], constant=constant, losses=losses)
    return losses


def _run_cpu(inputs: Sequence[Any], slopes: Sequence[Tensor], **options: Any) -> Tensor:
    """Write the slopes that have room; the sum of the NLLs."""
    kind, prediction, target, *parameters = inputs
    d_prediction, *room = [s if s.numel() else None for s in slopes] or [None] * 3
    read = [(p, _native.Layout.of(p)) for p in parameters]
    options["d_prediction"] = d_prediction
    return _native.location(_native.KINDS.index(kind), prediction, target, read, room, **options)


def _rescale_cpu(values: Sequence[Tensor], factor: Tensor) -> None:
    if factor.item() != 1:
        for value in values:
            value.mul_(factor)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.kind, prediction, target, scale, shape, *ctx.rest = inputs
    ctx.save_for_backward(prediction, target, scale, *([] if shape is None else [shape]))
    if isinstance(output, tuple):
        ctx.slopes = output[1:]
        ctx.mark_non_differentiable(*ctx.slopes)
        ctx.set_materialize_grads(False)


def _inputs(ctx: Any) -> tuple[Any, ...]:
    prediction, target, scale, *rest = ctx.saved_tensors
    return ctx.kind, prediction, target, scale, rest[0] if rest else None


def _plain_gradients(ctx: Any, grad: Tensor, factor: float) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again."""
    inputs = ctx.saved_tensors
    nll = PLAIN[ctx.kind](*inputs)
    asked = [t for t in inputs if t.requires_grad]
    weight = factor * (grad if grad.ndim == nll.ndim else grad.expand_as(nll))
    slopes = iter(torch.autograd.grad(nll, asked, weight, create_graph=True))
    gradients = [next(slopes) if t.requires_grad else None for t in inputs]
    return gradients[0], gradients[1], gradients[2], gradients[3] if len(inputs) > 3 else None


def _spread(ctx: Any, slopes: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """Slopes of prediction, scale and shape as gradients of prediction, target, scale and shape."""
    d_prediction, d_scale, d_shape = (s if s.numel() else None for s in slopes)
    needs = ctx.needs_input_grad
    d_target = -d_prediction if needs[2] and d_prediction is not None else None
    return d_prediction if needs[1] else None, d_target, d_scale, d_shape


def rescaled(slopes: Sequence[Tensor], grad: Tensor) -> list[Tensor]:
    """Slopes · grad, in place: no pass over memory where the loss is the end of the graph and ``grad`` is one."""
    # A graph that is being traced must not write over what its forward half returned, and a batch of gradients
    # (is_grads_batched) has no room in one slope.
    if type(grad) is not Tensor or not is_bare(grad):
        return [s * grad for s in slopes]
    if present := [s for s in slopes if s.numel()]:
        rescale_(present, grad)
    return list(slopes)


def _sum_backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Any, ...]:
    constant, factor, wanted = ctx.rest
    if grad is None:
        return (None,) * 8
    if torch.is_grad_enabled():
        return None, *_plain_gradients(ctx, grad, factor), None, None, None
    slopes, ctx.slopes = ctx.slopes, None
    if slopes is None:  # the graph was kept, and the first pass has used them up
        slopes = location_sum(*_inputs(ctx), constant, factor, wanted)[1:]
    return None, *_spread(ctx, rescaled(slopes, grad)), None, None, None


def _each_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    if torch.is_grad_enabled():
        return None, *_plain_gradients(ctx, grad, 1.0), None
    needs = ctx.needs_input_grad
    wanted = [needs[1] or needs[2], needs[3], needs[4]]
    return None, *_spread(ctx, location_slopes(*_inputs(ctx), grad, wanted)), None


location_sum = Operator(
    f"location_sum({_INPUTS}, float constant, float factor, bool[] wanted) -> (Tensor, Tensor, Tensor, Tensor)",
    cpu=_sum_cpu,
    fake=lambda *arguments: (arguments[1].new_empty((), dtype=torch.float32), *outputs(arguments[:5], arguments[-1])),
    remember=_remember,
    backward=_sum_backward,
)
location_each = Operator(
    f"location_each({_INPUTS}, float constant) -> Tensor",
    cpu=_each_cpu,
    fake=lambda kind, prediction, *rest: torch.empty_like(prediction, dtype=torch.float32),
    remember=_remember,
    backward=_each_backward,
)
location_slopes = Operator(
    f"location_slopes({_INPUTS}, Tensor upstream, bool[] wanted) -> (Tensor, Tensor, Tensor)",
    cpu=_slopes_cpu,
    fake=lambda *arguments: tuple(outputs(arguments[:5], arguments[-1])),
)
rescale_ = Operator(
    "rescale_(Tensor(a!)[] values, Tensor factor) -> ()",
    cpu=_rescale_cpu,
    fake=lambda values, factor: None,
)
