"""The arguments of `likely audit`, and what it prints."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer


def audit_command(
    data: Annotated[
        Path | None, typer.Argument(help="A table: CSV, TSV, Parquet, Arrow or npz.", metavar="DATA")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict and to judge.")] = None,
    task: Annotated[str, typer.Option(help="auto, classification or regression.")] = "auto",
    test: Annotated[Path | None, typer.Option(help="A second table that should share no row.")] = None,
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
    seed: Annotated[int, typer.Option(help="The seed everything random starts from.", min=0)] = 0,
) -> None:
    """Find odd rows, wrong labels and targets, copies and leaks; write OUT/report.html, scores.csv, summary.json."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from likely.auditing import audit

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("reading", total=1.0)

        def tell(what: str, share: float) -> None:
            bars.update(bar, description=what, completed=share)

        try:
            found = audit(
                data,
                target,
                task=task,
                test=test,
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
        except (ValueError, OSError, ImportError) as error:
            typer.echo(f"likely: {error}", err=True)
            raise typer.Exit(2) from None
    for finding in found.findings:
        typer.echo(f"{finding.title}: {finding.summary}")
    typer.echo(str(page))
    if fail_above is not None and found.share > fail_above:
        typer.echo(
            f"likely: {found.share:.2%} of rows are suspicious, more than the {fail_above:.2%} allowed", err=True
        )
        raise typer.Exit(1)
