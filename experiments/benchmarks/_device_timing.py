"""Milliseconds of work on a CUDA device, and the memory it takes at its peak."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch


def milliseconds(work: Callable[[], object], *, repeats: int = 15) -> float:
    """The median. The device is kept busy while the host queues the work, so that the host's own time is left out."""
    for _ in range(3):
        work()
    taken = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(4_000_000)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        taken.append(start.elapsed_time(end))
    return float(np.median(taken))


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory the work held at once, above what was there before it."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def copy_bandwidth() -> float:
    """Bytes a millisecond, read and written, of a large copy on the device."""
    source = torch.empty(2**30, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / milliseconds(lambda: target.copy_(source))
