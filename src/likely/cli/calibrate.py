"""The arguments and the printed output of `likely calibrate` and `likely predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from likely.cli.terminal import progress, safe, safe_json

HELP = (
    "Fit a calibrator to a model's outputs, on rows that the model was not trained on, and write it as JSON.\n\n"
    "A classifier has logits (or probabilities) and labels; a regressor has means, scales if any, and targets. They "
    "are found in DATA under their usual names. The scores before and after calibration are printed."
)
EXAMPLES = "\n\n".join(
    (
        "Examples:",
        "likely calibrate validation.npz",
        "likely calibrate validation.csv --logits score --labels class --out my.json",
        "likely calibrate forecasts.parquet --method linear --likelihood laplace",
    )
)
PREDICT_HELP = (
    "Apply a calibrator to a model's outputs, and write what it predicts.\n\n"
    "For a classifier these are probabilities, for a regressor scales, intervals and quantiles. If DATA has labels or "
    "targets, name them by --labels or --target to print the scores."
)
PREDICT_EXAMPLES = "\n\n".join(
    (
        "Examples:",
        "likely predict model.json test.npz --out probabilities.csv",
        "likely predict model.json test.npz --out probabilities.npz --labels labels",
        "likely predict model.json 'days/*.parquet' --out days.parquet --coverage 0.8",
    )
)
_CLASSIFIER, _REGRESSOR, _BOTH = "Outputs of a classifier", "Outputs of a regressor", "Outputs of either"
_SCORES = "Scores"

Data = Annotated[
    str,
    typer.Argument(
        help="A model's outputs (npz, npy, CSV, Parquet or Arrow), or a folder, a glob or a URL of Parquet, Feather or "
        "CSV.",
        metavar="DATA",
    ),
]
LogitsName = Annotated[
    str | None,
    typer.Option(
        help="Name of the logits: an array, or columns.",
        show_default="logits",
        metavar="NAME",
        rich_help_panel=_CLASSIFIER,
    ),
]
FeaturesName = Annotated[
    str | None,
    typer.Option(
        help="Name of the features, or an .npy file.", show_default="features", metavar="NAME", rich_help_panel=_BOTH
    ),
]
MeanName = Annotated[
    str | None,
    typer.Option(help="Name of the means.", show_default="mean", metavar="NAME", rich_help_panel=_REGRESSOR),
]
ScaleName = Annotated[
    str | None,
    typer.Option(
        help="Name of the scales, or an .npy file.", show_default="scale", metavar="NAME", rich_help_panel=_REGRESSOR
    ),
]
LabelsName = Annotated[
    str | None,
    typer.Option(
        help="Name of the labels, or an .npy file.", show_default="labels", metavar="NAME", rich_help_panel=_CLASSIFIER
    ),
]
TargetName = Annotated[
    str | None,
    typer.Option(
        help="Name of the targets, or an .npy file.", show_default="target", metavar="NAME", rich_help_panel=_REGRESSOR
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.", rich_help_panel=_SCORES)]


def calibrate_command(
    data: Data,
    out: Annotated[Path, typer.Option(help="File to write, JSON.", dir_okay=False, metavar="FILE")] = Path(
        "model.json"
    ),
    method: Annotated[
        str,
        typer.Option(
            help="Calibrator: auto tries several and takes the best. For a classifier: global, linear, feature, deep, "
            "vector, matrix, platt or isotonic. For a regressor: global, linear, deep or isotonic. Join several by + "
            "to apply them in turn: vector+feature.",
            metavar="NAME",
        ),
    ] = "auto",
    task: Annotated[
        str, typer.Option(help="Kind of model: auto, classification or regression.", metavar="KIND")
    ] = "auto",
    logits: LogitsName = None,
    labels: LabelsName = None,
    mean: MeanName = None,
    scale: ScaleName = None,
    target: TargetName = None,
    features: FeaturesName = None,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities", help="The outputs are probabilities instead of logits.", rich_help_panel=_CLASSIFIER
        ),
    ] = False,
    likelihood: Annotated[
        str | None,
        typer.Option(
            help="Distribution to predict: normal or laplace.",
            show_default="normal",
            metavar="NAME",
            rich_help_panel=_REGRESSOR,
        ),
    ] = None,
    folds: Annotated[
        int,
        typer.Option(
            help="Number of folds of the cross-validation that scores the calibrator; 0 skips it.",
            min=0,
            metavar="NUMBER",
            rich_help_panel=_SCORES,
        ),
    ] = 5,
    seed: Annotated[
        int, typer.Option(help="Random seed.", min=0, max=2**32 - 1, metavar="NUMBER", rich_help_panel=_SCORES)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Fit a calibrator and print its scores; the options are described in their help."""
    from likely.cli.outputs import Names
    from likely.cli.recalibrate import calibrate

    names = Names(task, logits, labels, mean, scale, target, features, probabilities)
    with progress() as tell:
        about = calibrate(data, out, names, method, likelihood=likelihood, folds=folds, seed=seed, tell=tell)
    _print(about, as_json)


def predict_command(
    model: Annotated[Path, typer.Argument(help="File that likely calibrate wrote.", metavar="MODEL")],
    data: Data,
    out: Annotated[Path, typer.Option(help="File to write: .npz, .csv or .parquet.", dir_okay=False, metavar="FILE")],
    logits: LogitsName = None,
    mean: MeanName = None,
    scale: ScaleName = None,
    features: FeaturesName = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Name of the labels, or an .npy file, to compute scores.", metavar="NAME", rich_help_panel=_CLASSIFIER
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Name of the targets, or an .npy file, to compute scores.", metavar="NAME", rich_help_panel=_REGRESSOR
        ),
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Probability that the intervals hold, between 0 and 1.",
            show_default="0.9",
            metavar="SHARE",
            rich_help_panel=_REGRESSOR,
        ),
    ] = None,
    quantiles: Annotated[
        str | None,
        typer.Option(
            help="Levels of quantiles to write, separated by commas: 0.1,0.5,0.9.",
            metavar="LEVELS",
            rich_help_panel=_REGRESSOR,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Apply a calibrator and print its scores; the options are described in their help."""
    from likely.cli.outputs import Names
    from likely.cli.recalibrate import predict

    names = Names("auto", logits, labels, mean, scale, target, features)
    _print(predict(model, data, out, names, coverage=coverage, quantiles=quantiles), as_json)


def _print(about: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(safe_json(about))
        return
    for line in _lines(about):
        typer.echo(safe(line))


def _lines(about: dict[str, Any]) -> list[str]:
    """The printed lines: the data, the method, the scores, and the file written."""
    width = "" if "classes" not in about else f", {about['classes']} classes"
    width += f", {about['features']} features" if about["features"] else ""
    lines = [f"{about['data']}: {about['rows']:,} rows{width}", f"method: {about['method']}"]
    if "chosen" in about:
        lines[-1] += f", which chose {'; '.join(about['chosen'])}"
    lines += [f"note: {note}" for note in about.get("notes", ())]
    if "after" in about:
        first = about.get("before") or {}
        lines += ["", f"{'':<18}{'before':>10}{'after':>10}"]
        for name, value in about["after"].items():
            old = _score(first[name]) if name in first else "–"
            lines.append(f"{name:<18}{old:>10}{_score(value):>10}")
        lines.append(about["judged"])
        if "gain" in about:
            gain, error = about["gain"]["NLL"], about["gain"]["error"]
            doubt = "" if gain > 2 * error else ", which may be chance"
            lines.append(f"The NLL falls by {_score(gain)} ± {_score(error)}{doubt}.")
        lines.append("")
    return [*lines, about["out"]]


def _score(value: float | None) -> str:
    """A score in few characters, however large; None is infinite, the score of a label of probability zero."""
    if value is None:
        return "∞"
    return f"{value:.4f}" if abs(value) < 1e4 else f"{value:.3g}"
