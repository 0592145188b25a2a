"""The arguments and the printed output of `likely calibrate` and `likely predict`."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from likely.cli.commands import option, progress, safe, seed_option

HELP = (
    "Fit a calibrator to a model's outputs, on rows that the model was not trained on, and write it as JSON.\n\n"
    "A classifier has logits (or probabilities) and labels; a regressor has means, scales if any, and targets. They "
    "are found in DATA under their usual names. The scores before and after calibration are printed, and stored in the "
    "file.\n\n"
    "The columns of a CSV are, for a classifier, logit_0, logit_1, logit_2 and label, which is 0, 1 or 2; or cat, dog, "
    "fox and label, which is one of these words, with the logits or probabilities of each; for a regressor mean, scale "
    "and target. Options give other names."
)
EXAMPLES = """Examples:

likely calibrate validation.npz

likely calibrate validation.csv --logits score --labels class --out my.json

likely calibrate validation.csv --logits cat,dog,fox --labels animal

likely calibrate forecasts.csv --mean predicted --scale sigma --target price

likely calibrate forecasts.parquet --method linear --likelihood laplace"""
PREDICT_HELP = (
    "Apply a calibrator to a model's outputs, and write what it predicts.\n\n"
    "For a classifier these are probabilities, for a regressor scales and intervals."
)
PREDICT_EXAMPLES = """Examples:

likely predict model.json test.npz --out probabilities.csv

likely predict model.json 'days/*.parquet' --out days.parquet --coverage 0.8"""
_CLASSIFIER, _REGRESSOR, _BOTH = "Outputs of a classifier", "Outputs of a regressor", "Outputs of either"
_SCORES = "Scores"
_ABBREVIATIONS = (
    "NLL: negative log-likelihood, less is better",
    "ECE: expected calibration error, less is better",
    "CAL: calibration error of quantiles, less is better",
    "GS: one temperature",
    "LS: a temperature linear in the logits",
    "LFS: a temperature linear in the features",
    "VS: vector scaling",
    "SMS: structured matrix scaling",
)

Data = Annotated[
    str,
    typer.Argument(
        help="A model's outputs (npz, CSV, Parquet or Arrow), or a folder, a glob or a URL of Parquet, Feather or CSV.",
        metavar="DATA",
    ),
]
Logits = Annotated[
    str | None, option("Name of the logits: an array, or columns.", "NAME", _CLASSIFIER, show_default="logits")
]
Mean = Annotated[str | None, option("Name of the means.", "NAME", _REGRESSOR, show_default="mean")]
Scale = Annotated[str | None, option("Name of the scales.", "NAME", _REGRESSOR, show_default="scale")]
Features = Annotated[str | None, option("Name of the features.", "NAME", _BOTH, show_default="features")]


def calibrate_command(
    data: Data,
    out: Annotated[Path, option("File to write, JSON.", "FILE", dir_okay=False)] = Path("model.json"),
    method: Annotated[
        str,
        option(
            "Calibrator: auto tries several and takes the best. For a classifier: global, linear, feature, deep, "
            "vector, matrix, platt or isotonic. For a regressor: global, linear, deep or isotonic. Join several by + "
            "to apply them in turn: vector+feature.",
            "NAME",
        ),
    ] = "auto",
    logits: Logits = None,
    labels: Annotated[
        str | None,
        option(
            "Name of the labels: numbers, or names of the logits' columns.", "NAME", _CLASSIFIER, show_default="labels"
        ),
    ] = None,
    mean: Mean = None,
    scale: Scale = None,
    target: Annotated[str | None, option("Name of the targets.", "NAME", _REGRESSOR, show_default="target")] = None,
    features: Features = None,
    likelihood: Annotated[
        str | None,
        option("Distribution to predict: normal or laplace.", "NAME", _REGRESSOR, show_default="normal"),
    ] = None,
    cv: Annotated[
        int,
        option(
            "Number of folds of the cross-validation that scores the calibrator; 0 skips it.", "NUMBER", _SCORES, min=0
        ),
    ] = 5,
    random_state: Annotated[int, seed_option(_SCORES)] = 0,
) -> None:
    """Fit a calibrator and print its scores; the options are described in their help."""
    from likely.cli.fit import calibrate

    names = {"logits": logits, "labels": labels, "mean": mean, "scale": scale, "target": target, "features": features}
    with progress() as tell:
        about = calibrate(data, out, names, method, likelihood=likelihood, cv=cv, random_state=random_state, tell=tell)
    _print(about)


def predict_command(
    model: Annotated[Path, typer.Argument(help="File that likely calibrate wrote.", metavar="MODEL")],
    data: Data,
    out: Annotated[Path, option("File to write: .npz, .csv or .parquet.", "FILE", dir_okay=False)],
    logits: Logits = None,
    mean: Mean = None,
    scale: Scale = None,
    features: Features = None,
    coverage: Annotated[
        float | None,
        option("Probability that the intervals hold, between 0 and 1.", "SHARE", _REGRESSOR, show_default="0.9"),
    ] = None,
) -> None:
    """Apply a calibrator and print its scores; the options are described in their help."""
    from likely.cli.predict import predict

    names = {"logits": logits, "mean": mean, "scale": scale, "features": features}
    _print(predict(model, data, out, names, coverage=coverage))


def _print(about: dict[str, Any]) -> None:
    """Print the data, the method, the scores with what their abbreviations mean, and the file written."""
    width = "".join(f", {about[name]} {name}" for name in ("classes", "features") if about.get(name))
    lines = [f"{about['data']}: {about['rows']:,} rows{width}", f"method: {about['method']}"]
    if "chosen" in about:
        lines[-1] += f", which chose {'; '.join(about['chosen'])}"
    lines += [f"note: {note}" for note in about.get("notes", ())]
    if "after" in about:
        first = about.get("before", {})
        lines += ["", f"{'':<18}{'before':>10}{'after':>10}"]
        for name, value in about["after"].items():
            old = _score(first[name]) if name in first else "–"
            lines.append(f"{name:<18}{old:>10}{_score(value):>10}")
        lines.append(about["judged"])
        if "gain" in about:
            gain, error = about["gain"]["NLL"], about["gain"]["error"]
            way, doubt = "falls" if gain >= 0 else "rises", "" if abs(gain) > 2 * error else ", which may be chance"
            lines.append(f"The NLL {way} by {_score(abs(gain))} ± {_score(error)}{doubt}.")
        words = re.split(r"\W+", " ".join(lines))
        lines += [entry for entry in _ABBREVIATIONS if entry.split(":")[0] in words] + [""]
    for line in (*lines, about["out"]):
        typer.echo(safe(line))


def _score(value: float | None) -> str:
    """A score in few characters, however large; None is infinite, the score of a label of probability zero."""
    if value is None:
        return "∞"
    return f"{value:.4f}" if abs(value) < 1e4 else f"{value:.3g}"
