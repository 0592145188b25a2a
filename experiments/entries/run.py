"""What both commands share: choosing entries, running them, and saying how to do it again."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from experiments.entries.entry import Context, Entry
from experiments.entries.record import Record, run_entry
from experiments.entries.spread import Outcome, Spread, one, side_by_side
from likely._files import writable


@contextmanager
def writing_to(out: Path) -> Iterator[None]:
    """Try the folder before any work, and end with one line where something cannot be written there later."""
    try:
        with writable(out, create=True):
            pass
    except OSError as error:
        raise ValueError(f"{out}: {error.strerror}; name another folder by --out") from None
    try:
        yield
    except OSError as error:
        if error.filename is None:  # of the terminal, not of a file
            raise
        reason = (error.strerror or str(error)).removeprefix("not written: ")
        raise ValueError(
            f"{error.filename} was not written ({reason}); what had finished before is in "
            f"{out}: make room there, or name another folder by --out, and run the same again"
        ) from None


@contextmanager
def reporting(write: Callable[[], object]) -> Iterator[None]:
    """Write the page at the end, after an interruption too; not after an error of writing, which is to be told."""
    try:
        yield
    except OSError:
        raise
    except BaseException:
        write()
        raise
    write()


def choose(names: list[str], entries: Sequence[Entry]) -> list[Entry]:
    """The entries of these names, or all, in their order."""
    known = {entry.name: entry for entry in entries}
    for name in names:
        if name not in known:
            (close,) = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            raise ValueError(f"no entry is named {name!r}; did you mean {close!r}? --list shows them all")
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


def command(package: str, names: list[str], context: Context) -> str:
    """What to type to get the same again; a data folder that the environment names goes without saying."""
    words = ["python", "-m", package, *names, *(["--quick"] if context.quick else []), "--seed", str(context.seed)]
    for option, value in context.options.items():
        words += [f"--{option}", *([value] if value else [])]
    named = context.data is not None and str(context.data) != os.environ.get("LIKELY_DATA")
    return shlex.join(words + (["--data", str(context.data)] if named else []))


def run(
    package: str,
    entries: Sequence[Entry],
    context: Context,
    keep: Callable[[Record], None],
    spread: Spread | None = None,
) -> list[Record]:
    """Run the entries with a bar, keeping every record as soon as it is there; without ``spread`` with all threads."""
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    records = {}
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        if spread is None or spread.alone:
            outcomes = _in_turn(package, entries, context, bars, run_on=one if spread else _on_all_cores)
        else:
            outcomes = _counted(
                side_by_side(entries, context, partial(_again, package, context), spread), entries, bars
            )
        for entry, record, seconds in outcomes:
            keep(record)
            records[entry.name] = record
            outcome = record.result.verdict if record.result else f"failed: {record.error}"
            console.print(said(entry, f"{seconds:6.1f} s", outcome), markup=False, soft_wrap=True)
    return [records[entry.name] for entry in entries]


def said(entry: Entry, when: str, outcome: str) -> str:
    """The line of an entry that is done."""
    return f"{entry.name:<26}{entry.what:<14}{when:>8}  {outcome}"


def _again(package: str, context: Context, entry: Entry) -> str:
    return command(package, [entry.name], context)


def _on_all_cores(entry: Entry, context: Context, command: str) -> Outcome:
    started = time.perf_counter()
    return Outcome(entry, run_entry(entry, context, command), time.perf_counter() - started)


def _in_turn(
    package: str, entries: Sequence[Entry], context: Context, bars: Progress, run_on: Callable[..., Outcome]
) -> Iterator[Outcome]:
    """One after the other, with a bar for each."""
    for entry in entries:
        bar = bars.add_task(entry.name, total=1.0)

        def tell(fraction: float, bar: TaskID = bar) -> None:
            bars.update(bar, completed=fraction)

        outcome = run_on(entry, replace(context, progress=tell), _again(package, context, entry))
        bars.remove_task(bar)
        yield outcome


def _counted(outcomes: Iterable[Outcome], entries: Sequence[Entry], bars: Progress) -> Iterator[Outcome]:
    """Side by side, with one bar for all."""
    bar = bars.add_task(f"{len(entries)} entries", total=len(entries))
    for outcome in outcomes:
        bars.advance(bar)
        yield outcome
