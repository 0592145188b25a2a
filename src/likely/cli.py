"""The `likely` command: `likely audit`, `likely info`, `likely reproduce` and `likely bench`.

Everything heavy is imported by the command that needs it, so `likely --help` answers at once; and typer is imported
inside `build`, so that an install without the `cli` extra gets a sentence instead of a traceback.
"""

import difflib
import json
import os
import shlex
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

if TYPE_CHECKING:
    import typer

    from likely.reproduce import Context, Entry, Record

CLI_EXTRA = ("typer", "rich", "jinja2", "pandas", "matplotlib")


def main() -> None:
    """The entry point of the console script."""
    missing = [name for name in CLI_EXTRA if find_spec(name) is None]
    if missing:
        sys.exit(f"The likely command needs {', '.join(missing)}: pip install 'likely[cli]'")
    build()()


def build() -> "typer.Typer":
    """The typer application."""
    import typer

    app = typer.Typer(
        help="Losses are likelihoods: free their parameters and learn them with the model.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def version(asked: bool) -> None:
        if asked:
            import likely

            typer.echo(f"likely {likely.__version__}")
            raise typer.Exit

    @app.callback()
    def likely_command(
        show: Annotated[
            bool, typer.Option("--version", help="Print the version and stop.", callback=version, is_eager=True)
        ] = False,
    ) -> None:
        pass

    @app.command()
    def info(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
        """Show versions, hardware, the data folder and the extras that are installed."""
        about = describe()
        typer.echo(json.dumps(about, indent=1, ensure_ascii=False) if as_json else readable(about))

    @app.command()
    def reproduce(
        names: Annotated[
            list[str] | None, typer.Argument(metavar="NAME", help="Entries to run; none means all that are built.")
        ] = None,
        quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and steps: seconds, not minutes.")] = False,
        seed: Annotated[int, typer.Option(help="The seed everything random starts from.", min=0)] = 0,
        out: Annotated[Path, typer.Option(help="The folder to write to.", file_okay=False)] = Path("runs"),
        data: Annotated[
            Path | None, typer.Option(help="The data folder.", envvar="LIKELY_DATA", file_okay=False)
        ] = None,
        everything: Annotated[bool, typer.Option("--all", help="Run every entry that is built.")] = False,
        listing: Annotated[bool, typer.Option("--list", help="List the entries and stop.")] = False,
    ) -> None:
        """Redo tables and figures of the paper and write a report, OUT/report.html."""
        from likely.reproduce import ENTRIES, Context

        if listing:
            print_entries(ENTRIES)
            return
        if names and everything:
            refuse("give names or --all, not both")
        if data and not data.is_dir():
            refuse(f"the data folder {data} does not exist: correct --data or LIKELY_DATA, or unset it")
        context, entries = Context(quick, seed, data), choose(names or [], ENTRIES)
        from likely.reproduce._report import write_report

        try:
            records = run("reproduce", entries, context, out / "results")
        finally:
            print(write_report(ENTRIES, out, command("reproduce", names or [], context)))
        raise typer.Exit(any(record.error for record in records))

    @app.command()
    def bench(
        names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Benchmarks; none means all.")] = None,
        quick: Annotated[bool, typer.Option("--quick", help="Coarser grids and fewer repeats.")] = False,
        seed: Annotated[int, typer.Option(help="The seed everything random starts from.", min=0)] = 0,
        out: Annotated[Path, typer.Option(help="The folder for NAME.json.", file_okay=False)] = Path("runs/bench"),
        listing: Annotated[bool, typer.Option("--list", help="List the benchmarks and stop.")] = False,
    ) -> None:
        """Measure what we claim against its bar, print the tables and keep the numbers in OUT/NAME.json."""
        from likely.bench import BENCHES
        from likely.reproduce import Context

        if listing:
            print_entries(BENCHES)
            return
        data = os.environ.get("LIKELY_DATA")
        context = Context(quick, seed, Path(data) if data else None)
        records = run("bench", choose(names or [], BENCHES), context, out)
        for record in records:
            print_result(record)
        held = all(record.result and record.result.verdict == "holds" for record in records)
        raise typer.Exit(not held)

    from likely._cli_audit import audit_command

    app.command("audit")(audit_command)
    return app


def describe() -> dict[str, dict[str, object]]:
    """What `likely info` shows."""
    from likely.reproduce._machine import extras, machine, versions

    return {
        "versions": {**versions()},
        "machine": {**machine()},
        "data": {"LIKELY_DATA": os.environ.get("LIKELY_DATA")},
        "extras": {**extras()},
    }


def readable(about: dict[str, dict[str, object]]) -> str:
    """The same for people."""
    words = {"None": "not set", "True": "installed", "False": "not installed"}
    lines = []
    for heading, values in about.items():
        lines.append(heading)
        lines += [f"  {name:<14}{words.get(str(value), value)}" for name, value in values.items()]
    return "\n".join(lines)


def refuse(message: str) -> NoReturn:
    """End with one line and the exit code of a wrong command line."""
    print(f"likely: {message}", file=sys.stderr)
    raise SystemExit(2)


def choose(names: list[str], entries: Sequence["Entry"]) -> list["Entry"]:
    """The entries of these names, or all that are built, in their order."""
    known = {entry.name: entry for entry in entries}
    for name in names:
        if name not in known:
            (close,) = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            refuse(f"no entry is named {name!r}; did you mean {close!r}? --list shows them all")
        if known[name].run is None:
            refuse(f"{name} ({known[name].what}) is not built yet; --list shows those that are")
    return [entry for entry in entries if entry.run and (entry.name in names or not names)]


def print_entries(entries: Sequence["Entry"]) -> None:
    """The table of `--list`."""
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "what", "title", "state", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for entry in entries:
        table.add_row(entry.name, entry.what, entry.title, entry.state, style=None if entry.run else "dim")
    # A pipe has no width; without one given, rich would fold the lines at 80 columns.
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)


def print_result(record: "Record") -> None:
    """A benchmark's tables and its verdict, for a terminal."""
    print(f"\n{record.name}: {record.error or (record.result and record.result.notes)}")
    for table in record.result.tables if record.result else ():
        print(f"\n{table.frame.to_string()}\n{textwrap.fill(table.caption, 100)}")


def command(verb: str, names: list[str], context: "Context") -> str:
    """What to type to get the same again; a data folder that the environment names goes without saying."""
    words = ["likely", verb, *names, *(["--quick"] if context.quick else []), "--seed", str(context.seed)]
    named = context.data is not None and str(context.data) != os.environ.get("LIKELY_DATA")
    return shlex.join(words + (["--data", str(context.data)] if named else []))


def run(verb: str, entries: list["Entry"], context: "Context", folder: Path) -> list["Record"]:
    """Run the entries with a bar for each, keeping every record in `folder` as soon as it is there."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    from likely.reproduce import run_entry, save

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
            save(record, folder)
            records.append(record)
            bars.remove_task(bar)
            outcome = record.result.verdict if record.result else f"failed: {record.error}"
            line = f"{entry.name:<26}{entry.what:<11}{time.perf_counter() - started:6.1f} s  {outcome}"
            console.print(line, markup=False, soft_wrap=True)
    return records
