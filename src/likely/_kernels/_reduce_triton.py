# Kernels are compiled by Triton, which infers the types of their arguments from the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""Launches of kernels; sums over the programs of one, and products of gradients with a factor, in one launch each."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, WARPS = 1024, 8
_MOST_FORMS = 1000  # of a kernel's arguments that are kept
_DIRECT = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 6)  # whether the form below was tried


class Kernel:
    """A kernel whose launch, from the second of a form on, takes the host half of the time that Triton's own takes."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.compiled: dict[tuple[Any, ...], Any] = {}

    def __call__(
        self, programs: int, warps: int, tensors: Sequence[Tensor | None], *numbers: float, **constants: Any
    ) -> None:
        """Launch it on the device of the first tensor; the arguments are in the kernel's order."""
        first: Any = tensors[0]
        place = first.get_device()
        forms = [t if t is None else (t.dtype, t.data_ptr() % 16) for t in tensors]
        form = (place, warps, *numbers, *constants.values(), *forms)
        here = place < 0 or place == torch.cuda.current_device()
        with nullcontext() if here else torch.cuda.device(place):
            if known := self.compiled.get(form):
                known[(programs, 1, 1)](*tensors, *numbers, *constants.values())
                return
            made = self.function[(programs,)](*tensors, *numbers, **constants, num_warps=warps)
        if len(self.compiled) > _MOST_FORMS:
            self.compiled.clear()
        self.compiled[form] = made if _DIRECT else None


@Kernel
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
    losses: Tensor, counts: Tensor | None, slopes: Tensor | None, slope: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return the sum of losses, divided by that of ``counts`` unless None, and one over the latter.

    The sum of ``slopes`` is written into ``slope``. One launch replaces several operations, each of which would take
    the host as long.
    """
    loss = losses.new_empty(())
    factor = None if counts is None else losses.new_empty(())
    n = len(losses)
    _add_up_kernel(1, 4, (losses, counts, slopes, loss, factor, slope), n, BLOCK=triton.next_power_of_2(n))
    return loss, factor


def rescale_(values: Tensor, factor: Tensor) -> None:
    """Multiply in place; without a pass over memory where the factor is one."""
    n = values.numel()
    programs = min(triton.cdiv(n, BLOCK), 4 * cores(factor.device))  # few: most end at once, at a factor of one
    _rescale_kernel(programs, WARPS, (values, factor), n, WIDE=n > 2**31 - BLOCK, BLOCK=BLOCK)
