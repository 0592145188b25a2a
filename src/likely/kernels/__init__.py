"""Fused kernels for the functions of :mod:`likely.functional`, which decide when they are used.

On CUDA they are written in Triton, on the CPU in C++; each has a plain formula in torch beside it that gives the same
numbers and takes over wherever a kernel does not apply: other dtypes and devices, ``torch.func``, forward-mode
differentiation, gradients of gradients, TorchScript, and ``torch.compile``, whose own fusion reaches across the loss.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from likely.kernels import _native
from likely.kernels._direct import Job, Location, Softmax, direct, layout_of
from likely.kernels._head import Head, as_they_are, head_applies, moments
from likely.kernels._linear_softmax import linear_softmax_nll
from likely.kernels._location import PLAIN, location_nll
from likely.kernels._native import KINDS, MOST_CLASSES, Layout
from likely.kernels._operator import is_bare
from likely.kernels._softmax import softmax_nll
from likely.kernels._usual import PLAIN_TYPES, usual

__all__ = [
    "KINDS",
    "MOST_CLASSES",
    "PLAIN",
    "Head",
    "Job",
    "Layout",
    "Location",
    "Softmax",
    "applies",
    "as_they_are",
    "available",
    "direct",
    "head_applies",
    "layout_of",
    "linear_softmax_nll",
    "location_nll",
    "moments",
    "softmax_nll",
    "transformed",
    "undisturbed",
    "usual",
]

_ON_CUDA = (torch.float32, torch.bfloat16, torch.float16)


def applies(*tensors: Any) -> bool:
    """Whether a kernel can compute these tensors: not empty, on one device, of a supported dtype, not transformed."""
    if torch.compiler.is_compiling() or transformed():
        return False
    if not all(type(t) in PLAIN_TYPES and is_bare(t) and t.numel() for t in tensors):
        return False
    device = tensors[0].device
    if any(t.device != device for t in tensors):
        return False
    if device.type == "cuda":
        return all(t.dtype in _ON_CUDA for t in tensors) and _has_triton()
    return device.type == "cpu" and all(t.dtype == torch.float32 for t in tensors) and _native.library() is not None


def available(tensor: Tensor, validate_args: bool | None = None) -> bool:
    """Whether there are kernels for the tensor's device."""
    if tensor.is_cpu:
        return _native.library() is not None
    return tensor.is_cuda and not validate_args and _has_triton()


def transformed() -> bool:
    """Whether ``torch.func``, forward-mode differentiation or a tracer is active."""
    return bool(
        torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state()
        or getattr(forward_ad, "_current_level", -1) >= 0
    )


def undisturbed() -> bool:
    """Whether no transform, tracer or dispatch mode is active."""
    return not (transformed() or torch._C._len_torch_dispatch_stack())


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
