"""Parameters predicted from features by one linear layer, for batches of a few thousand numbers.

Standardising, the layer and their gradients are three calls of compiled code; torch would take some twenty operations.
On CUDA, features that are not standardised go through the layer by torch's products, without nodes in the graph.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from likely.kernels import _native
from likely.kernels._usual import usual

_MOST = 1 << 17  # multiplications; beyond, torch's product of matrices is worth its overhead


class Head(NamedTuple):
    """The arguments from which a parameter's raw values are computed: features, a linear layer, and moments."""

    features: Tensor
    weight: Tensor
    bias: Tensor
    moments: Tensor
    shape: tuple[int, ...]

    def values(self) -> Tensor:
        """Compute the raw values by torch's operations, with gradient."""
        return by_torch(self.features, self.weight, self.bias, self.moments).reshape(self.shape)


def head_applies(features: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Whether the kernel can compute a layer: few enough numbers, in float32, contiguous, on one device."""
    few = features.numel() * len(weight) <= _MOST
    if features.is_cuda:
        few = not torch.is_autocast_enabled("cuda")  # which would round a network's small numbers
    alike = features.device == weight.device
    return few and alike and features.numel() > 0 and usual(features) and usual(weight) and usual(bias)


def moments(x: Tensor, mean: Tensor, var: Tensor, batches: Tensor, *, momentum: float, learning: bool) -> Tensor:
    """Update the running statistics from x, and return the mean and standard deviation to standardise x by."""
    width = len(mean)
    result = mean.new_empty((5, width))
    _native.built().moments(
        x.data_ptr(),
        x.numel() // width,
        width,
        learning,
        momentum,
        mean.data_ptr(),
        var.data_ptr(),
        batches.data_ptr(),
        result.data_ptr(),
    )
    return result


@cache
def as_they_are(width: int) -> Tensor:
    """Moments that leave features unchanged. On CUDA they are not read."""
    return torch.stack([torch.zeros(width), torch.ones(width)])


def by_torch(features: Tensor, weight: Tensor, bias: Tensor, moments: Tensor) -> Tensor:
    """The layer's output for standardised features, shape (rows, outputs); differentiable any number of times."""
    rows = features.reshape(-1, features.shape[-1])
    if features.is_cuda:
        return F.linear(rows, weight, bias)
    mean, deviation, *_ = moments
    return F.linear((rows - mean) / deviation, weight, bias)


def by_kernel(features: Tensor, weight: Tensor, bias: Tensor, moments: Tensor) -> Tensor:
    """The same numbers, without a graph."""
    outputs, width = weight.shape
    if features.is_cuda:
        return torch.addmm(bias, features.view(-1, width), weight.t())
    rows = features.numel() // width
    raw = features.new_empty((rows, outputs))
    _native.built().head(
        features.data_ptr(),
        rows,
        width,
        outputs,
        moments.data_ptr(),
        weight.data_ptr(),
        bias.data_ptr(),
        raw.data_ptr(),
    )
    return raw


def write_slopes(head: Sequence[Tensor], d_raw: Tensor, slopes: Sequence[Tensor | None]) -> None:
    """Write the gradients of features, weight and bias into those of ``slopes`` that are tensors."""
    features, weight, _, moments = head
    outputs, width = weight.shape
    if features.is_cuda:
        d_features, d_weight, d_bias = slopes
        if d_features is not None:
            torch.mm(d_raw, weight, out=d_features.view(-1, width))
        if d_weight is not None:
            torch.mm(d_raw.t(), features.view(-1, width), out=d_weight)
        if d_bias is not None:
            torch.sum(d_raw, 0, out=d_bias)
        return
    _native.built().head_slopes(
        d_raw.data_ptr(),
        features.data_ptr(),
        features.numel() // width,
        width,
        outputs,
        moments.data_ptr(),
        weight.data_ptr(),
        *[0 if s is None else s.data_ptr() for s in slopes],
    )
