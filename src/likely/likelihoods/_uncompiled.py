"""A loss outside the compiler. Imported when a compiler is at work, for the decorator below would load it."""

from typing import Any

import torch
from torch import Tensor


@torch.compiler.disable
def uncompiled(loss: Any, prediction: Tensor, target: Tensor, *rest: Any) -> Tensor:
    """The loss of rows that step in the backward pass, at which a compiler's graph would end."""
    features, index, sample_weight = rest
    value: Tensor = loss.forward(prediction, target, features=features, index=index, sample_weight=sample_weight)
    return value
