"""The softmax NLL of a linear layer in chunks of rows, so that not all logits exist at once."""

from typing import Any

import torch
from torch import Tensor

from likely._kernels._node import multiplied
from likely._kernels._softmax import row_weight, softmax_sum_


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
    """The softmax NLL of a linear layer, reduced."""
    factor = row_weight(target, ignore_index, reduction == "mean", torch.promote_types(hidden.dtype, torch.float32))
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
        wants_hidden, wants_weight, wants_bias, _, wants_temperature, *_ = ctx.needs_input_grad
        learning = any(ctx.needs_input_grad)
        d_hidden = torch.empty_like(hidden) if wants_hidden else None
        d_weight = torch.zeros_like(weight) if wants_weight else None
        d_bias = torch.zeros_like(bias) if wants_bias and bias is not None else None
        d_temperature = torch.zeros_like(temperature) if wants_temperature else None
        total = torch.zeros((), device=hidden.device, dtype=torch.promote_types(hidden.dtype, torch.float32))
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
        ctx.slopes, ctx.later = (d_hidden, d_weight, d_bias, None, d_temperature), later
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
