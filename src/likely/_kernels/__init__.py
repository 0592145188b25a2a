"""Fused kernels for the functions of :mod:`likely.functional`, which decide when they are used.

On CUDA they are written in Triton, on the CPU in C++; each has a plain formula in torch beside it that gives the same
numbers and takes over wherever a kernel does not apply: other dtypes and devices, ``torch.func``, forward-mode
differentiation, gradients of gradients, TorchScript, and ``torch.compile``, whose own fusion reaches across the loss.
"""

from likely._kernels._location import PLAIN, Location, layout_of, location_nll
from likely._kernels._native import KINDS, MAX_CLASSES, Layout, moments
from likely._kernels._node import (
    Head,
    Job,
    applies,
    available,
    fused_loss,
    has_hooks,
    head_applies,
    is_readable,
    no_transform_active,
    transformed,
    unit_moments,
)
from likely._kernels._softmax import Softmax, linear_softmax_nll, softmax_nll

__all__ = [
    "KINDS",
    "MAX_CLASSES",
    "PLAIN",
    "Head",
    "Job",
    "Layout",
    "Location",
    "Softmax",
    "applies",
    "available",
    "fused_loss",
    "has_hooks",
    "head_applies",
    "is_readable",
    "layout_of",
    "linear_softmax_nll",
    "location_nll",
    "moments",
    "no_transform_active",
    "softmax_nll",
    "transformed",
    "unit_moments",
]
