"""The arguments of `python -m experiments.paper`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from experiments import paper
from experiments.entries.entry import Context, Entry
from experiments.entries.record import Record, save
from experiments.entries.resume import finished, origin
from experiments.entries.run import choose, command, print_entries, reporting, run, said, writing_to
from experiments.entries.spread import BACKENDS, Spread


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Entries to run; none means all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and steps: seconds, not minutes.")] = False,
    seed: Annotated[int, typer.Option(help="The seed everything random starts from.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="The folder to write to.", file_okay=False)] = Path("runs"),
    data: Annotated[Path | None, typer.Option(help="The data folder.", envvar="LIKELY_DATA", file_okay=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run every entry.")] = False,
    fetching: Annotated[bool, typer.Option("--fetch", help="First download missing data sets.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run finished entries of OUT again too.")] = False,
    jobs: Annotated[int, typer.Option(help="Entries at a time, one core each; -1 for all cores.", min=-1)] = 1,
    backend: Annotated[str, typer.Option(help="Backend of joblib: loky, dask or ray.")] = "loky",
    scheduler: Annotated[str | None, typer.Option(help="The address of a Dask or Ray cluster.")] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the entries and stop.")] = False,
) -> None:
    """Redo tables and figures of the paper and write a report, OUT/report.html.

    Without names, entries that are finished in OUT and would have the same result are kept. An interrupted run
    continues where it stopped.
    """
    if listing:
        print_entries(paper.ENTRIES)
        return
    if names and everything:
        raise ValueError("give names or --all, not both")
    if fetching:
        fetch_missing(data)
    if data and not data.is_dir():
        raise ValueError(f"the data folder {data} does not exist: correct --data or LIKELY_DATA, or unset it")
    spread = spread_over(jobs, backend, scheduler)
    context, entries = Context(quick, seed, data), choose(names or [], paper.ENTRIES)
    with writing_to(out):
        failed = _run_and_report(entries, context, out, Plan(spread, names or [], fresh=fresh))
    raise typer.Exit(failed)


class Plan(NamedTuple):
    """Where entries run, which were asked for by name, and whether to run again what is finished."""

    spread: Spread
    names: list[str]
    fresh: bool


def _run_and_report(entries: Sequence[Entry], context: Context, out: Path, plan: Plan) -> bool:
    """Run what is not finished, write the report, and return whether an entry failed."""
    made_from, results, units = origin(context), out / "results", out.resolve() / ".unfinished"
    again = bool(plan.names or plan.fresh)
    kept = {} if again else {e.name: r for e in entries if (r := finished(e.name, made_from, results))}
    for entry in entries:
        if (record := kept.get(entry.name)) and record.result:
            print(said(entry, "kept", record.result.verdict), file=sys.stderr)
    if kept:
        print(f"{len(kept)} of {len(entries)} were finished before: --fresh runs them again", file=sys.stderr)
    if plan.fresh:
        shutil.rmtree(units, ignore_errors=True)

    def keep(record: Record) -> None:
        save(replace(record, made_from=made_from), results)

    from experiments.paper._report import write_report

    work = [entry for entry in entries if entry.name not in kept]
    with reporting(lambda: print(write_report(paper.ENTRIES, out, command(paper.__name__, plan.names, context)))):
        records = run(paper.__name__, work, replace(context, units=units / made_from), keep, plan.spread)
    failed = any(record.error for record in records)
    if not failed:
        shutil.rmtree(units, ignore_errors=True)  # they served to go on, and there is nothing left to do
    return failed


def fetch_missing(data: Path | None) -> None:
    """Get every set that an entry reads; one that cannot be had is told of, and the run goes on with the others."""
    from experiments.data import fetch, terms
    from experiments.data._fetch import is_there
    from experiments.data._sources import SOURCES

    if data is None:
        raise ValueError("--fetch needs a folder to put the files in: name it by --data or LIKELY_DATA")
    data.mkdir(parents=True, exist_ok=True)
    for name, source in SOURCES.items():
        if not source.ours or is_there(name, data):
            continue
        print(f"fetching {name} ({terms(name)})", file=sys.stderr)
        try:
            fetch(name, data)
        except (OSError, ValueError, ImportError) as error:
            print(f"  {error}", file=sys.stderr)


def spread_over(jobs: int, backend: str, scheduler: str | None) -> Spread:
    """The three options, refused where they do not fit together."""
    if jobs == 0:
        raise ValueError("--jobs must be 1 or more, or -1 for all cores")
    if backend not in BACKENDS:
        raise ValueError(f"--backend must be one of {', '.join(BACKENDS)}; got {backend!r}")
    if scheduler and backend == "loky":
        raise ValueError("--scheduler is the address of a cluster: say which with --backend dask or --backend ray")
    library = {"dask": "distributed"}.get(backend, backend)
    if backend != "loky" and find_spec(library) is None:
        raise ValueError(f"--backend {backend} needs {library}: pip install {library}")
    return Spread(jobs, backend, scheduler)
