"""Kernels as operators of torch, for whoever traces or watches, and a short way to them for everyone else."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

LIBRARY = torch.library.Library("likely", "FRAGMENT")

Kernel = Callable[..., Any]


class Operator:
    """``likely::NAME`` of a schema, by ``cpu`` or by NAME in the module beside it whose name ends in ``_triton``.

    ``fake`` tells what it returns of tensors without values; ``backward`` and ``remember``, which prepares it, make it
    differentiable. It runs where its first tensor is. Called, it goes past torch's dispatcher, whose layers in Python
    take longer than the loss of a small batch.

    >>> from likely.kernels._location import rescale_
    >>> slope = torch.ones(2)
    >>> rescale_([slope], torch.tensor(3.0))
    >>> slope
    tensor([3., 3.])
    """

    def __init__(
        self,
        schema: str,
        *,
        cpu: Kernel,
        fake: Kernel,
        remember: Kernel | None = None,
        backward: Kernel | None = None,
    ) -> None:
        self.name, self.cpu, self.triton = schema.partition("(")[0], cpu, f"{cpu.__module__}_triton"
        LIBRARY.define(schema)
        LIBRARY.impl(self.name, cpu, "CPU")
        LIBRARY.impl(self.name, self.by_triton, "CUDA")
        torch.library.register_fake(f"likely::{self.name}", fake, lib=LIBRARY)
        self.registered: Kernel = getattr(torch.ops.likely, self.name)
        self.differentiable: Kernel | None = None
        if remember and backward:
            torch.library.register_autograd(f"likely::{self.name}", backward, setup_context=remember, lib=LIBRARY)
            self.differentiable = _differentiable(self.run, remember, backward)

    def __call__(self, *args: Any) -> Any:
        """What the registered operator returns."""
        if torch.compiler.is_compiling():
            return self.registered(*args)
        tensors = [a for a in args if isinstance(a, Tensor)]
        if torch._C._len_torch_dispatch_stack() or not all(map(is_bare, tensors)):
            return self.registered(*args)
        if self.differentiable and torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return self.differentiable(*args)
        return self.run(*args)

    def run(self, *args: Any) -> Any:
        """The kernel itself."""
        first = next(a for a in args if isinstance(a, Tensor))
        return self.by_triton(*args) if first.is_cuda else self.cpu(*args)

    def by_triton(self, *args: Any) -> Any:
        """The kernel on CUDA; Triton is imported when it is first called."""
        return getattr(import_module(self.triton), self.name)(*args)


def is_bare(tensor: Tensor) -> bool:
    """Whether it is its memory and nothing else: not a batch of tensors, a negative view or zeros without storage.

    >>> is_bare(torch.ones(2)), is_bare(torch.ones(2, dtype=torch.complex64).conj().imag)
    (True, False)
    """
    return torch._C._dispatch_keys(tensor).raw_repr() in (CPU_KEYS if tensor.is_cpu else usual_keys(tensor.device.type))


@cache
def usual_keys(device: str) -> frozenset[int]:
    """What torch's dispatcher sees in a tensor on this device that is its memory and nothing else."""
    with torch.inference_mode():
        inference = torch.empty(0, device=device)
    return frozenset(torch._C._dispatch_keys(t).raw_repr() for t in (torch.empty(0, device=device), inference))


CPU_KEYS = usual_keys("cpu")


def _differentiable(run: Kernel, remember: Kernel, slopes: Kernel) -> Kernel:
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            results = run(*args)
            remember(ctx, args, results)
            return results

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return slopes(ctx, *grads)

    return Function.apply
