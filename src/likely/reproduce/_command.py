"""The arguments of `likely reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from likely import reproduce
from likely.reproduce._entry import Context
from likely.reproduce._record import save
from likely.reproduce._run import choose, command, print_entries, refuse, run


def reproduce_command(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Entries to run; none means all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and steps: seconds, not minutes.")] = False,
    seed: Annotated[int, typer.Option(help="The seed everything random starts from.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="The folder to write to.", file_okay=False)] = Path("runs"),
    data: Annotated[Path | None, typer.Option(help="The data folder.", envvar="LIKELY_DATA", file_okay=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run every entry.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the entries and stop.")] = False,
) -> None:
    """Redo tables and figures of the paper and write a report, OUT/report.html."""
    if listing:
        print_entries(reproduce.ENTRIES)
        return
    if names and everything:
        refuse("give names or --all, not both")
    if data and not data.is_dir():
        refuse(f"the data folder {data} does not exist: correct --data or LIKELY_DATA, or unset it")
    context, entries = Context(quick, seed, data), choose(names or [], reproduce.ENTRIES)
    from likely.reproduce._report import write_report

    try:
        records = run("reproduce", entries, context, lambda record: save(record, out / "results"))
    finally:
        print(write_report(reproduce.ENTRIES, out, command("reproduce", names or [], context)))
    raise typer.Exit(any(record.error for record in records))
