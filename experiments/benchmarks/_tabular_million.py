"""A million rows of twenty columns on two cores, in a process of its own, whose memory is then the fit's."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from experiments.benchmarks._timing import peak_megabytes
from experiments.entries import Bar

ROWS, COLUMNS, CORES = 1_000_000, 20, 2


def bars(quick: bool) -> Iterator[Bar]:
    """Minutes by the clock and gigabytes at the peak; without bars where there are fewer rows."""
    rows = ROWS // 500 if quick else ROWS
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:  # whose worker may have its own
        seconds, gigabytes = pool.submit(fit, rows).result()
    case = f"{rows:,} × {COLUMNS} on {CORES} cores"
    yield Bar("many rows, time", seconds / 60, "≤", None if quick else 5, " min", case=case)
    yield Bar("many rows, memory at the peak", gigabytes, "≤", None if quick else 6, " GB", case=case)


def fit(rows: int) -> tuple[float, float]:
    """Seconds of fitting the default regressor and predicting 10,000 rows, and the most gigabytes it had."""
    import torch

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    torch.set_num_threads(CORES)
    from likely.tabular import LikelihoodRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * np.exp(0.3 * X[:, 4]) * rng.normal(size=rows)
    start = time.perf_counter()
    LikelihoodRegressor(random_state=0).fit(X, y).predict_dist(X[:10_000])
    seconds = time.perf_counter() - start
    of_workers = CORES * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20  # as if each had the most
    return seconds, peak_megabytes() / 1024 + of_workers
