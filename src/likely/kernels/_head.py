"""A parameter read off features by one linear layer, as one node of the graph, for batches of a few thousand numbers."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from likely.kernels import _native
from likely.kernels._operator import is_bare
from likely.kernels._usual import usual

_MOST = 1 << 17  # multiplications; beyond, torch's product of matrices is worth its overhead


def head_applies(features: Tensor, *rest: Tensor) -> bool:
    """Whether the kernel takes features, weight, bias and buffers: all usual, and few enough."""
    return (
        features.numel() * len(rest[0]) <= _MOST
        and features.numel() > 0
        and all(map(usual, (features, *rest)))
        and _native.library() is not None
    )


def moments(x: Tensor, mean: Tensor, var: Tensor, batches: Tensor, *, momentum: float, learning: bool) -> Tensor:
    """The mean and deviation to standardise x by, shape (2, width), after learning from x."""
    native = _native.library()
    assert native is not None
    found = torch.empty((2, len(mean)), dtype=mean.dtype, device=mean.device)
    native.moments(
        x.data_ptr(),
        x.numel() // len(mean),
        len(mean),
        learning,
        momentum,
        mean.data_ptr(),
        var.data_ptr(),
        batches.data_ptr(),
        found.data_ptr(),
    )
    return found


class Head(torch.autograd.Function):
    """The layer's outputs for features (…, width), standardised by ``moments``; shape (rows, outputs)."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, moments: Tensor) -> Tensor:
        native = _native.library()
        assert native is not None
        outputs, width = weight.shape
        rows = features.numel() // width
        raw = features.new_empty((rows, outputs))
        native.head(
            features.data_ptr(),
            rows,
            width,
            outputs,
            moments.data_ptr(),
            weight.data_ptr(),
            bias.data_ptr(),
            raw.data_ptr(),
        )
        ctx.save_for_backward(features, weight, bias, moments)
        return raw

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, bias, moments = ctx.saved_tensors
        needs: Sequence[bool] = ctx.needs_input_grad
        if torch.is_grad_enabled() or not is_bare(grad):
            return _again(ctx.saved_tensors, needs, grad)
        native = _native.library()
        assert native is not None
        outputs, width = weight.shape
        slopes = [torch.empty_like(t) if n else None for t, n in zip((features, weight, bias), needs, strict=False)]
        grad = grad.contiguous()
        native.head_slopes(
            grad.data_ptr(),
            features.data_ptr(),
            features.numel() // width,
            width,
            outputs,
            moments.data_ptr(),
            weight.data_ptr(),
            *[0 if s is None else s.data_ptr() for s in slopes],
        )
        return *slopes, None


def _again(tensors: Sequence[Tensor], needs: Sequence[bool], grad: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients by torch's own operations, which can be differentiated again and take batches of gradients."""
    with torch.enable_grad():
        features, weight, bias, (mean, deviation) = tensors
        raw = F.linear((features.reshape(-1, len(mean)) - mean) / deviation, weight, bias)
    asked = [t for t, n in zip(tensors, needs, strict=True) if n]
    create = torch.is_grad_enabled()
    slopes = iter(torch.autograd.grad(raw, asked, grad, create_graph=create))
    return tuple(next(slopes) if n else None for n in needs)
