"""Which tensors a kernel on the CPU can read where they lie."""

from typing import Any

import torch
from torch import Tensor, nn

from likely.kernels._operator import usual_keys

PLAIN_TYPES = (Tensor, nn.Parameter)  # not a subclass, which may stand for something else
_CPU = usual_keys("cpu")


def usual(tensor: Any, dtype: torch.dtype = torch.float32) -> bool:
    """Whether it is numbers of ``dtype`` in memory, one after the other.

    >>> usual(torch.ones(2)), usual(torch.ones(2).double()), usual(torch.ones(2, 3).T), usual(2.0)
    (True, False, False, False)
    """
    return (
        type(tensor) in PLAIN_TYPES
        and tensor.dtype is dtype
        and torch._C._dispatch_keys(tensor).raw_repr() in _CPU
        and tensor.is_contiguous()
    )
