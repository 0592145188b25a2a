"""The arguments of `python -m experiments.benchmarks`, and the one table it prints."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from experiments import benchmarks
from experiments.entries.entry import Context
from experiments.entries.record import Record, save
from experiments.entries.run import choose, command, print_entries, print_table, reporting, run, writing_to

if TYPE_CHECKING:
    from experiments.benchmarks._history import Compared
    from experiments.entries.parts import Table as Shown

RESULTS = Path(__file__).parent / "results"  # of the runs that the documentation cites


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Benchmarks; none means all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Coarser grids and fewer repeats.")] = False,
    seed: Annotated[int, typer.Option(help="The seed everything random starts from.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="The folder to write to.", file_okay=False)] = Path("runs/bench"),
    against: Annotated[
        Path,
        typer.Option(
            help="Folder of earlier runs, for benchmarks without a run in OUT.",
            file_okay=False,
            show_default="experiments/benchmarks/results",
        ),
    ] = RESULTS,
    full: Annotated[bool, typer.Option("--full", help="losses: every size, all threads, CUDA graphs.")] = False,
    sizes: Annotated[str, typer.Option(help="losses: numbers of elements, such as 1e2,1e4.", show_default=False)] = "",
    device: Annotated[str, typer.Option(help="losses: cpu or cuda; by default both.", show_default=False)] = "",
    ways: Annotated[str, typer.Option(help="losses: some of eager, compiled, graph.", show_default="eager")] = "",
    only: Annotated[
        str, typer.Option(help="losses: such as Normal or Softmax/Data,ρ/Global; large tensors are left out.")
    ] = "",
    keep: Annotated[
        bool, typer.Option("--keep", help="losses: keep results in OUT that this run does not measure.")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the benchmarks and stop.")] = False,
) -> None:
    """Compare each claim with its goal and the last run on this machine; write OUT/bench.html and OUT/NAME.json."""
    if listing:
        print_entries(benchmarks.BENCHES)
        return
    data = os.environ.get("LIKELY_DATA")
    flags = {"full": full, "keep": keep}
    given = {"sizes": sizes, "device": device, "ways": ways, "only": only}
    options = {name: "" for name, on in flags.items() if on} | {name: text for name, text in given.items() if text}
    if options and names != ["losses"]:
        raise ValueError(f"--{next(iter(options))} is an option of losses alone: name it, and no other")
    context = Context(quick, seed, Path(data) if data else None, units=out, options=options)
    entries = choose(names or [], benchmarks.BENCHES)
    if options:
        from experiments.benchmarks import losses

        losses.check(context)
    from experiments.benchmarks._history import compare, remember, tally
    from experiments.benchmarks._page import write_bench_page

    def store(record: Record) -> None:
        save(record, out)
        if record.result:
            remember(record, out)

    def write() -> Path:
        return write_bench_page(benchmarks.BENCHES, out, command(benchmarks.__name__, names or [], context), against)

    with writing_to(out), reporting(write):
        records = run(benchmarks.__name__, entries, context, store)
    for shown in (table for record in records if record.result for table in record.result.printed):
        print(f"\n{shown.caption}")
        print_table(printed(shown))
    found = {record.name: compare(record, out, against) for record in records}
    print_table(summary((name, one) for name, comparison in found.items() for one in comparison.bars))
    for record in records:
        print(f"{record.name}: {record.error or (record.result and record.result.verdict)}. {found[record.name].last}")
    print(tally(one for comparison in found.values() for one in comparison.bars))
    print(out / "bench.html")
    raise typer.Exit(not all(record.result and record.result.verdict == "holds" for record in records))


def printed(table: Shown) -> Table:
    """A table as the terminal shows it, without its caption."""
    frame = table.frame
    names, columns = [str(name) for name in frame.index.names], [str(column) for column in frame.columns]
    shown = Table(*names, *columns, box=None, pad_edge=False)
    for column in shown.columns[len(names) :]:
        column.justify, column.no_wrap = "right", True
    for labels, values in zip(frame.index, frame.itertuples(index=False), strict=True):
        cells = (f"{cell:,.{table.digits}f}" if isinstance(cell, float) else escape(str(cell)) for cell in values)
        shown.add_row(*map(str, labels if isinstance(labels, tuple) else (labels,)), *cells)
    return shown


def summary(bars: Iterable[tuple[str, Compared]]) -> Table:
    """A row a bar: what was measured, the bar, whether it is met, and the change since the run before."""
    table = Table("benchmark", "measure", "measured", "bar", "met", "change", box=None, pad_edge=False)
    for column in table.columns[2:]:
        column.no_wrap = True
    met = {True: "yes", False: "[red]no[/]", None: "–"}
    trend = {"better": " [green]better[/]", "worse": " [red]worse[/]", "": ""}
    for name, one in bars:
        label = f"{one.bar.name} ({one.bar.case})" if one.bar.case else one.bar.name
        table.add_row(
            name, escape(label), one.bar.measured, one.bar.set_at, met[one.bar.met], one.change + trend[one.trend]
        )
    return table
