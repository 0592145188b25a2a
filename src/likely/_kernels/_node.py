"""The node of the graph that runs a fused kernel, and the conditions under which one may be used.

A loss of a few thousand numbers takes less time than the operations around it: constraint, broadcasting, checks, and a
node for each of them in the backward pass. Here one kernel does all of that, from stored parameters to the loss, and
computes the gradients on the way, so that the backward pass has nothing left to do but to multiply them. What is
computed is a job, such as :class:`likely._kernels.Location`; gradients of gradients go through its plain formula.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.modules import module as torch_module

from likely._kernels import _native
from likely._kernels._native import Slopes

PLAIN_TYPES = (Tensor, nn.Parameter)  # not a subclass, which may stand for something else
MAX_HEAD_PRODUCTS = 1 << 17  # multiplications; beyond, torch's product of matrices is worth its overhead
_RESCALE_KERNEL_ELEMENTS = 1 << 20  # elements from which a kernel that returns early at a factor of one is faster
_ON_CUDA = (torch.float32, torch.bfloat16, torch.float16)

LIBRARY = torch.library.Library("likely", "FRAGMENT")  # operators that the graphs of torch.compile call
Plain = Callable[..., Tensor]
Kernel = Callable[..., Any]


class Job(Protocol):
    """A likelihood, and how a kernel reads the parameters of batches of one form."""

    @property
    def plain(self) -> Plain:
        """The same loss of the same tensors, an operation at a time."""

    def run(self, tensors: Sequence[Tensor], slopes: Slopes) -> tuple[Tensor, Tensor | None]:
        """Return the reduced loss and a factor that the gradients still need; write the gradients."""


@cache
def plain_keys(device: str) -> frozenset[int]:
    """What torch's dispatcher sees in a tensor on this device that is its memory and nothing else."""
    with torch.inference_mode():
        inference = torch.empty(0, device=device)
    return frozenset(torch._C._dispatch_keys(t).raw_repr() for t in (torch.empty(0, device=device), inference))


_CPU_KEYS = plain_keys("cpu")


def is_plain_tensor(tensor: Any) -> bool:
    """Whether it is its memory and nothing else: no subclass, batch of tensors, negative view or zeros without storage.

    >>> is_plain_tensor(torch.ones(2)), is_plain_tensor(torch.ones(2, dtype=torch.complex64).conj().imag)
    (True, False)
    """
    return type(tensor) in PLAIN_TYPES and (
        torch._C._dispatch_keys(tensor).raw_repr() in (_CPU_KEYS if tensor.is_cpu else plain_keys(tensor.device.type))
    )


def is_readable(tensor: Any, dtype: torch.dtype | None = torch.float32) -> bool:
    """Whether a kernel can read a tensor in place: plain, contiguous, of this dtype, or of any real one under None.

    >>> is_readable(torch.ones(2)), is_readable(torch.ones(2).double()), is_readable(torch.ones(2, 3).T)
    (True, False, False)
    """
    return (
        is_plain_tensor(tensor)
        and (tensor.dtype is dtype if dtype else not tensor.is_complex())
        and tensor.is_contiguous()
    )


def transformed() -> bool:
    """Whether ``torch.func``, forward-mode differentiation or a tracer is active."""
    return bool(
        torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state()
        or getattr(forward_ad, "_current_level", -1) >= 0
    )


def no_transform_active() -> bool:
    """Whether no transform, tracer or dispatch mode is active."""
    return not (transformed() or torch._C._len_torch_dispatch_stack())


def has_hooks(*modules: nn.Module) -> bool:
    """Whether a call of one of these modules runs a forward hook, so that it must not be gone round.

    >>> layer = nn.Linear(2, 1)
    >>> before = has_hooks(layer)
    >>> handle = layer.register_forward_hook(print)
    >>> before, has_hooks(layer)
    (False, True)
    """
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
        return True
    return any(module._forward_hooks or module._forward_pre_hooks for module in modules)


def available(tensor: Tensor, validate_args: bool | None = None) -> bool:
    """Whether there are kernels for the tensor's device."""
    if tensor.is_cpu:
        return _native.library() is not None
    return tensor.is_cuda and not validate_args and _has_triton()


def applies(*tensors: Any) -> bool:
    """Whether a kernel can compute these tensors: not empty, on one device, of a supported dtype, not transformed."""
    if torch.compiler.is_compiling() or not no_transform_active():
        return False
    first = tensors[0]
    dtypes = _ON_CUDA if is_plain_tensor(first) and first.is_cuda else (torch.float32,)
    readable = (is_plain_tensor(t) and t.numel() and t.device == first.device and t.dtype in dtypes for t in tensors)
    return all(readable) and available(first)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


@cache
def triton_kernels(name: str) -> Any:
    """The module of the kernels on CUDA; Triton is imported when they are first used."""
    return import_module(f"{__package__}._{name}_triton")


class Head(NamedTuple):
    """The arguments from which a parameter's raw values are computed: features, a linear layer, and moments."""

    features: Tensor
    weight: Tensor
    bias: Tensor
    moments: Tensor
    shape: tuple[int, ...]


def head_applies(features: Any, weight: Tensor, bias: Tensor) -> bool:
    """Whether the kernel can compute a layer: few enough numbers, in float32, contiguous, on one device."""
    if not (is_readable(features) and is_readable(weight) and is_readable(bias)):
        return False
    if features.device != weight.device or features.ndim < 2 or features.shape[-1] != weight.shape[1]:
        return False
    if features.is_cuda:
        return features.numel() > 0 and not torch.is_autocast_enabled("cuda")  # which would round small numbers
    return 0 < features.numel() * len(weight) <= MAX_HEAD_PRODUCTS


@cache
def unit_moments(width: int) -> Tensor:
    """Moments that leave features unchanged. On CUDA they are not read."""
    return torch.tensor([[0.0], [1.0], [torch.inf]]).repeat(1, width)


def _head_by_torch(features: Tensor, weight: Tensor, bias: Tensor, moments: Tensor) -> Tensor:
    """The layer's output for standardised features, shape (rows, outputs); differentiable any number of times."""
    rows = features.reshape(-1, features.shape[-1])
    if features.is_cuda:
        return F.linear(rows, weight, bias)
    mean, deviation, reach, *_ = moments
    return F.linear((rows - mean).clamp(-reach, reach) / deviation, weight, bias)


def _write_head_slopes(head: Sequence[Tensor], d_raw: Tensor, slopes: Slopes) -> None:
    """Write the gradients of features, weight and bias into those of ``slopes`` that are tensors."""
    features, weight, _, moments = head
    if not features.is_cuda:
        _native.head_slopes(d_raw, features, weight, moments, slopes)
        return
    rows = features.view(-1, features.shape[-1])
    d_features, d_weight, d_bias = slopes
    if d_features is not None:
        (torch.mm if len(weight) > 1 else torch.mul)(d_raw, weight, out=d_features.view_as(rows))
    if d_weight is not None:
        torch.mm(d_raw.t(), rows, out=d_weight)
    if d_bias is not None:
        torch.sum(d_raw, 0, out=d_bias)


def fused_loss(job: Job, prediction: Tensor, target: Tensor, *parameters: Tensor | Head) -> Tensor:
    """Compute a reduced loss from the prediction, the target and raw parameters in one node of the graph."""
    moments: list[Tensor | None] = []
    tensors: list[Tensor] = [prediction, target]
    for parameter in parameters:
        if isinstance(parameter, Head):
            moments.append(parameter.moments)
            tensors += parameter[:3]
        else:
            moments.append(None)
            tensors.append(parameter)
    if torch.is_grad_enabled():
        loss: Tensor = _apply(job, moments, *tensors)
        return loss
    return _run(job, moments, tensors, (False,) * len(tensors))[0]


def fused_losses(job: Any, *tensors: Tensor) -> Tensor:
    """Compute every element's loss in one node of the graph, by a job that has ``each`` and ``each_slopes``."""
    losses: Tensor = _PerElement.apply(job, *tensors)
    return losses


class _Reduced(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, job: Job, moments: list[Tensor | None], *tensors: Tensor) -> Tensor:
        ctx.job, ctx.moments = job, moments
        ctx.save_for_backward(*tensors)
        loss, ctx.slopes, ctx.factor = _run(job, moments, tensors, ctx.needs_input_grad[2:])
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needs = ctx.needs_input_grad[2:]
        if torch.is_grad_enabled():  # the gradient may be differentiated again
            raw = _through_heads(ctx.moments, ctx.saved_tensors)
            return None, None, *differentiable_slopes(ctx.job.plain(*raw), ctx.saved_tensors, grad)
        slopes, ctx.slopes = ctx.slopes, None
        if slopes is None:  # retain_graph: the first backward pass has used them
            _, slopes, ctx.factor = _run(ctx.job, ctx.moments, ctx.saved_tensors, needs)
        grad = grad if ctx.factor is None else grad * ctx.factor
        return None, None, *with_target(multiplied(slopes, grad), needs)


_apply = super(torch.autograd.Function, _Reduced).apply  # without looking for transforms, of which none is active here


class _PerElement(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, job: Any, *tensors: Tensor) -> Tensor:
        ctx.job = job
        ctx.save_for_backward(*tensors)
        losses, ctx.kept = job.each(tensors)
        return losses

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tensors, needs = ctx.saved_tensors, ctx.needs_input_grad[1:]
        again = torch.is_grad_enabled()
        if again or not is_plain_tensor(grad):  # a batch of gradients, or zeros without storage
            with torch.enable_grad():
                return None, *differentiable_slopes(ctx.job.plain(*tensors), tensors, grad, again)
        slopes = _room(tensors, needs)
        ctx.job.each_slopes(tensors, ctx.kept, grad.contiguous(), slopes)
        return None, *with_target(slopes, needs)


def _room(tensors: Sequence[Tensor], needs: Sequence[bool]) -> list[Tensor | None]:
    """Tensors for the gradients of all but the target, whose gradient is minus the prediction's."""
    needs = (needs[0] or needs[1], *needs[2:])
    return [torch.empty_like(t) if n else None for t, n in zip((tensors[0], *tensors[2:]), needs, strict=True)]


def with_target(slopes: Slopes, needs: Sequence[bool]) -> tuple[Tensor | None, ...]:
    first, *rest = slopes
    return first, -first if needs[1] and first is not None else None, *rest


def _run(
    job: Job, moments: Sequence[Tensor | None], tensors: Sequence[Tensor], needs: Sequence[bool]
) -> tuple[Tensor, list[Tensor | None], Tensor | None]:
    """The loss, the gradients that are needed, and a factor that they lack."""
    slopes = _room(tensors, needs)
    raw, d_raw = list(tensors[2:]), slopes[1:]
    heads = []
    for place, moment in enumerate(moments):
        if moment is not None:
            head = (*raw[place : place + 3], moment)
            wanted = d_raw[place : place + 3]
            by = _head_by_torch if head[0].is_cuda else _native.head
            raw[place : place + 3] = [by(*head)]
            d_raw[place : place + 3] = [torch.empty_like(raw[place]) if any(needs) else None]
            heads.append((head, d_raw[place], wanted))
    loss, factor = job.run((*tensors[:2], *raw), (slopes[0], *d_raw))
    for head, slope, wanted in heads:
        if slope is not None:
            _write_head_slopes(head, slope, wanted)
    return loss, slopes, factor


def _through_heads(moments: Sequence[Tensor | None], tensors: Sequence[Tensor]) -> list[Tensor]:
    """The prediction, the target and raw parameters, with gradient."""
    raw = list(tensors)
    for place, moment in enumerate(moments, 2):
        if moment is not None:
            features, weight, bias = raw[place : place + 3]
            raw[place : place + 3] = [_head_by_torch(features, weight, bias, moment)]
    return raw


def differentiable_slopes(
    loss: Tensor, tensors: Sequence[Tensor], grad: Tensor, again: bool = True
) -> tuple[Tensor | None, ...]:
    """Gradients of a loss by its plain formula, which can be differentiated again."""
    asked = [t for t in tensors if t.requires_grad]
    slopes = iter(torch.autograd.grad(loss, asked, grad, create_graph=again))
    return tuple(next(slopes) if t.requires_grad else None for t in tensors)


def multiplied(slopes: Slopes, grad: Tensor) -> list[Tensor | None]:
    """Slopes · grad, in place: no pass over memory where the loss is the end of the graph and ``grad`` is one."""
    # A batch of gradients has no room in one slope, and a graph must not write over what its forward half returned.
    if torch.compiler.is_compiling() or not is_plain_tensor(grad):
        return [None if s is None else s * grad for s in slopes]
    present = [s for s in slopes if s is not None]
    if not grad.is_cuda:
        if grad.item() != 1:
            for slope in present:
                slope.mul_(grad)
    elif any(s.numel() > _RESCALE_KERNEL_ELEMENTS for s in present):
        for slope in present:
            triton_kernels("reduce").rescale_(slope, grad)
    elif present:
        torch._foreach_mul_(present, grad)
    return list(slopes)


def register(schema: str, kernel: Kernel, fake: Kernel) -> Kernel:
    """The operator ``likely::NAME`` of a schema; ``fake`` tells what it returns of tensors without values."""
    name = schema.partition("(")[0]
    LIBRARY.define(schema)
    for device in ("CPU", "CUDA"):
        LIBRARY.impl(name, kernel, device)
    torch.library.register_fake(f"likely::{name}", fake, lib=LIBRARY)
    registered: Kernel = getattr(torch.ops.likely, name)
    return registered
