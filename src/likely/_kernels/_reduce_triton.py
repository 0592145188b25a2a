# Kernels are compiled by Triton, which infers the types of their arguments from the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""Sums over the programs of a kernel, and products of gradients with a factor, in one launch each."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from likely._launch_triton import Kernel

BLOCK, WARPS = 1024, 8


@Kernel
@triton.jit
def _add_up_kernel(sums, loss, factor, first, second, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    mask = index < n
    total = tl.sum(tl.load(sums + index, mask, other=0.0))
    if factor is not None:
        share = 1.0 / tl.maximum(tl.sum(tl.load(sums + 2 * n + index, mask, other=0.0)), 1.0)
        tl.store(factor, share)
        total *= share
    tl.store(loss, total)
    if first is not None:
        tl.store(first, tl.sum(tl.load(sums + n + index, mask, other=0.0)))
    if second is not None:
        tl.store(second, tl.sum(tl.load(sums + 2 * n + index, mask, other=0.0)))


@Kernel
@triton.jit
def _rescale_kernel(values, factor, n, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    by = tl.load(factor).to(tl.float32)
    if by != 1.0:
        for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
            index = (block.to(tl.int64) if WIDE else block) * BLOCK + tl.arange(0, BLOCK)
            mask = index < n
            tl.store(values + index, tl.load(values + index, mask).to(tl.float32) * by, mask)


@cache
def cores(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


def add_up(
    sums: Tensor, *, first: Tensor | None, second: Tensor | None = None, counted: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Return the sum of losses, the first row of ``sums``; if ``counted``, over that of the last, with one over that.

    The sums of the other rows are written into ``first`` and ``second``. One launch replaces several operations, each
    of which would take the host as long.
    """
    loss, factor = sums.new_empty(()), sums.new_empty(()) if counted else None
    n = sums.shape[1]
    _add_up_kernel(1, 4, (sums, loss, factor, first, second), n, BLOCK=triton.next_power_of_2(n))
    return loss, factor


def rescale_(values: Tensor, factor: Tensor) -> None:
    """Multiply in place; without a pass over memory where the factor is one."""
    n = values.numel()
    programs = min(triton.cdiv(n, BLOCK), 4 * cores(factor.device))  # few: most end at once, at a factor of one
    _rescale_kernel(programs, WARPS, (values, factor), n, WIDE=n > 2**31 - BLOCK, BLOCK=BLOCK)
