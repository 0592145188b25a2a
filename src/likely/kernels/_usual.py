"""Whether a kernel can read a tensor in place."""

from typing import Any

import torch
from torch import Tensor, nn

from likely.kernels._operator import CPU_KEYS, usual_keys

PLAIN_TYPES = (Tensor, nn.Parameter)  # not a subclass, which may stand for something else


def usual(tensor: Any, dtype: torch.dtype | None = torch.float32) -> bool:
    """Whether a kernel can read a tensor in place: real numbers, contiguous, without special dispatch.

    >>> usual(torch.ones(2)), usual(torch.ones(2).double()), usual(torch.ones(2, 3).T), usual(2.0)
    (True, False, False, False)
    """
    return (
        type(tensor) in PLAIN_TYPES
        and (tensor.dtype is dtype if dtype else not tensor.is_complex())
        and torch._C._dispatch_keys(tensor).raw_repr()
        in (CPU_KEYS if tensor.is_cpu else usual_keys(tensor.device.type))
        and tensor.is_contiguous()
    )
