"""Times of several ways to do one thing, taken in turns in one process, so that they share the machine's mood."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
import torch

T = TypeVar("T")


def compare(ways: Mapping[str, Callable[[], object]], *, repeats: int, patience: float = 20.0) -> pd.DataFrame:
    """Median and spread (the distance of the quartiles) of each way's seconds, on one thread.

    A way that takes longer than ``patience`` seconds is run once, the others ``repeats`` times in turns.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    try:
        for _ in range(repeats):
            for name, way in ways.items():
                if not taken[name] or max(taken[name]) <= patience:
                    taken[name].append(_seconds(way))
    finally:
        torch.set_num_threads(threads)
    rows = {name: (np.median(t), float(np.ptp(np.quantile(t, [0.25, 0.75]))), len(t)) for name, t in taken.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["seconds", "spread", "runs"])


def ratio(times: pd.DataFrame, slow: str, fast: str) -> tuple[float, float]:
    """How many times faster one way of `compare` is than another, and half the spread of that number."""
    found = float(times["seconds"][slow] / times["seconds"][fast])
    relative = times["spread"] / times["seconds"]
    return found, found * float(np.hypot(relative[slow], relative[fast])) / 2


def timed(way: Callable[[], T]) -> tuple[T, float]:
    """What a way finds, and the seconds of CPU it took, to which the machine's other work adds little."""
    start = time.process_time()
    found = way()
    return found, time.process_time() - start


def cpu_milliseconds(ways: Mapping[str, Callable[[], object]], *, repeats: int) -> pd.DataFrame:
    """Each way's CPU time on one thread, a column each; a row is a round in which all took their turn.

    A first round does not count.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rounds = [[1e3 * timed(way)[1] for way in ways.values()] for _ in range(repeats + 1)]
    finally:
        torch.set_num_threads(threads)
    return pd.DataFrame(rounds[1:], columns=list(ways))


def peak_megabytes() -> float:
    """The most memory that this process has had so far."""
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def _seconds(way: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    way()
    return time.perf_counter() - start
