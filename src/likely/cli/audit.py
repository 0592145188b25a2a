"""The arguments and the printed output of `likely audit`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likely.cli.commands import option, progress, safe, seed_option

if TYPE_CHECKING:
    from likely.auditing import Audit

HELP = (
    "Find wrong labels and targets, unusual rows, duplicates and leaks in a table, or in a classifier's outputs.\n\n"
    "Writes a report for the browser (report.html), a score per row (scores.csv) and the findings as JSON "
    "(summary.json) to the folder OUT. A table of more than 67 million numbers is read in blocks: models are fitted "
    "to about 100,000 of its rows, all rows are scored, and the scores are written to scores.parquet. Rows are "
    "numbered from 0, without the header.\n\n"
    "Exit codes: 0 done, 1 the data failed --fail-above or --previous, 2 error."
)
EXAMPLES = """Examples:

likely audit houses.csv --target price

likely audit train.csv --target label --out report

likely audit 'parts/*.parquet' --target price --fail-above 0.01

likely audit --logits logits.npy --labels labels.npy"""
_TABLE, _OUTPUTS, _REPORT, _RUN = "For a table", "For a classifier's outputs", "Report", "Computation"


def audit_command(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="A table (CSV, TSV, Parquet or Arrow), or several files, a folder, a glob or a URL of Parquet, "
            "Feather or CSV.",
            metavar="DATA",
        ),
    ] = None,
    target: Annotated[
        str | None, option("Column that the others should predict; its values are checked too.", "COLUMN", _TABLE)
    ] = None,
    task: Annotated[str, option("Kind of target: auto, classification or regression.", "KIND", _TABLE)] = "auto",
    id_column: Annotated[str | None, option("Column that names the rows.", "COLUMN", _TABLE)] = None,
    missing: Annotated[
        str | None,
        option("Words and numbers that stand for a missing value, separated by commas: NA,-999.", "WORDS", _TABLE),
    ] = None,
    accepted: Annotated[
        Path | None,
        option("File of findings that you marked as fine in an earlier report; they are left out.", "FILE", _REPORT),
    ] = None,
    previous: Annotated[
        Path | None,
        option(
            "summary.json of an earlier audit: report new findings only, and exit with code 1 if there are any.",
            "FILE",
            _REPORT,
        ),
    ] = None,
    logits: Annotated[Path | None, option("Logits, .npy of shape (rows, classes).", "FILE", _OUTPUTS)] = None,
    labels: Annotated[Path | None, option("Labels, .npy of shape (rows,).", "FILE", _OUTPUTS)] = None,
    features: Annotated[
        Path | None, option("Inputs of the last layer, .npy of shape (rows, features).", "FILE", _OUTPUTS)
    ] = None,
    classes: Annotated[str | None, option("Names of the classes, separated by commas.", "NAMES", _OUTPUTS)] = None,
    out: Annotated[Path, option("Folder to write to.", "FOLDER", _REPORT, file_okay=False)] = Path("audit"),
    fail_above: Annotated[
        float | None,
        option(
            "Exit with code 1 if more than this share of rows, between 0 and 1, is suspicious.",
            "SHARE",
            _REPORT,
            min=0,
            max=1,
        ),
    ] = None,
    random_state: Annotated[int, seed_option(_RUN)] = 0,
) -> None:
    """Run an audit and print its findings; the options are described in their help."""
    from likely._files import keep_inputs, writable
    from likely.auditing import audit
    from likely.auditing.results.audit import FILES
    from likely.cli.outputs import one_or_several

    table, inputs = one_or_several(data)
    outputs = [out / name for name in FILES]
    files = {"--logits": logits, "--labels": labels, "--features": features}
    keep_inputs(outputs, {"--accepted": accepted, "--previous": previous, **files})
    for path in inputs:
        keep_inputs(outputs, {"DATA": path})
    with writable(out, create=True), progress() as tell:
        report = audit(
            table,
            target,
            task=task,
            id_column=id_column,
            missing=None if missing is None else missing.split(","),
            accepted=accepted,
            previous=previous,
            logits=logits,
            labels=labels,
            features=features,
            classes=classes.split(",") if classes else None,
            random_state=random_state,
            progress=tell,
        )
        tell("writing", 1.0)
        page = report.save(out, shlex.join(["likely", *sys.argv[1:]]))
    _print(report, page)
    if failure := _failure(report, fail_above, previous):
        typer.echo(f"likely: {failure}", err=True)
        raise typer.Exit(1)


def _print(report: Audit, page: Path) -> None:
    """Print the first entries, a line for each other finding, one for all that is well, and where the page is."""
    told = [f"{one.title}: {one.summary}" for one in report.findings if not one.clean and not one.rows.size]
    clean = [f"{one.title[0].lower()}{one.title[1:]}" for one in report.findings if one.clean]
    well = [f"Nothing to report on {', '.join(clean)}."] if clean else []
    notes = [f"note: {note}" for note in report.notes]
    for line in (*str(report).splitlines(), *told, *well, *notes, str(page)):
        typer.echo(safe(line))


def _failure(report: Audit, fail_above: float | None, previous: Path | None) -> str | None:
    """Return why the data failed ``--fail-above`` or ``--previous``; None if they passed."""
    if fail_above is not None:
        new = "new and " if previous is not None else ""
        sentence = f"{report.share:.2%} of rows are {new}suspicious, more than the {fail_above:.2%} allowed"
        return sentence if report.share > fail_above else None
    if previous is not None and report.entries:
        return f"{len(report.suspicious):,} rows are suspicious that were not in {previous}"
    return None
