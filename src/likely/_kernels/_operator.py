"""Kernels as operators of torch, for the graphs of ``torch.compile``."""

from collections.abc import Callable
from typing import Any

import torch

LIBRARY = torch.library.Library("likely", "FRAGMENT")

Kernel = Callable[..., Any]


def register(
    schema: str, kernel: Kernel, fake: Kernel, *, remember: Kernel | None = None, backward: Kernel | None = None
) -> Kernel:
    """The operator ``likely::NAME`` of a schema, on the CPU and on CUDA.

    ``fake`` tells what it returns of tensors without values; ``backward`` and ``remember``, which prepares it, make it
    differentiable.
    """
    name = schema.partition("(")[0]
    LIBRARY.define(schema)
    for device in ("CPU", "CUDA"):
        LIBRARY.impl(name, kernel, device)
    torch.library.register_fake(f"likely::{name}", fake, lib=LIBRARY)
    if remember and backward:
        torch.library.register_autograd(f"likely::{name}", backward, setup_context=remember, lib=LIBRARY)
    registered: Kernel = getattr(torch.ops.likely, name)
    return registered
