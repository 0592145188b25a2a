"""Time and memory for a million rows of twenty columns on two cores, in a separate process to measure its memory."""

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
    """Yield wall-clock minutes and peak gigabytes; a quick run has fewer rows and no bars."""
    rows = ROWS // 500 if quick else ROWS
    with ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn")
    ) as pool:  # not daemonic, so that the fit may start workers
        seconds, gigabytes = pool.submit(fit, rows).result()
    case = f"{rows:,} × {COLUMNS} on {CORES} cores"
    yield Bar("many rows, time", seconds / 60, "≤", None if quick else 5, " min", case=case)
    yield Bar("many rows, memory at the peak", gigabytes, "≤", None if quick else 6, " GB", case=case)


def fit(rows: int) -> tuple[float, float]:
    """Return the seconds to fit the default regressor and predict 10,000 rows, and the peak gigabytes."""
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
    worker_gigabytes = (
        CORES * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    )  # an upper bound: each as large as the largest
    return seconds, peak_megabytes() / 1024 + worker_gigabytes
