"""The arguments and the printed output of `likely audit`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likely.cli.terminal import progress, safe

if TYPE_CHECKING:
    from likely.auditing import Audit

HELP = (
    "Find wrong labels and targets, unusual rows, duplicates and leaks in a table, or in a classifier's outputs.\n\n"
    "Writes a report for the browser (report.html), a score per row (scores.csv) and the findings as JSON "
    "(summary.json) to the folder OUT. A table of more than 67 million numbers is read in blocks: models are fitted "
    "to about 100,000 of its rows, all rows are scored, and the scores are written to scores.parquet.\n\n"
    "Exit codes: 0 done, 1 the data failed --fail-above or --previous, 2 error."
)
EXAMPLES = "\n\n".join(
    (
        "Examples:",
        "likely audit houses.csv --target price",
        "likely audit train.csv --target label --test test.csv --out report",
        "likely audit 'parts/*.parquet' --target price --fail-above 0.01",
        "likely audit --logits logits.npy --labels labels.npy",
    )
)
# Options for tables only, and for a model's outputs only; given with the other they would be ignored.
_OF_TABLES = ("DATA", "--target", "--test", "--id")
_OF_OUTPUTS = ("--logits", "--labels", "--features", "--classes")
_TABLE, _OUTPUTS, _REPORT, _RUN = "For a table", "For a classifier's outputs", "Report", "Computation"

Data = Annotated[
    list[str] | None,
    typer.Argument(
        help="A table (CSV, TSV, Parquet, Arrow or npz), or several files, a folder, a glob or a URL of Parquet, "
        "Feather or CSV.",
        metavar="DATA",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="Column that the others should predict; its values are checked too.",
        metavar="COLUMN",
        rich_help_panel=_TABLE,
    ),
]
Task = Annotated[
    str,
    typer.Option(help="Kind of target: auto, classification or regression.", metavar="KIND", rich_help_panel=_TABLE),
]
Test = Annotated[
    Path | None,
    typer.Option(
        help="Second table, whose rows should not occur in the first.", metavar="FILE", rich_help_panel=_TABLE
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id", help="Column that names the rows.", metavar="COLUMN", rich_help_panel=_TABLE),
]
AcceptedFile = Annotated[
    Path | None,
    typer.Option(
        help="File of findings that you marked as fine in an earlier report; they are left out.",
        metavar="FILE",
        rich_help_panel=_REPORT,
    ),
]
Previous = Annotated[
    Path | None,
    typer.Option(
        help="summary.json of an earlier audit: report new findings only, and exit with code 1 if there are any.",
        metavar="FILE",
        rich_help_panel=_REPORT,
    ),
]
Logits = Annotated[
    Path | None,
    typer.Option(help="Logits, .npy of shape (rows, classes).", metavar="FILE", rich_help_panel=_OUTPUTS),
]
Labels = Annotated[
    Path | None, typer.Option(help="Labels, .npy of shape (rows,).", metavar="FILE", rich_help_panel=_OUTPUTS)
]
Features = Annotated[
    Path | None,
    typer.Option(
        help="Inputs of the last layer, .npy of shape (rows, features).", metavar="FILE", rich_help_panel=_OUTPUTS
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(help="Names of the classes, separated by commas.", metavar="NAMES", rich_help_panel=_OUTPUTS),
]
Out = Annotated[
    Path, typer.Option(help="Folder to write to.", metavar="FOLDER", file_okay=False, rich_help_panel=_REPORT)
]
FailAbove = Annotated[
    float | None,
    typer.Option(
        help="Exit with code 1 if more than this share of rows, between 0 and 1, is suspicious.",
        min=0,
        max=1,
        metavar="SHARE",
        rich_help_panel=_REPORT,
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed.", min=0, max=2**32 - 1, metavar="NUMBER", rich_help_panel=_RUN)]
Engine = Annotated[
    str,
    typer.Option(help="Where a table in blocks is computed: threads or dask.", metavar="NAME", rich_help_panel=_RUN),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Address of a Dask scheduler, tcp://HOST:PORT.",
        show_default="workers on this machine",
        metavar="URL",
        rich_help_panel=_RUN,
    ),
]


def audit_command(
    data: Data = None,
    target: Target = None,
    task: Task = "auto",
    test: Test = None,
    id_column: IdColumn = None,
    accepted: AcceptedFile = None,
    previous: Previous = None,
    logits: Logits = None,
    labels: Labels = None,
    features: Features = None,
    classes: Classes = None,
    out: Out = Path("audit"),
    fail_above: FailAbove = None,
    seed: Seed = 0,
    engine: Engine = "threads",
    scheduler: Scheduler = None,
) -> None:
    """Run an audit and print its findings; the options are described in their help."""
    from likely._destination import writable
    from likely.auditing import audit
    from likely.cli.engines import engine as computing
    from likely.cli.paths import one_or_several

    files = {"--test": test, "--logits": logits, "--labels": labels, "--features": features}
    _check_together(files | {"DATA": data or None, "--target": target, "--classes": classes, "--id": id_column}, task)
    table, inputs = one_or_several(data)
    _keep_inputs(out, {"--accepted": accepted, "--previous": previous, **files}, inputs)
    with writable(out, create=True), progress() as tell, computing(engine, scheduler):
        report = audit(
            table,
            target,
            task=task,
            test=test,
            id_column=id_column,
            accepted=accepted,
            previous=previous,
            logits=logits,
            labels=labels,
            features=features,
            classes=classes.split(",") if classes else None,
            random_state=seed,
            progress=tell,
        )
        tell("writing", 1.0)
        page = report.save(out, shlex.join(["likely", *sys.argv[1:]]))
    _print(report, page)
    if failure := _failure(report, fail_above, previous):
        typer.echo(f"likely: {failure}", err=True)
        raise typer.Exit(1)


def _keep_inputs(out: Path, options: dict[str, Path | None], inputs: list[Path]) -> None:
    """Raise an error if a file that the audit writes is one that it reads."""
    from likely._destination import keep_inputs
    from likely.auditing._audit import FILES

    outputs = [out / name for name in FILES]
    keep_inputs(outputs, options)
    for path in inputs:
        keep_inputs(outputs, {"DATA": path})


def _print(report: Audit, page: Path) -> None:
    """Print the first entries, a line per finding, the notes and the path of the page."""
    for line in str(report).splitlines():
        typer.echo(safe(line))
    for finding in report.findings:
        typer.echo(safe(f"{finding.title}: {finding.summary}"))
    for note in report.notes:
        typer.echo(safe(f"note: {note}"))
    typer.echo(safe(str(page)))


def _failure(report: Audit, fail_above: float | None, previous: Path | None) -> str | None:
    """Return why the data failed ``--fail-above`` or ``--previous``; None if they passed."""
    if fail_above is not None:
        new = "new and " if previous is not None else ""
        failed = report.share > fail_above
        sentence = f"{report.share:.2%} of rows are {new}suspicious, more than the {fail_above:.2%} allowed"
        return sentence if failed else None
    if previous is not None and report.entries:
        return f"{len(report.suspicious):,} rows are suspicious that were not in {previous}"
    return None


def _check_together(options: dict[str, object], task: str) -> None:
    """Raise an error for combinations in which an option would be ignored."""
    table, outputs = ([name for name in names if options[name] is not None] for names in (_OF_TABLES, _OF_OUTPUTS))
    if outputs and task != "auto":
        table.append("--task")
    if not table and not outputs:
        raise ValueError("give a table, or --logits and --labels")
    if table and outputs:
        raise ValueError(
            f"{table[0]} is for a table and {outputs[0]} for a model's outputs: give a table, or --logits and --labels"
        )
    if table and options["DATA"] is None:
        raise ValueError(f"{table[0]} needs a table")
    if outputs and (options["--logits"] is None or options["--labels"] is None):
        raise ValueError("--logits and --labels go together: give both")
