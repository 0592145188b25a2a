"""What a likelihood costs, against the losses it replaces: at every size, and where the memory bus decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from experiments.benchmarks._bars import result_of, worst
from experiments.benchmarks._large_losses import large
from experiments.benchmarks._loss_cases import CASES, HAND, KINDS
from experiments.benchmarks._loss_sizes import COLUMNS, COMPILED, EAGER, GRAPH, KEY, WAYS, Grid, measure, places
from experiments.benchmarks._turns import Turns
from experiments.entries import Bar, Context, Result
from experiments.entries.record import load
from likely._machine import machine
from likely._page import Picture, Table

EVERY, OVER = "Every ratio that was measured", "our time over the rival's"
JUDGED = {EAGER: 1.1, COMPILED: 1.05, GRAPH: None}
DEFAULT, FULL, QUICK, LONGEST = (2, 4, 6), range(8), (2, 4), 8  # powers of ten
BY_HAND = ("Normal", "Laplace", "Student t", "Softmax", "Bernoulli")  # losses that the bar is for


def run(context: Context) -> Result:
    """Time forward and backward together, every rival in turns in the same process."""
    plan = Plan.read(context.options, quick=context.quick)
    before = _before(context) if plan.keep else None
    bars, tables, pictures = large(context) if plan.large else _large_of(before)
    measured, missing = measure(plan.grid, context.track)
    ratios = measured if before is None else merged(_ratios_of(before), measured)
    notes = [f"Not measured: {one}." for one in missing]
    if plan.grid.cells == Grid.cells or before is not None:
        bars += judge(ratios)
    else:
        notes.insert(0, "A part of the losses: no ratio is judged.")
    result = result_of(bars, [*size_tables(ratios), *tables], pictures, " ".join(notes))
    return replace(result, printed=tuple(with_spread(measured)))


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
    """The worst ratio to the loss by hand, of every place and way."""
    by_hand = ratios[ratios["against"] == HAND]
    for (where, way), rows in by_hand.groupby(["where", "way"], sort=False):
        for losses, bar in ((BY_HAND, JUDGED[str(way)]), (("ρ",), None)):
            chosen = rows[rows["loss"].isin(losses)].set_index(["loss", "parameter", "elements"])["ratio"]
            name = f"{where}, {way}{', ρ' if losses == ('ρ',) else ''}: the time by hand"
            yield from worst(name, chosen, "≤", bar, unit="×")


def size_tables(ratios: pd.DataFrame) -> Iterator[Table]:
    """One table of ratios by size for each place and way, and all there is about each ratio."""
    for (where, way), rows in ratios.groupby(["where", "way"], sort=False):
        yield Table(by_size(rows, rows["ratio"]), f"{where}, {way}: {OVER}, by the number of elements.", digits=2)
    yield Table(
        ratios.set_index(KEY),
        f"{EVERY}: median, quartiles, and the median microseconds of forward and backward of ours and the rival's.",
    )


def with_spread(ratios: pd.DataFrame) -> Iterator[Table]:
    """The same for the terminal, with the quartiles."""
    for (where, way), rows in ratios.groupby(["where", "way"], sort=False):
        cells = [f"{r:.2f} ({low:.2f}–{high:.2f})" for r, low, high in rows[["ratio", "low", "high"]].to_numpy(float)]
        frame = by_size(rows, pd.Series(cells, rows.index)).fillna("–")
        yield Table(frame, f"\n{where}, {way}: {OVER}, by the number of elements; median and quartiles")


def by_size(rows: pd.DataFrame, cells: pd.Series[Any]) -> pd.DataFrame:
    """A row for each rival, loss and parameter, those against the loss by hand first; a column for each size."""
    index = ["against", "loss", "parameter"]
    wide = rows.assign(cell=cells).pivot(index=index, columns="elements", values="cell").sort_index(axis=1)
    order = list(dict.fromkeys(rows[index].itertuples(index=False, name=None)))
    wide = wide.loc[sorted(order, key=lambda key: (key[0] != HAND, order.index(key)))]
    wide.columns = pd.Index([power_of_ten(int(size)) for size in wide.columns])
    return wide


def power_of_ten(size: int) -> str:
    """A size for people.

    >>> power_of_ten(1), power_of_ten(10**7), power_of_ten(2560)
    ('1', '10⁷', '2,560')
    """
    power = len(str(size)) - 1
    if size == 10**power and power:
        return "10" if power == 1 else "10" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(power))
    return f"{size:,}"


def merged(before: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """What was measured now, and before what was not, in the order of the losses."""
    both = pd.concat([before, now], ignore_index=True).drop_duplicates(KEY, keep="last")
    rank = {"loss": list(CASES), "parameter": list(KINDS), "way": list(WAYS)}
    return both.sort_values(
        ["way", "loss", "parameter", "elements"],
        key=lambda column: column.map(rank[column.name].index) if column.name in rank else column,
        kind="stable",
        ignore_index=True,
    )


def _before(context: Context) -> Result | None:
    """What the folder holds, if it is of this machine."""
    record = load("losses", context.units) if context.units else None
    return record.result if record and record.machine == machine() else None


def _ratios_of(before: Result) -> pd.DataFrame:
    for table in before.tables:
        if table.caption.startswith(EVERY):
            return table.frame.reset_index()[COLUMNS]
    return pd.DataFrame(columns=COLUMNS)


def _large_of(before: Result | None) -> tuple[list[Bar], tuple[Table, ...], tuple[Picture, ...]]:
    """The parts of a record that are not about sizes."""
    if before is None:
        return [], (), ()
    bars = [bar for bar in before.bars if not bar.name.endswith(": the time by hand")]
    tables = [table for table in before.tables if OVER not in table.caption]
    return bars, tuple(table for table in tables if not table.caption.startswith(EVERY)), before.pictures
