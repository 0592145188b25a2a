r"""The softmax NLL with one temperature per row, by kernels that keep no copy of the logits.

With :math:`u = z/T` and labels smoothed to :math:`y`, :math:`\ell = \log\sum e^u - \langle y, u\rangle`, so that
:math:`\partial\ell/\partial z = (p - y)/T` and :math:`\partial\ell/\partial T = -\langle p - y, u\rangle / T`: the
sums for loss and temperature are taken in one pass over a row, the logits' gradient in a second. On CUDA they are
Triton kernels; the CPU's, in plain torch, say what those compute. ``torch.compile`` sees ``likely::softmax_sum_``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from likely._kernels import _native
from likely._kernels._location import PLAIN, in_half
from likely._kernels._native import Layout, Slopes
from likely._kernels._node import (
    Plain,
    fused_loss,
    fused_losses,
    multiplied,
    register,
    triton_kernels,
)


class Softmax(NamedTuple):
    """The softmax likelihood of logits (rows, classes) with class numbers, and how a kernel reads the temperature."""

    layout: Layout
    ignore_index: int
    smoothing: float
    mean: bool
    multiplier: float
    plain: Plain

    def run(self, tensors: Sequence[Tensor], slopes: Slopes) -> tuple[Tensor, Tensor | None]:
        """Return the loss, and a factor that the gradients still need; write the gradients."""
        if tensors[0].is_cuda:
            loss, factor = triton_kernels("softmax").softmax_of_few_classes(self, tensors, slopes)
            return loss, factor
        return _native.softmax(self, tensors, slopes), None


class SoftmaxRows(NamedTuple):
    """The softmax likelihood of rows with many classes, at temperatures that have passed their constraint."""

    ignore_index: int
    smoothing: float
    mean: bool
    reduced: bool

    def plain(self, logits: Tensor, target: Tensor, temperature: Tensor) -> Tensor:
        """The same loss of the same tensors, an operation at a time."""
        options = {"ignore_index": self.ignore_index, "label_smoothing": self.smoothing}
        nll = PLAIN["softmax"](logits, target, temperature, **options)
        return nll.sum() * row_weight(nll, target, self.ignore_index, self.mean) if self.reduced else nll

    def run(self, tensors: Sequence[Tensor], slopes: Slopes) -> tuple[Tensor, None]:
        """Return the loss; write the gradients."""
        logits, target, temperature = tensors
        factor = row_weight(logits, target, self.ignore_index, self.mean)
        loss, slope = _summed(*tensors, self.ignore_index, self.smoothing, factor, slopes[0])
        if slopes[1] is not None:
            slopes[1].copy_(gathered(slope, temperature))
        return loss, None

    def each(self, tensors: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the NLL of every row, zero where its label is ignored."""
        rows: Any = (*tensors, self.ignore_index, self.smoothing)
        if not tensors[0].is_cuda:
            losses, *kept = by_torch(*rows)
            return losses, kept
        norm = tensors[0].new_empty(len(tensors[0]), dtype=torch.float32)
        losses, slope = triton_kernels("softmax").softmax_rows(*rows, None, norm, None)
        return losses, (norm, slope)

    def each_slopes(self, tensors: Sequence[Tensor], kept: Sequence[Tensor], upstream: Tensor, slopes: Slopes) -> None:
        """Write the gradients of NLLs that are multiplied by ``upstream``."""
        norm, slope, *d_unit = kept
        d_logits, d_temperature = slopes
        if d_logits is not None and d_unit:
            d_logits.copy_(d_unit[0] * upstream.unsqueeze(1))
        elif d_logits is not None:
            rows = (*tensors, self.ignore_index, self.smoothing)
            triton_kernels("softmax").softmax_rows(*rows, upstream, norm, d_logits, forward=False)
        if d_temperature is not None:
            d_temperature.copy_(gathered(slope * upstream, tensors[2]))


def softmax_nll(
    logits: Tensor, target: Tensor, temperature: Tensor, *, ignore_index: int, smoothing: float, reduction: str
) -> Tensor:
    """The softmax NLL, reduced."""
    logits = logits if logits.stride(1) == 1 else logits.contiguous()
    temperature = temperature.to(torch.promote_types(temperature.dtype, torch.float32))
    reduced = reduction != "none" and not in_half(logits)
    job = SoftmaxRows(ignore_index, smoothing, reduction == "mean", reduced)
    if reduced:
        return fused_loss(job, logits, target, temperature)
    losses = fused_losses(job, logits, target, temperature)
    if reduction == "none":
        return losses
    return losses.sum() * row_weight(losses, target, ignore_index, job.mean)


def row_weight(like: Tensor, target: Tensor, ignore_index: int, mean: bool) -> Tensor:
    """The factor of every row's NLL: one over the number of rows that count, or one."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    if not mean:
        return torch.ones((), device=target.device, dtype=dtype)
    counted: Tensor = target != ignore_index
    return counted.sum().clamp(min=1).to(dtype).reciprocal()


# Every kernel is given the rows of its schema (logits, target, temperature, ignore_index, smoothing), then options.


def by_torch(
    logits: Tensor, target: Tensor, temperature: Tensor, ignore_index: int, smoothing: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The NLL of every row, log Σ eᵘ of logits over temperatures u, and the slopes in temperature and logits."""
    divisor = temperature.expand(len(logits)).unsqueeze(1)
    u = logits.to(torch.promote_types(logits.dtype, torch.float32)) / divisor
    norm = u.logsumexp(1)
    counted = (target != ignore_index).unsqueeze(1)
    own = torch.where(counted, target.unsqueeze(1), 0)
    label = torch.full_like(u, smoothing / u.shape[1]).scatter_(1, own, 1 - smoothing + smoothing / u.shape[1])
    nll = norm - torch.where(label > 0, label * u, 0.0).sum(1)
    gap = torch.where(counted, ((u - norm.unsqueeze(1)).exp() - label) / divisor, 0.0)
    slope = -(gap * torch.where(u.isneginf(), 0.0, u)).sum(1)
    return torch.where(counted.squeeze(1), nll, 0.0), norm, slope, gap


def _summed(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The sum of the NLLs times a factor, and every row's slope in the temperature; writes the logits' gradient."""
    *rows, factor, d_logits = arguments
    if rows[0].is_cuda:
        losses, slope = triton_kernels("softmax").softmax_rows(*rows, factor, None, d_logits)
        return losses.sum(), slope
    nll, _, slope, d_unit = by_torch(*rows)
    if d_logits is not None:
        d_logits.copy_(d_unit * factor)
    return nll.sum() * factor, slope * factor


def gathered(slope: Tensor, temperature: Tensor) -> Tensor:
    """One slope per row as the gradient of the temperature, summed if that is one number."""
    return slope.sum().view(temperature.shape) if temperature.numel() == 1 else slope


def _sum_in_place(*arguments: Any) -> tuple[Tensor, Tensor]:
    *rows, factor, learning = arguments
    loss, slope = _summed(*rows, factor, rows[0] if learning else None)
    return loss, gathered(slope, rows[2])


def _fake_sum(*arguments: Any) -> tuple[Tensor, Tensor]:
    logits, _, temperature, *_ = arguments
    wide = torch.promote_types(logits.dtype, torch.float32)
    return logits.new_empty((), dtype=wide), torch.empty_like(temperature)


# The sum of the NLLs and the temperature's slope; the logits' gradient takes their place if it is wanted.
softmax_sum_ = register(
    "softmax_sum_(Tensor(a!) logits, Tensor target, Tensor temperature, int ignore_index, float smoothing, "
    "Tensor factor, bool learning) -> (Tensor, Tensor)",
    _sum_in_place,
    _fake_sum,
)


def linear_softmax_nll(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    temperature: Tensor,
    *,
    ignore_index: int,
    smoothing: float,
    reduction: str,
    chunk: int,
) -> Tensor:
    """The softmax NLL of a linear layer in chunks of rows, so that not all logits exist at once."""
    factor = row_weight(hidden, target, ignore_index, reduction == "mean")
    with torch.autocast(hidden.device.type, enabled=False):
        total: Tensor = _LinearSoftmax.apply(
            hidden, weight, bias, target, temperature, ignore_index, smoothing, factor, chunk
        )
    return total


class _LinearSoftmax(torch.autograd.Function):
    """The sum over rows of weighted NLLs; gradients are computed chunk by chunk in the forward pass."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        hidden, weight, bias, target, temperature, ignore_index, smoothing, factor, chunk = inputs
        learning = any(ctx.needs_input_grad)
        ctx.slopes = [
            torch.zeros_like(t) if wanted else None for t, wanted in zip(inputs[:5], ctx.needs_input_grad, strict=False)
        ]
        d_hidden, d_weight, d_bias, _, d_temperature = ctx.slopes
        total = torch.zeros_like(factor)
        # In float16 one row's share of a mean is too small: the factor is applied in the backward pass.
        later = factor if hidden.dtype == torch.float16 else torch.ones_like(factor)
        factor = factor / later
        for start in range(0, len(hidden), chunk):
            rows = slice(start, start + chunk)
            divisor = temperature if temperature.numel() == 1 else temperature[rows]
            logits = hidden[rows] @ weight.T if bias is None else torch.addmm(bias, hidden[rows], weight.T)
            options = (target[rows], divisor, ignore_index, smoothing, factor)
            loss, slope = softmax_sum_(logits, *options, learning)  # logits hold their gradient now, if it is wanted
            total += loss
            if d_hidden is not None:
                torch.mm(logits, weight, out=d_hidden[rows])
            if d_weight is not None:
                d_weight.addmm_(logits.T, hidden[rows])
            if d_bias is not None:
                d_bias += logits.sum(0)
            if d_temperature is not None:
                (d_temperature if temperature.numel() == 1 else d_temperature[rows]).add_(slope)
        ctx.later = later
        return total * later

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.slopes is None or torch.is_grad_enabled():
            raise RuntimeError(
                "linear_softmax_nll keeps no graph: call backward once only, or compute the logits and call "
                "softmax_nll, to keep the graph or to differentiate again"
            )
        slopes, ctx.slopes = ctx.slopes, None
        return *multiplied(slopes, grad * ctx.later), None, None, None, None
