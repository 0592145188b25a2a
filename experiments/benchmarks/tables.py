"""What a parameter for every training row costs: a step, a billion rows, a network on a GPU."""

from __future__ import annotations

import math
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from experiments.benchmarks._bars import result_of
from experiments.benchmarks._table_networks import NETWORKS, seconds_of_steps
from experiments.benchmarks._timing import cpu_milliseconds, peak_megabytes, timed
from experiments.entries import Bar, Context, Result
from experiments.entries.bar import Sign
from experiments.entries.parts import Table as Shown
from likely.row_store import RowStore

ROWS, BATCH = 1_280_000, 256  # ImageNet
STEPS = 25  # in a row before it is another way's turn
BILLION, LARGE_BATCH = 10**9, 4096
OURS, DENSE, SPARSE = "likely", "dense Adam", "nn.Embedding(sparse=True), SparseAdam"
ALONE = ", update alone"  # the gradient is there
PAGE = 4096


def run(context: Context) -> Result:
    """Time steps beside peers in one process, a billion rows in a process of its own, networks where a GPU is."""
    times: list[tuple[str, float]] = []
    bars: list[Bar] = []
    parts: list[Callable[[], Iterator[Bar]]] = [
        lambda: steps(times, quick=context.quick),
        lambda: billion(times, quick=context.quick),
        lambda: networks(times),
    ]
    for part in context.track(parts):
        bars.extend(part())
    shown = Shown(pd.DataFrame(times, columns=["what", "measured"]).set_index("what"), "CPU times are of one core.")
    lacks = "" if torch.cuda.is_available() else "Networks were not measured: no GPU."
    return result_of(bars, (shown,), notes=lacks)


def steps(times: list[tuple[str, float]], *, quick: bool) -> Iterator[Bar]:
    """Gather, backward and update of 256 of 1.28 million scalars, ours and the ways torch has."""
    rows = 20_000 if quick else ROWS
    with tempfile.TemporaryDirectory() as folder:
        ways = {name: partial(_times, STEPS, way) for name, way in ways_to_step(rows, Path(folder)).items()}
        found = cpu_milliseconds(ways, repeats=3 if quick else 25) / STEPS
    times.extend((f"{name}, {BATCH} of {rows} rows, ms", ms) for name, ms in found.median().items())
    judged = not quick  # few rows say nothing about many
    yield _bar("CPU, a step", found[OURS], "≤", 0.35 if judged else None, " ms")
    yield _bar("CPU, faster than dense Adam", found[DENSE] / found[OURS], "≥", 100 if judged else None, "×")
    alone = found[f"{DENSE}{ALONE}"] / found[f"{OURS}{ALONE}"]
    yield _bar("CPU, the update alone faster than dense Adam's", alone, "≥", 100 if judged else None, "×")
    yield _bar("CPU, faster than SparseAdam", found[SPARSE] / found[OURS], "≥", None, "×")


def ways_to_step(rows: int, folder: Path) -> dict[str, Callable[[], None]]:
    """One step each, on the next of rows drawn beforehand."""
    dense, embedding = nn.Parameter(torch.zeros(rows)), nn.Embedding(rows, 1, sparse=True)
    adam, sparse = torch.optim.Adam([dense]), torch.optim.SparseAdam(embedding.parameters())
    weight, start = torch.randn(BATCH), torch.zeros(()).expand(rows)
    drawn = cycle(torch.randint(0, rows, (1000, BATCH)).unbind())

    def ours(table: RowStore) -> Callable[[], None]:
        return lambda: (table(next(drawn)) * weight).sum().backward()

    def theirs(optimizer: torch.optim.Optimizer, read: Callable[[Tensor], Tensor]) -> Callable[[], None]:
        def work() -> None:
            optimizer.zero_grad()
            (read(next(drawn)) * weight).sum().backward()
            optimizer.step()

        return work

    own, full = RowStore(start), nn.Parameter(torch.zeros(rows))
    full.grad = torch.zeros(rows).index_add_(0, next(drawn), weight)
    again = torch.optim.Adam([full])
    return {
        OURS: ours(own),
        f"{OURS}{ALONE}": lambda: own.step(next(drawn), weight),
        f"{DENSE}{ALONE}": lambda: again.step(),
        "likely, bfloat16": ours(RowStore(start, dtype=torch.bfloat16)),
        "likely, on the host": ours(RowStore(start, store="host")),
        "likely, in a file": ours(RowStore(start, store=folder / "rows.table")),
        DENSE: theirs(adam, lambda index: dense[index]),
        SPARSE: theirs(sparse, lambda index: embedding(index)[:, 0]),
    }


def billion(times: list[tuple[str, float]], *, quick: bool) -> Iterator[Bar]:
    """A billion scalars in a file, in a process of its own, whose memory is then the table's."""
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as pool:
        room = shutil.disk_usage(folder).free // 4 // 8  # of a row and its mean square
        touched = min(BILLION // 500 if quick else BILLION, room)
        found = pool.apply(billion_rows, (Path(folder), touched))
    case = f"rows drawn from {touched:,} of {BILLION:,}"
    times.extend((f"{BILLION:,} rows, {name}", value) for name, value in found.items())
    yield Bar("a billion rows in a file, resident", found["MB resident at the peak"] / 1000, "<", 1, " GB", case=case)
    rate, bar = found["rows a second"], None if quick else 200_000
    yield Bar("a billion rows in a file, updates a second", rate, "≥", bar, case=f"{case}, one core")


def billion_rows(folder: Path, touched: int) -> dict[str, float]:
    """Rates of updates of rows whose page of the file was never touched, and of rows anywhere once all were."""
    torch.set_num_threads(1)
    table = RowStore(torch.zeros(()).expand(BILLION), store=folder / "billion.table")
    weight = torch.randn(LARGE_BATCH)

    def rate(batches: Iterable[Tensor]) -> tuple[float, float]:
        """Rows a second, of the core and of the clock; drawing the rows counts too."""

        def work() -> int:
            count = 0
            for index in batches:
                (table(index) * weight[: len(index)]).sum().backward()
                count += len(index)
            return count

        start = time.perf_counter()
        count, seconds = timed(work)
        return count / seconds, count / (time.perf_counter() - start)

    new, _ = rate(_some(touched, LARGE_BATCH) for _ in range(8))
    pages = range(0, touched, PAGE // 8 * LARGE_BATCH)
    rate(torch.arange(first, min(first + PAGE // 8 * LARGE_BATCH, touched), PAGE // 8) for first in pages)
    again, wall = rate(_some(touched, LARGE_BATCH) for _ in range(64))
    start = time.perf_counter()
    table.flush()
    flush = time.perf_counter() - start
    return {
        "MB resident at the peak": peak_megabytes(),
        "rows a second": again,
        "rows a second, by the clock": wall,
        "rows a second, where the file was never touched": new,
        "seconds of a flush": flush,
    }


def networks(times: list[tuple[str, float]]) -> Iterator[Bar]:
    """A VAE and a ResNet with the plain loss and with parameters a row and a pixel, where there is a GPU."""
    for network, losses in NETWORKS.items():
        for way, graph in (("launched one by one", False), ("as a CUDA graph", True)):
            taken: Mapping[str, Any] = seconds_of_steps(network, graph=graph) if torch.cuda.is_available() else {}
            times.extend(
                (f"{network}, {loss}, {way}, ms", 1e3 * float(np.median(seconds))) for loss, seconds in taken.items()
            )
            for loss, bar in losses.items():
                ratio = pd.Series(taken[loss] / taken["plain"] if taken else [math.nan])
                yield _bar(f"GPU, {network}, {loss}, {way}: the step of the plain loss", ratio, "≤", bar, "×")


def _bar(name: str, rounds: pd.Series[float], sign: Sign, bar: float | None, unit: str) -> Bar:
    low, middle, high = rounds.quantile([0.25, 0.5, 0.75])
    return Bar(name, float(middle), sign, bar, unit, float(high - low) / 2)


def _times(count: int, work: Callable[[], None]) -> None:
    for _ in range(count):
        work()


def _some(rows: int, count: int) -> Tensor:
    return torch.randint(0, rows, (count,))
