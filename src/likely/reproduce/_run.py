"""What `likely reproduce` and `likely bench` share: choosing entries, running them, and saying how to do it again."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from likely.reproduce._entry import Context, Entry
from likely.reproduce._record import Record, run_entry


def refuse(message: str) -> NoReturn:
    """End with one line and the exit code of a wrong command line."""
    print(f"likely: {message}", file=sys.stderr)
    raise SystemExit(2)


def choose(names: list[str], entries: Sequence[Entry]) -> list[Entry]:
    """The entries of these names, or all, in their order."""
    known = {entry.name: entry for entry in entries}
    for name in names:
        if name not in known:
            (close,) = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            refuse(f"no entry is named {name!r}; did you mean {close!r}? --list shows them all")
    return [entry for entry in entries if entry.name in names or not names]


def print_entries(entries: Sequence[Entry]) -> None:
    """The table of `--list`."""
    table = Table("name", "what", "title", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for entry in entries:
        table.add_row(entry.name, entry.what, entry.title)
    print_table(table)


def print_table(table: Table) -> None:
    """On standard output; a pipe has no width, and without one given rich would fold the lines at 80 columns."""
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)


def command(verb: str, names: list[str], context: Context) -> str:
    """What to type to get the same again; a data folder that the environment names goes without saying."""
    words = ["likely", verb, *names, *(["--quick"] if context.quick else []), "--seed", str(context.seed)]
    named = context.data is not None and str(context.data) != os.environ.get("LIKELY_DATA")
    return shlex.join(words + (["--data", str(context.data)] if named else []))


def run(verb: str, entries: list[Entry], context: Context, keep: Callable[[Record], None]) -> list[Record]:
    """Run the entries with a bar for each, keeping every record as soon as it is there."""
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    records = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        for entry in entries:
            bar = bars.add_task(entry.name, total=1.0)

            def tell(fraction: float, bar: TaskID = bar) -> None:
                bars.update(bar, completed=fraction)

            started = time.perf_counter()
            record = run_entry(entry, replace(context, progress=tell), command(verb, [entry.name], context))
            keep(record)
            records.append(record)
            bars.remove_task(bar)
            outcome = record.result.verdict if record.result else f"failed: {record.error}"
            line = f"{entry.name:<26}{entry.what:<14}{time.perf_counter() - started:6.1f} s  {outcome}"
            console.print(line, markup=False, soft_wrap=True)
    return records
