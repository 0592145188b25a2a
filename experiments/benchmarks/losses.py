"""What a likelihood costs, against the losses it replaces: at every size, and where the memory bus decides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from experiments.benchmarks._bars import result_of, worst
from experiments.benchmarks._large_losses import large
from experiments.benchmarks._loss_cases import CASES, KINDS
from experiments.benchmarks._loss_sizes import COMPILED, EAGER, GRAPH, WAYS, Grid, measure, places
from experiments.benchmarks._size_tables import is_about_sizes, merged, ratios_of, same_work, size_tables
from experiments.benchmarks._turns import Turns
from experiments.entries import Bar, Context, Result
from experiments.entries.parts import Picture, Table
from experiments.entries.record import Record, load
from likely._page.machine import machine

BY_SIZE = ": the time by hand"
JUDGED = {EAGER: 1.1, COMPILED: 1.05, GRAPH: None}
DEFAULT, FULL, QUICK, LONGEST = (2, 4, 6), range(8), (2, 4), 8  # powers of ten
BY_HAND = ("Normal", "Laplace", "Student t", "Softmax", "Bernoulli")  # losses that the bar is for


def run(context: Context) -> Result:
    """Time forward and backward together, every rival in turns in the same process."""
    plan = Plan.read(context.options, quick=context.quick)
    record = _before(context) if plan.keep else None
    before = record.result if record else None
    bars, tables, pictures = large(context) if plan.large else _large_of(before)
    measured, missing = measure(plan.grid, context.track)
    ratios = measured if before is None else merged(ratios_of(before.tables), measured)
    notes = [f"Not measured: {one}." for one in missing]
    if plan.grid.cells == Grid.cells or before is not None:
        bars += judge(ratios)
    else:
        notes.insert(0, "A part of the losses: no ratio is judged.")
    if record and before:
        notes += [f"Kept from `{command}`." for command in dict.fromkeys([record.command, *kept_from(before.notes)])]
    result = result_of(bars, [*size_tables(ratios), *tables], pictures, " ".join(notes))
    return replace(result, printed=tuple(size_tables(measured)))


def check(context: Context) -> None:
    """Look at the options before anything is run or written.

    Raises:
        ValueError: If one is not understood, or what is to be kept is of another machine.
    """
    if Plan.read(context.options, quick=context.quick).keep:
        _before(context)


@dataclass(frozen=True)
class Plan:
    """What the options of the command line ask for."""

    grid: Grid
    large: bool
    keep: bool

    @classmethod
    def read(cls, options: Mapping[str, str], *, quick: bool) -> Plan:
        """The plan of options.

        Raises:
            ValueError: If one is not understood.
        """
        full, device = "full" in options, options.get("device") or None
        at = places(device, all_threads=full)
        powers = FULL if full else QUICK if quick else DEFAULT
        sizes = tuple(10**power for power in powers)
        if full and any(place.device == "cuda" for place in at):
            sizes += (10**LONGEST,)
        if "sizes" in options:
            sizes = tuple(_size(word) for word in options["sizes"].split(","))
        ways = tuple(options["ways"].split(",")) if "ways" in options else (EAGER, GRAPH) if full else (EAGER,)
        if unknown := set(ways) - set(WAYS):
            raise ValueError(f"--ways has {', '.join(sorted(unknown))}: give some of {', '.join(WAYS)}")
        cells = tuple(_cells(options["only"])) if "only" in options else Grid.cells
        turns = Turns(most=5, budget=0.1) if quick else Turns()
        alone = {"only", "sizes", "ways"} & options.keys()
        return cls(Grid(at, sizes, cells, ways, turns), large=not alone, keep="keep" in options)


def _size(word: str) -> int:
    try:
        size = int(float(word))
    except (ValueError, OverflowError):
        size = 0
    if size < 1 or (size >= 10 and size % 10):
        raise ValueError(f"--sizes are numbers of elements below 10 or in tens, such as 1e4; got {word!r}")
    return size


def _cells(only: str) -> Iterator[tuple[str, str]]:
    losses = {name.lower().replace(" ", ""): name for name in CASES} | {"rho": "ρ", "robust": "ρ"}
    kinds = {name.lower(): name for name in KINDS}
    for word in only.split(","):
        loss, _, kind = word.lower().replace(" ", "").partition("/")
        if loss not in losses or (kind and kind not in kinds):
            raise ValueError(f"--only has {word!r}: give {', '.join(CASES)}, each alone or with /{', /'.join(KINDS)}")
        yield from ((losses[loss], each) for each in ([kinds[kind]] if kind else KINDS))


def judge(ratios: pd.DataFrame) -> Iterator[Bar]:
    """The worst ratio to the loss by hand that does the same work, of every place and way."""
    for (where, way), rows in same_work(ratios).groupby(["where", "way"], sort=False):
        for losses, bar in ((BY_HAND, JUDGED[str(way)]), (("ρ",), None)):
            chosen = rows[rows["loss"].isin(losses)].set_index(["loss", "parameter", "elements"])["ratio"]
            name = f"{where}, {way}{', ρ' if losses == ('ρ',) else ''}{BY_SIZE}"
            yield from worst(name, chosen, "≤", bar, unit="×")


def kept_from(notes: str) -> list[str]:
    """The commands of earlier runs whose figures a record kept.

    >>> kept_from("A sentence. Kept from `python a --b 1.5`. Kept from `python c`.")
    ['python a --b 1.5', 'python c']
    """
    return re.findall(r"Kept from `([^`]*)`\.", notes)


def _before(context: Context) -> Record | None:
    """What the folder holds.

    Raises:
        ValueError: If that was measured on another processor or GPU.
    """
    record = load("losses", context.units) if context.units else None
    here = machine()
    if record and any(record.machine.get(part) != here.get(part) for part in ("cpu", "cores", "gpu")):
        raise ValueError(f"--keep: {context.units}/losses.json was measured on another machine; name another --out")
    return record


def _large_of(before: Result | None) -> tuple[list[Bar], tuple[Table, ...], tuple[Picture, ...]]:
    """The parts of a record that are not about sizes."""
    if before is None:
        return [], (), ()
    bars = [bar for bar in before.bars if not bar.name.endswith(BY_SIZE)]
    return bars, tuple(table for table in before.tables if not is_about_sizes(table)), before.pictures
