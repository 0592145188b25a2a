"""How long a loss takes beside its rivals, from one element to a hundred million, as a grid of ratios."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from experiments.benchmarks._loss_cases import (
    CASES,
    HAND,
    HAND_AND_STEP,
    KINDS,
    Batch,
    LossCase,
    batch_of,
    call,
    hand,
    ours,
)
from experiments.benchmarks._loss_checks import CLOSE, assert_close, check_same
from experiments.benchmarks._turns import (
    DEVICE,
    HOST,
    PROCESSOR,
    WALL,
    Clock,
    Ratio,
    Turns,
    Work,
    as_graph,
    ratios,
    step,
)

Loss = tuple[Any, ...]  # a function that returns the loss, and the leaves it has gradients of
EAGER, COMPILED, GRAPH = WAYS = ("eager", "compiled", "graph")
BYTES = 4 * 40  # held at once per element, by the rival that takes most
SLOWEST_SIZE = {"ρ as published": 10**6}  # on a CPU, where it takes seconds from there on
KEY = ["where", "way", "loss", "parameter", "against", "elements"]
COLUMNS = [*KEY, "ratio", "low", "high", "microseconds"]


@dataclass(frozen=True)
class Place:
    """A device with a clock: where something is timed."""

    name: str
    device: str
    clock: Clock
    threads: int = 1


@dataclass(frozen=True)
class Grid:
    """What to time: every combination. ``cells`` are pairs of a loss and a kind of parameter."""

    places: tuple[Place, ...]
    sizes: tuple[int, ...]
    cells: tuple[tuple[str, str], ...] = tuple((loss, kind) for loss in CASES for kind in KINDS)
    ways: tuple[str, ...] = (EAGER,)
    turns: Turns = field(default_factory=Turns)


def places(device: str | None, *, all_threads: bool) -> tuple[Place, ...]:
    """The CPU on one thread, and on all; the host and the device of a GPU, where there is one.

    Args:
        device: ``"cpu"``, ``"cuda"``, or None for all there are.
        all_threads: whether the CPU is timed on all threads too.

    Raises:
        ValueError: If ``device`` is none of these, or not there.
    """
    if device not in (None, "cpu", "cuda"):
        raise ValueError(f"--device is cpu or cuda, got {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: torch sees no CUDA device here")
    chosen = []
    if device != "cuda":
        chosen.append(Place("CPU, one thread", "cpu", PROCESSOR))
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if all_threads and cores > 1:
            chosen.append(Place(f"CPU, {cores} threads", "cpu", WALL, cores))
    if device != "cpu" and torch.cuda.is_available():
        name = torch.cuda.get_device_name()
        chosen += [Place(f"{name}, device", "cuda", DEVICE), Place(f"{name}, host", "cuda", HOST)]
    return tuple(chosen)


def measure(
    grid: Grid, track: Callable[[Sequence[tuple[str, str, int]]], Iterable[tuple[str, str, int]]] = iter
) -> tuple[pd.DataFrame, list[str]]:
    """Time the grid.

    Args:
        grid: what to time.
        track: iterator over the steps, which may report progress.

    Returns:
        One row per ratio, and what could not be timed, in words.

    Raises:
        AssertionError: If a loss by hand is not the same as ours.
    """
    rows: list[tuple[object, ...]] = []
    missing: list[str] = []
    steps = [(loss, kind, size) for loss, kind in grid.cells for size in grid.sizes]
    threads = torch.get_num_threads()
    try:
        for loss, kind, size in track(steps):
            case = CASES[loss]
            for device in dict.fromkeys(place.device for place in grid.places):
                if not _fits(case, size, device):
                    continue
                check_same(case, kind, size, device)
                here = [place for place in grid.places if place.device == device]
                for row in _cell(case, kind, size, here, grid, missing, f"{loss}, {kind}, {size:,} elements"):
                    place, way, *rest = row
                    rows.append((place, way, loss, kind, *rest))
    finally:
        torch.set_num_threads(threads)
    return pd.DataFrame(rows, columns=COLUMNS), missing


def _cell(
    case: LossCase, kind: str, size: int, here: list[Place], grid: Grid, missing: list[str], label: str
) -> Iterator[tuple[object, ...]]:
    """Everything about one loss, kind and size on one device, from one batch of inputs."""
    device = here[0].device
    batch = batch_of(case, size, device)
    for way in grid.ways:
        if way == GRAPH and device != "cuda":
            continue
        try:
            timed = _timed(*_works(case, kind, size, batch, way, device), way, here, grid.turns)
        except Exception as error:  # of a compiler or a capture, of which any may come
            if way == EAGER and not isinstance(error, torch.OutOfMemoryError):
                raise
            missing.append(f"{way}, {label}: {_cause(error)}")
            timed = []
        yield from ((place, way, rival, size, *ratio) for place, rival, ratio in timed)
        if way == COMPILED:
            torch.compiler.reset()
        if device == "cuda":
            gc.collect()
            torch.cuda.empty_cache()


def _cause(error: BaseException) -> str:
    """The first line of the first error: one within the capture of a CUDA graph has the capture's own after it."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"


def _timed(
    mine: Work, rivals: dict[str, Work], way: str, here: list[Place], turns: Turns
) -> list[tuple[str, str, Ratio]]:
    """The place's name, the rival's and the ratio, for each of them."""
    found = []
    for place in here:
        if way == GRAPH and place.clock is HOST:
            continue  # a replay is one call, whatever it holds
        torch.set_num_threads(place.threads)
        found += [(place.name, rival, ratio) for rival, ratio in ratios(mine, rivals, place.clock, turns).items()]
    return found


def _works(case: LossCase, kind: str, size: int, batch: Batch, way: str, device: str) -> tuple[Work, dict[str, Work]]:
    """One step of ours and of every rival, in the same way."""
    own, other = (make(case, kind, batch.training_rows).to(device) for make in (ours, hand))
    assert_close(call(own, kind, batch)().detach(), call(other, kind, batch)().detach(), "the loss", 10 * CLOSE)
    losses: dict[str, Loss] = {HAND: _called(other, kind, batch)}
    if way != COMPILED:
        for name, function in case.counterparts.items():
            losses[name] = (lambda f=function: f(batch.prediction, batch.target), batch.prediction)
        for name, made in case.others.items():
            if way == EAGER and (device == "cuda" or size <= SLOWEST_SIZE.get(name, size)):
                losses[name] = _called(hand(case, kind, batch.training_rows, made).to(device), kind, batch)
        mine = step(*_called(own, kind, batch))
        rivals: dict[str, Work] = {name: step(*loss) for name, loss in losses.items()}
    else:
        compiled = [torch.compile(module, dynamic=False) for module in (own, other)]
        mine, theirs = (step(*_called(module, kind, batch)) for module in compiled)
        rivals = {HAND: theirs}
        mine(), theirs()  # errors of the compiler come here
    if kind == "Data" and way != GRAPH:
        stepped: Any = compiled[1] if way == COMPILED else hand(case, kind, batch.training_rows).to(device)
        rivals[HAND_AND_STEP] = _stepping(stepped, kind, batch)
    if way == GRAPH:
        return as_graph(mine), {name: as_graph(work) for name, work in rivals.items()}
    return mine, rivals


def _called(module: Callable[..., Tensor], kind: str, batch: Batch) -> Loss:
    learned = module.parameters() if isinstance(module, nn.Module) else ()
    return call(module, kind, batch), *batch.leaves, *learned


def _stepping(module: nn.Module, kind: str, batch: Batch) -> Work:
    """Forward, backward, and the step of the rows that ours takes in its backward pass."""
    optimizer = torch.optim.RMSprop(module.parameters(), lr=1e-6)
    forward_backward = step(*_called(module, kind, batch))

    def work() -> None:
        forward_backward()
        optimizer.step()

    return work


def _fits(case: LossCase, size: int, device: str) -> bool:
    """Whether the size makes a batch and the device has the memory."""
    if case.classes and size < 10:
        return False
    return BYTES * size < 0.8 * free_bytes(device)


def free_bytes(device: str) -> float:
    """Memory that is free on the device; on a CPU of an unknown system a few gigabytes."""
    if device == "cuda":
        return float(torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())
    try:
        (line,) = (x for x in Path("/proc/meminfo").read_text().splitlines() if x.startswith("MemAvailable"))
        return 1024.0 * int(line.split()[1])
    except (OSError, ValueError):
        return 8e9
