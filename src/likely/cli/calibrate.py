"""The arguments of `likely calibrate` and `likely predict`, and what they print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from likely.cli.terminal import progress, safe, safe_json

Data = Annotated[
    str,
    typer.Argument(
        help="A model's outputs: npz, npy, CSV, Parquet or Arrow; or a folder, a glob or a URL of Parquet, Feather or "
        "CSV.",
        metavar="DATA",
    ),
]
LogitsName = Annotated[str | None, typer.Option(help="The name of the array or columns of logits, if not 'logits'.")]
FeaturesName = Annotated[str | None, typer.Option(help="The name of features, if not 'features'; or an .npy.")]
MeanName = Annotated[str | None, typer.Option(help="The name of a regressor's means, if not 'mean'.")]
ScaleName = Annotated[str | None, typer.Option(help="The name of a regressor's scales, if not 'scale'; or an .npy.")]
LabelsName = Annotated[str | None, typer.Option(help="The name of labels, if not 'labels'; or an .npy.")]
TargetName = Annotated[str | None, typer.Option(help="The name of a regressor's targets, if not 'target'; or an .npy.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def calibrate_command(
    data: Data,
    out: Annotated[Path, typer.Option(help="The model to write.", dir_okay=False)] = Path("model.json"),
    method: Annotated[
        str,
        typer.Option(
            help="auto; for logits global, linear, feature, deep, vector, matrix, platt or isotonic; for "
            "a regressor global, linear, deep or isotonic; or some in a row: vector+feature."
        ),
    ] = "auto",
    task: Annotated[str, typer.Option(help="auto, classification or regression.")] = "auto",
    logits: LogitsName = None,
    labels: LabelsName = None,
    mean: MeanName = None,
    scale: ScaleName = None,
    target: TargetName = None,
    features: FeaturesName = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="The logits are probabilities.")] = False,
    likelihood: Annotated[
        str | None, typer.Option(help="A regressor's: normal or laplace.", show_default="normal")
    ] = None,
    folds: Annotated[int, typer.Option(help="Folds that judge it on rows left out; 0: do not judge.", min=0)] = 5,
    seed: Annotated[int, typer.Option(help="The seed everything random starts from.", min=0, max=2**32 - 1)] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn from a model's outputs on rows it was not trained on how sure it should be; write a model as JSON."""
    from likely.cli.outputs import Names
    from likely.cli.recalibrate import calibrate

    names = Names(task, logits, labels, mean, scale, target, features, probabilities)
    with progress() as tell:
        about = calibrate(data, out, names, method, likelihood=likelihood, folds=folds, seed=seed, tell=tell)
    _print(about, as_json)


def predict_command(
    model: Annotated[Path, typer.Argument(help="A model that likely calibrate wrote.", metavar="MODEL")],
    data: Data,
    out: Annotated[Path, typer.Option(help="The file to write, .npz, .csv or .parquet.", dir_okay=False)],
    logits: LogitsName = None,
    mean: MeanName = None,
    scale: ScaleName = None,
    features: FeaturesName = None,
    labels: Annotated[str | None, typer.Option(help="Labels to judge the probabilities by.")] = None,
    target: Annotated[str | None, typer.Option(help="Targets to judge the forecasts by.")] = None,
    coverage: Annotated[
        float | None,
        typer.Option(help="How much of a row's distribution a regressor's interval holds.", show_default="0.9"),
    ] = None,
    quantiles: Annotated[
        str | None, typer.Option(help="A regressor's: levels with commas between, such as 0.1,0.5,0.9.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the calibrated probabilities, or scales, intervals and quantiles, of a model's outputs."""
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
    """What was found, what it scores, and where it was written."""
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
            doubt = "" if gain > 2 * error else ", so no gain is sure"
            lines.append(f"The NLL falls by {_score(gain)} ± {_score(error)}{doubt}.")
        lines.append("")
    return [*lines, about["out"]]


def _score(value: float | None) -> str:
    """A score in few signs, however large; None is the infinite one of a label that had no probability."""
    if value is None:
        return "∞"
    return f"{value:.4f}" if abs(value) < 1e4 else f"{value:.3g}"
