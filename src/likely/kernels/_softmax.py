r"""The softmax NLL with one temperature per row, as torch operators that keep no copy of the logits.

With :math:`u = z/T` and labels smoothed to :math:`y`, :math:`\ell = \log\sum e^u - \langle y, u\rangle`, so that
:math:`\partial\ell/\partial z = (p - y)/T` and :math:`\partial\ell/\partial T = -\langle p - y, u\rangle / T`: the
sums for loss and temperature are taken in one pass over a row, the logits' gradient in a second.
``likely::softmax_sum`` does both for a loss that is summed, ``likely::softmax_sum_`` leaves the gradient where the
logits were, and ``likely::softmax_each`` and ``likely::softmax_slopes`` are the two passes of one that is not reduced.
On CUDA they are Triton kernels; the CPU's, in plain torch, say what those compute.
"""

from typing import Any

import torch
from torch import Tensor

from likely.kernels._location import PLAIN, in_half, rescaled
from likely.kernels._operator import Operator

_INPUTS = "Tensor target, Tensor temperature, int ignore_index, float smoothing"


def softmax_nll(
    logits: Tensor,
    target: Tensor,
    temperature: Tensor,
    *,
    ignore_index: int,
    smoothing: float,
    reduction: str,
    overwrite: bool = False,
) -> Tensor:
    """The softmax NLL, reduced."""
    logits = logits if logits.stride(1) == 1 else logits.contiguous()
    temperature = temperature.to(torch.promote_types(temperature.dtype, torch.float32))
    rows = (logits, target, temperature, ignore_index, smoothing)
    if reduction == "none":
        return softmax_each(*rows)[0]
    factor = row_weight(target, ignore_index, reduction, torch.promote_types(logits.dtype, torch.float32))
    if in_half(logits):
        return softmax_each(*rows)[0].sum() * factor
    learning = torch.is_grad_enabled() and (logits.requires_grad or temperature.requires_grad)
    if overwrite and learning and logits.requires_grad:
        return _Overwriting.apply(*rows, factor)
    return softmax_sum(*rows, factor, learning)[0]


def row_weight(target: Tensor, ignore_index: int, reduction: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """The factor of every row's NLL: one over the number of rows that count, or one."""
    if reduction == "sum":
        return torch.ones((), device=target.device, dtype=dtype)
    counted: Tensor = target != ignore_index
    return counted.sum().clamp(min=1).to(dtype).reciprocal()


class _Overwriting(torch.autograd.Function):
    """The logits' gradient takes the place of the logits; their version is raised, so that no one reads them again."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, temperature: Tensor, *rest: Any) -> Tensor:
        total: Tensor
        total, slope = softmax_sum_.registered(logits, target, temperature, *rest)
        ctx.slopes = (logits.detach(), slope)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.slopes is None or torch.is_grad_enabled():
            raise RuntimeError(
                "overwrite=True has put the gradient where the logits were: the backward pass goes through it once, "
                "and once only; leave overwrite=False to keep the graph or to differentiate again"
            )
        (d_logits, d_temperature), ctx.slopes = ctx.slopes, None
        d_logits, d_temperature = rescaled((d_logits, d_temperature), grad)
        return d_logits, None, d_temperature, None, None, None


# Every kernel is given the rows of its schema (logits, target, temperature, ignore_index, smoothing), then options.


def _each_cpu(*rows: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The NLL of every row, log Σ eᵘ and the slope in the temperature."""
    _, target, temperature, _, smoothing = rows
    u, p, norm, counted = _tempered(*rows)
    finite = torch.where(u.isneginf(), 0.0, u)
    index = torch.where(counted, target, 0).unsqueeze(1)
    target_logit, finite_target_logit = u.gather(1, index).squeeze(1), finite.gather(1, index).squeeze(1)
    nll = norm - (1 - smoothing) * target_logit - (smoothing * u.mean(1) if smoothing else 0.0)
    slope = (1 - smoothing) * finite_target_logit + smoothing * finite.mean(1) - (p * finite).sum(1)
    return torch.where(counted, nll, 0.0), norm, torch.where(counted, slope / temperature, 0.0)


def _slopes_cpu(*arguments: Any) -> Tensor:
    *rows, _, upstream = arguments
    logits, target, temperature, _, smoothing = rows
    _, p, _, counted = _tempered(*rows)
    label = torch.zeros_like(p).scatter_(1, torch.where(counted, target, 0).unsqueeze(1), 1 - smoothing)
    weight = torch.where(counted, upstream / temperature, 0.0).unsqueeze(1)
    return ((p - label - smoothing / p.shape[1]) * weight).to(logits.dtype)


def _tempered(
    logits: Tensor, target: Tensor, temperature: Tensor, ignore_index: int, smoothing: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits over temperatures, their softmax, log Σ eᵘ and which rows count."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    u = logits.to(wide) / temperature.expand(len(logits)).unsqueeze(1)
    norm = u.logsumexp(1)
    return u, (u - norm.unsqueeze(1)).exp(), norm, target != ignore_index


def _sum_cpu(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    *rows, factor, learning = arguments
    nll, norm, slope = _each_cpu(*rows)
    d_logits = _slopes_cpu(*rows, norm, factor.expand_as(nll)) if learning else rows[0].new_empty(0)
    return (nll.sum() * factor), d_logits, gathered(slope * factor, rows[2])


def _sum_cpu_(*arguments: Any) -> tuple[Tensor, Tensor]:
    total, d_logits, slope = _sum_cpu(*arguments, True)
    arguments[0].copy_(d_logits)
    return total, slope


def gathered(slope: Tensor, temperature: Tensor) -> Tensor:
    """One slope per row as the gradient of the temperature, summed if that is one number."""
    return slope.sum().view(temperature.shape) if temperature.numel() == 1 else slope.clone()


def _row(logits: Tensor) -> Tensor:
    return logits.new_empty(logits.shape[0], dtype=torch.float32)


def _scalar(logits: Tensor) -> Tensor:
    return logits.new_empty((), dtype=torch.float32)


def _sum_fake(logits: Tensor, target: Tensor, temperature: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    d_logits = torch.empty_like(logits) if rest[-1] else logits.new_empty(0)
    return _scalar(logits), d_logits, torch.empty_like(temperature)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    logits, target, temperature, *ctx.options = inputs
    ctx.save_for_backward(logits, target, temperature)
    ctx.results = output[1:]
    ctx.mark_non_differentiable(*ctx.results)
    ctx.set_materialize_grads(False)


def _plain_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Gradients that can be differentiated again."""
    logits, target, temperature = ctx.saved_tensors
    ignore_index, smoothing = ctx.options[:2]
    nll = PLAIN["softmax"](logits, target, temperature, ignore_index=ignore_index, label_smoothing=smoothing)
    asked = [t for t in (logits, temperature) if t.requires_grad]
    slopes = iter(torch.autograd.grad(nll, asked, grad.expand_as(nll), create_graph=True))
    return next(slopes) if logits.requires_grad else None, next(slopes) if temperature.requires_grad else None


def _sum_backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Any, ...]:
    if grad is None:
        return (None,) * 7
    factor = ctx.options[2]
    if torch.is_grad_enabled():
        d_logits, d_temperature = _plain_gradients(ctx, grad * factor)
        return d_logits, None, d_temperature, None, None, None, None
    results, ctx.results = ctx.results, None
    if results is None:  # the graph was kept, and the first pass has used them up
        results = softmax_sum(*ctx.saved_tensors, *ctx.options)[1:]
    d_logits, d_temperature = rescaled(results, grad)
    needs = ctx.needs_input_grad
    return d_logits if needs[0] else None, None, d_temperature if needs[2] else None, None, None, None, None


def _each_backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Any, ...]:
    if grad is None:
        return (None,) * 5
    if torch.is_grad_enabled():
        d_logits, d_temperature = _plain_gradients(ctx, grad)
        return d_logits, None, d_temperature, None, None
    norm, slope = ctx.results
    needs, (logits, target, temperature) = ctx.needs_input_grad, ctx.saved_tensors
    rows = (logits, target, temperature, *ctx.options)
    d_logits = softmax_slopes(*rows, norm, grad) if needs[0] else None
    return d_logits, None, gathered(slope * grad, temperature) if needs[2] else None, None, None


softmax_sum = Operator(
    f"softmax_sum(Tensor logits, {_INPUTS}, Tensor factor, bool learning) -> (Tensor, Tensor, Tensor)",
    cpu=_sum_cpu,
    fake=_sum_fake,
    remember=_remember,
    backward=_sum_backward,
)
softmax_sum_ = Operator(
    f"softmax_sum_(Tensor(a!) logits, {_INPUTS}, Tensor factor) -> (Tensor, Tensor)",
    cpu=_sum_cpu_,
    fake=lambda z, y, t, *rest: (_scalar(z), torch.empty_like(t)),
)
softmax_each = Operator(
    f"softmax_each(Tensor logits, {_INPUTS}) -> (Tensor, Tensor, Tensor)",
    cpu=_each_cpu,
    fake=lambda z, *rest: (_row(z), _row(z), _row(z)),
    remember=_remember,
    backward=_each_backward,
)
softmax_slopes = Operator(
    f"softmax_slopes(Tensor logits, {_INPUTS}, Tensor norm, Tensor upstream) -> Tensor",
    cpu=_slopes_cpu,
    fake=lambda z, *rest: torch.empty_like(z),
)
