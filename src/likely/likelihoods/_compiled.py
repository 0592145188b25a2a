"""The way through a loss that ``torch.compile`` follows.

Every function, class and attribute that the compiler passes is one more that each later call compares before it runs (a
guard), and three hundred of them cost a small batch a tenth of its time. So the usual case passes few. The file is
imported when the compiler is at work, for the decorators below would load it.
"""

from typing import Any

import torch
from torch import Tensor

from likely import _kernels as kernels
from likely.parameters import Data
from likely.parameters._slot import may_start

_MIN_STUDENT_T_ELEMENTS = 65_536  # elements from which a step takes longer than the call of an operator
Loss = Any  # a likelihood loss, whose class is built upon this file


def compiled_loss(loss: Loss, prediction: Tensor, target: Tensor, **rest: Any) -> Tensor:
    """The loss of a batch in a compiler's graph."""
    value: Tensor | None = None
    if torch.compiler.is_dynamo_compiling() and any(type(module) is Data for module in loss._modules.values()):
        return uncompiled(loss, prediction, target, **rest)
    if loss.training and not loss._begun and loss._waiting() and may_start(prediction):
        value = loss._first(prediction, target, rest)
    elif rest["sample_weight"] is None:
        value = traced(loss, prediction, target, rest["features"], rest["index"])
    return loss._by_form(prediction, target, **rest) if value is None else value


def traced(loss: Loss, prediction: Tensor, target: Tensor, features: Any, index: Tensor | None) -> Tensor | None:
    """Return the loss of a location likelihood in float32, reduced; None for all others."""
    formula = type(loss)._formula
    if (
        formula is None
        or loss.beta
        or loss.reduction == "none"
        or target.shape != prediction.shape
        or prediction.dtype is not torch.float32
        or target.dtype is not torch.float32
        or not (features is None or isinstance(features, Tensor))
    ):
        return None
    reduced: Tensor
    phi = loss.parameter_values(prediction, features, index)
    single = all(value.dtype is torch.float32 for value in phi.values())
    constant = loss._fused.constant if loss.full else 0.0
    if single and _has_kernel(loss._fused.kind, prediction):
        values = [phi[name] for name in loss._fused.order]
        reduced = kernels.location_nll(
            loss._fused.kind, prediction, target, *values, constant=constant, reduction=loss.reduction
        )
    else:
        nll = formula(prediction, target, **phi) + constant if single else loss._nll(prediction, target, phi)
        reduced = nll.mean() if loss.reduction == "mean" else nll.sum()
    return reduced if loss.multiplier == 1 else reduced * loss.multiplier


def _has_kernel(kind: str, tensor: Tensor) -> bool:
    """Whether there is a kernel that is faster than what the compiler makes of the formula.

    For ρ the compiler copies tables to the device in every step; for large residuals of Student's t, whose squares
    would overflow, it evaluates two branches per element.
    """
    # An exported program may have any number of rows, and must not depend on this one.
    if kind not in ("robust", "student_t") or not torch.compiler.is_dynamo_compiling():
        return False
    if tensor.numel() < (_MIN_STUDENT_T_ELEMENTS if kind == "student_t" else 1):
        return False
    return has_kernels_on(tensor.device.type)


@torch.compiler.disable
def uncompiled(loss: Any, prediction: Tensor, target: Tensor, **rest: Any) -> Tensor:
    """The loss of rows that step in the backward pass, at which a compiler's graph would end."""
    value: Tensor = loss.forward(prediction, target, **rest)
    return value


@torch.compiler.assume_constant_result
def has_kernels_on(device: str) -> bool:
    """Whether there are fused kernels on this kind of device."""
    return kernels.available(torch.empty(0, device=device))
