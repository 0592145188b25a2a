"""What stays outside the compiler. Imported when one is at work, for the decorators below would load it."""

from typing import Any

import torch
from torch import Tensor

from likely import kernels


@torch.compiler.disable
def uncompiled(loss: Any, prediction: Tensor, target: Tensor, *rest: Any) -> Tensor:
    """The loss of rows that step in the backward pass, at which a compiler's graph would end."""
    features, index, sample_weight = rest
    value: Tensor = loss.forward(prediction, target, features=features, index=index, sample_weight=sample_weight)
    return value


@torch.compiler.assume_constant_result
def has_kernel(device: str) -> bool:
    """Whether there are fused kernels on this kind of device."""
    return kernels.available(torch.empty(0, device=device))
