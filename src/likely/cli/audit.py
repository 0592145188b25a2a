"""The arguments of `likely audit`, and what it prints."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from likely.cli.terminal import progress, safe

# What only a table has, and what only a model's outputs have; given with the other it would be ignored.
_OF_TABLES = ("DATA", "--target", "--test", "--id")
_OF_OUTPUTS = ("--logits", "--labels", "--features", "--images", "--classes")


def audit_command(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="A table: CSV, TSV, Parquet, Arrow or npz; or Parquet, Feather or CSV files, a folder, a glob or a "
            "URL of such files.",
            metavar="DATA…",
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict and to judge.")] = None,
    task: Annotated[str, typer.Option(help="auto, classification or regression.")] = "auto",
    test: Annotated[Path | None, typer.Option(help="A second table that should share no row.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The column that names rows.")] = None,
    known: Annotated[
        Path | None, typer.Option(help="Findings marked as fine, which the page saves: they are left out.")
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(help="summary.json of an earlier audit: only what is new is shown, and is exit code 1."),
    ] = None,
    logits: Annotated[Path | None, typer.Option(help="A classifier's outputs, .npy (rows, classes).")] = None,
    labels: Annotated[Path | None, typer.Option(help="Their labels, .npy (rows,).")] = None,
    features: Annotated[Path | None, typer.Option(help="The last layer's inputs, .npy (rows, width).")] = None,
    images: Annotated[Path | None, typer.Option(help="A folder of images in row order, or an .npy.")] = None,
    classes: Annotated[str | None, typer.Option(help="Names of the classes, with commas between.")] = None,
    out: Annotated[Path, typer.Option(help="The folder to write to.", file_okay=False)] = Path("audit"),
    fail_above: Annotated[
        float | None,
        typer.Option(help="End with exit code 1 if more than this share of rows is suspicious.", min=0, max=1),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed everything random starts from.", min=0, max=2**32 - 1)] = 0,
    engine: Annotated[str, typer.Option(help="What reads a table beyond memory: threads or dask.")] = "threads",
    scheduler: Annotated[
        str | None, typer.Option(help="A Dask scheduler, tcp://HOST:PORT.", show_default="workers on this machine")
    ] = None,
) -> None:
    """Find odd rows, wrong labels and targets, copies and leaks; write OUT/report.html, scores.csv, summary.json.

    A table of more than 67 million numbers is read by blocks: models are fitted on some 100,000 of its rows, all rows
    are scored, and the scores are written as scores.parquet.
    """
    from likely._destination import keep_inputs, writable
    from likely.auditing import audit
    from likely.auditing._audit import FILES
    from likely.auditing.blocks._answer import FILES as FILES_OF_BLOCKS
    from likely.cli.engines import engine as computing
    from likely.cli.paths import one_or_several

    given = {"--test": test, "--logits": logits, "--labels": labels, "--features": features, "--images": images}
    _check_together(given | {"DATA": data or None, "--target": target, "--classes": classes, "--id": id_column}, task)
    table, inputs = one_or_several(data)
    outputs = [out / name for name in dict.fromkeys((*FILES, *FILES_OF_BLOCKS))]
    keep_inputs(outputs, {"--known": known, "--since": since, **given})
    for path in inputs:
        keep_inputs(outputs, {"DATA": path})
    with writable(out, create=True), progress() as tell, computing(engine, scheduler):
        found = audit(
            table,
            target,
            task=task,
            test=test,
            id=id_column,
            known=known,
            since=since,
            logits=logits,
            labels=labels,
            features=features,
            images=images,
            classes=classes.split(",") if classes else None,
            seed=seed,
            progress=tell,
        )
        tell("writing", 1.0)
        page = found.save(out, shlex.join(["likely", *sys.argv[1:]]))
    for line in str(found).splitlines():
        typer.echo(safe(line))
    for finding in found.findings:
        typer.echo(safe(f"{finding.title}: {finding.summary}"))
    for note in found.notes:
        typer.echo(safe(f"note: {note}"))
    typer.echo(safe(str(page)))
    new = "new and " if since is not None else ""
    if fail_above is not None and found.share > fail_above:
        told = f"{found.share:.2%} of rows are {new}suspicious, more than the {fail_above:.2%} allowed"
        typer.echo(f"likely: {told}", err=True)
        raise typer.Exit(1)
    if fail_above is None and since is not None and found.entries:
        typer.echo(f"likely: {len(found.suspicious):,} rows are suspicious that were not in {since}", err=True)
        raise typer.Exit(1)


def _check_together(given: dict[str, object], task: str) -> None:
    """Refuse options of which some would be ignored."""
    table, outputs = ([name for name in names if given[name] is not None] for names in (_OF_TABLES, _OF_OUTPUTS))
    if outputs and task != "auto":
        table.append("--task")
    if not table and not outputs:
        raise ValueError("give a table, or --logits and --labels")
    if table and outputs:
        raise ValueError(
            f"{table[0]} is for a table and {outputs[0]} for a model's outputs: give a table, or --logits and --labels"
        )
    if table and given["DATA"] is None:
        raise ValueError(f"{table[0]} needs a table")
    if outputs and (given["--logits"] is None or given["--labels"] is None):
        raise ValueError("--logits and --labels go together: give both")
