# Kernels are compiled by Triton, which infers the types of their arguments from the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""Sums over the programs of a kernel, and products of gradients with a factor, in one launch each."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, WARPS = 1024, 8


@triton.jit
def _add_up_kernel(losses, counts, slopes, loss, factor, slope, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    mask = index < n
    total = tl.sum(tl.load(losses + index, mask, other=0.0))
    if counts is not None:
        share = 1.0 / tl.maximum(tl.sum(tl.load(counts + index, mask, other=0.0)), 1.0)
        tl.store(factor, share)
        total *= share
    tl.store(loss, total)
    if slopes is not None:
        tl.store(slope, tl.sum(tl.load(slopes + index, mask, other=0.0)))


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


def on_device(tensor: Tensor) -> AbstractContextManager[Any]:
    """Return a context in which the tensor's device is the current one."""
    elsewhere = tensor.is_cuda and tensor.get_device() != torch.cuda.current_device()
    return torch.cuda.device_of(tensor) if elsewhere else nullcontext()


def add_up(
    losses: Tensor, counts: Tensor | None, slopes: Tensor | None, slope: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return the sum of losses, divided by that of ``counts`` unless None, and one over the latter.

    The sum of ``slopes`` is written into ``slope``. One launch replaces several operations, each of which would take
    the host as long.
    """
    loss = losses.new_empty(())
    factor = None if counts is None else losses.new_empty(())
    with on_device(losses):
        _add_up_kernel[(1,)](
            losses, counts, slopes, loss, factor, slope, len(losses), BLOCK=triton.next_power_of_2(len(losses))
        )
    return loss, factor


def rescale_(values: Tensor, factor: Tensor) -> None:
    """Multiply in place; without a pass over memory where the factor is one."""
    n = values.numel()
    programs = min(triton.cdiv(n, BLOCK), 4 * cores(factor.device))  # few: most end at once, at a factor of one
    with on_device(factor):
        _rescale_kernel[(programs,)](values, factor, n, WIDE=n > 2**31 - BLOCK, BLOCK=BLOCK, num_warps=WARPS)
