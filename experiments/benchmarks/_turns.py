"""Times of a loss and its rivals taken in turns, in blocks long enough for the clock, and the ratios of each round."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

Work = Callable[[], object]
SLEEP = 10_000_000  # cycles, some 5 ms: longer than a host takes to queue a step


class Clock(NamedTuple):
    """``seconds(work, calls)`` of a block, and how many calls a block may have."""

    seconds: Callable[[Work, int], float]
    most: int = 1000


class Turns(NamedTuple):
    """How long to measure: seconds of one way's block, and rounds at least and at most within a budget of seconds."""

    block: float = 2e-3
    fewest: int = 5
    most: int = 21
    budget: float = 0.4


class Ratio(NamedTuple):
    """Ours over a rival, by round: median and quartiles; and our median microseconds."""

    median: float
    low: float
    high: float
    microseconds: float


def ratios(ours: Work, rivals: Mapping[str, Work], clock: Clock, turns: Turns) -> dict[str, Ratio]:
    """Time ours and each rival in turns.

    Args:
        ours: one step of ours.
        rivals: one step of each rival, by name.
        clock: what the times are read off.
        turns: how long to measure.

    Returns:
        By rival, the ratio of the times of the same round. Every other round goes backwards.
    """
    ways = {"": ours, **rivals}
    calls = {name: _calls(work, clock, turns.block) for name, work in ways.items()}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for round_number in range(turns.most):
            if round_number >= turns.fewest and time.perf_counter() - start > turns.budget * len(ways):
                break
            order = list(ways) if round_number % 2 else list(ways)[::-1]
            for name in order:
                taken[name].append(clock.seconds(ways[name], calls[name]) / calls[name])
    finally:
        if collecting:
            gc.enable()
    mine = np.array(taken[""])
    found = {}
    for name in rivals:
        theirs = np.array(taken[name])
        low, middle, high = np.quantile(mine / theirs, [0.25, 0.5, 0.75])
        found[name] = Ratio(float(middle), float(low), float(high), 1e6 * float(np.median(mine)))
    return found


def _calls(work: Work, clock: Clock, block: float) -> int:
    """So many calls that they fill a block; the first ones, which warm up, do not count."""
    for _ in range(3):
        once = clock.seconds(work, 1)
        if once > block:
            return 1
    several = clock.seconds(work, 8) / 8
    return max(1, min(clock.most, round(block / max(several, 1e-9))))


def processor_seconds(work: Work, calls: int) -> float:
    """Seconds of the processor, to which the machine's other work adds little; for one thread."""
    start = time.process_time()
    for _ in range(calls):
        work()
    return time.process_time() - start


def wall_seconds(work: Work, calls: int) -> float:
    """Seconds on the wall; for several threads."""
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return time.perf_counter() - start


def host_seconds(work: Work, calls: int) -> float:
    """Seconds until the host has queued the work on a CUDA device; the device finishes after the clock stopped."""
    torch.cuda.synchronize()
    seconds = wall_seconds(work, calls)
    torch.cuda.synchronize()
    return seconds


def device_seconds(work: Work, calls: int) -> float:
    """Seconds of a CUDA device, which is kept busy while the host queues the work."""
    total = 0.0
    for _ in range(calls):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(SLEEP)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        total += 1e-3 * start.elapsed_time(end)
    return total


PROCESSOR, WALL = Clock(processor_seconds), Clock(wall_seconds)
HOST = Clock(host_seconds, most=8)  # a device's queue takes some thousand kernels, then the host waits
DEVICE = Clock(device_seconds, most=1)  # each call sleeps first


def step(loss: Callable[[], Tensor], *leaves: Tensor) -> Callable[[], None]:
    """Forward and backward, from gradients that are None, as after ``zero_grad``."""

    def work() -> None:
        for leaf in leaves:
            leaf.grad = None
        loss().backward()

    return work


def as_graph(work: Work, warm_up: int = 3) -> Work:
    """The same step as a CUDA graph, replayed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm_up):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay
