"""The work of `likely calibrate`: fit a calibrator to a model's outputs, score it, and save it."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import clone
from sklearn.model_selection import KFold

from likely._numerics.significance import held_out_gain
from likely._rows.reading.read_table import source_name
from likely._rows.sources import Source
from likely.calibration import METHODS, SCALE_METHODS, Calibrator, compose, make_calibrator, save
from likely.cli.outputs import Names, Outputs, check_output, read_outputs, several_files
from likely.metrics import expected_calibration_error, negative_log_likelihood, quantile_calibration_error

COVERAGE = 0.9  # nominal coverage of the interval that is scored
MAX_FITTED_VALUES = 1 << 26  # numbers in the table that a calibrator is fitted to; of more, a sample of rows


def calibrate(
    data: str | Path,
    out: Path,
    names: Names,
    method: str,
    *,
    likelihood: str | None,
    cv: int,
    random_state: int,
    tell: Callable[[str, float], None],
) -> dict[str, Any]:
    """Fit a calibrator, score it on held-out rows, and save it; return what is printed."""
    if cv == 1:
        raise ValueError("--cv must be 0, or 2 or more")
    source = several_files(data)
    check_output(out, {"DATA": data}, source)
    outputs = _sample(source, Path(data).name, names) if source else read_outputs(Path(data), names, truth=True)
    calibrator = _made(method, outputs, likelihood, random_state)
    _check_rows(outputs, cv)
    if outputs.are_probabilities:
        calibrator.set_params(inputs="probabilities")
    about = {**outputs.about(source_name(data)), "task": outputs.task, "method": method}
    tell("fitting", 0.0)
    fitted = _fit(calibrator, outputs)
    if hasattr(fitted, "name_"):  # of the best of several, which may have been averaged with others
        about["chosen"] = list(getattr(fitted, "members_", [fitted.name_]))
    about["random_state"] = random_state
    if cv:
        about |= _cross_validated(calibrator, outputs, cv, random_state, tell)
    save(fitted, out, about=about)
    return about | {"out": str(out)}


def _sample(source: Source, name: str, names: Names) -> Outputs:
    """A sample of the rows with their labels or targets, and a note about it."""
    stride = max(1, -(-len(source) * source.width // MAX_FITTED_VALUES))
    (table,) = source.sample(stride)
    outputs = read_outputs(Path(name), names, truth=True, table=table)
    if stride == 1:
        return outputs
    note = f"Fitted on {len(outputs):,} of {len(source):,} rows, one in {stride:,}."
    return replace(outputs, notes=(*outputs.notes, note))


def _made(method: str, outputs: Outputs, likelihood: str | None, random_state: int) -> Any:
    """The calibrator of that name, or the composition of several."""
    classifier = outputs.task == "classification"
    if classifier and likelihood is not None:
        raise ValueError("--likelihood is for regressors, and these are the outputs of a classifier")
    known = METHODS if classifier else SCALE_METHODS
    names = method.split("+")
    if not set(names) <= set(known):
        raise ValueError(
            f"--method for {outputs.task} must be one of {', '.join(known)}, or several joined by +; got {method}"
        )
    if "feature" in names and outputs.features is None:
        raise ValueError(
            "FeatureTemperature needs features, the input of the network's last layer: name them by --features"
        )
    parts = [
        make_calibrator(name) if classifier else SCALE_METHODS[name](likelihood=likelihood or "normal")
        for name in names
    ]
    for part in parts:
        if "random_state" in part.get_params():
            part.set_params(random_state=random_state)
    return parts[0] if len(parts) == 1 else compose(*parts)


def _check_rows(outputs: Outputs, cv: int) -> None:
    if len(outputs) < max(2 * cv, 2):
        raise ValueError(f"there are {len(outputs)} rows, and {cv} folds need {2 * cv}: choose fewer with --cv")
    if outputs.task == "classification" and bool((outputs.truth == outputs.truth[0]).all()):
        raise ValueError(f"all {len(outputs)} labels are {outputs.truth[0]}: calibration needs at least two classes")


def _fit(calibrator: Any, outputs: Outputs) -> Any:
    """A fitted copy."""
    scale = () if isinstance(calibrator, Calibrator) else (outputs.scale,)
    return clone(calibrator).fit(outputs.predicted, *scale, outputs.truth, outputs.features)


def _cross_validated(
    calibrator: Any, outputs: Outputs, cv: int, random_state: int, tell: Callable[[str, float], None]
) -> dict[str, Any]:
    """The scores before and after calibration, and the gain in NLL with its standard error."""
    before, after = _before(outputs, calibrator), None
    folds = KFold(cv, shuffle=True, random_state=random_state).split(outputs.predicted)
    for number, (train, held_out) in enumerate(folds, start=1):
        tell(f"fold {number} of {cv}", number / (1 + cv))
        part = _after(_fit(calibrator, outputs.rows(train)), outputs.rows(held_out))
        after = np.empty((len(outputs), part.shape[1])) if after is None else after
        after[held_out] = part
    new, summary = _scores(after, outputs)
    scores: dict[str, Any] = {"after": summary}
    if before is not None:
        old, scores["before"] = _scores(before, outputs)
        if np.isfinite(old - new).all():  # infinite is the NLL of a label of probability zero
            gain = held_out_gain(old - new)
            scores["gain"] = {"NLL": gain.total / len(new), "error": gain.error / len(new)}
    scores["judged"] = f"Cross-validated: each row is scored by a fit to the other {cv - 1} of {cv} folds."
    return scores


def _before(outputs: Outputs, calibrator: Any) -> Any:
    """The uncalibrated outputs as :func:`_after`; None for means without scales, which are not distributions."""
    predicted = np.asarray(outputs.predicted, dtype=np.float64)
    if isinstance(calibrator, Calibrator):
        return np.log(np.maximum(predicted, np.finfo(np.float32).tiny)) if outputs.are_probabilities else predicted
    if outputs.scale is None:
        return None
    laplace = "laplace" in calibrator.get_params().values()
    family = torch.distributions.Laplace if laplace else torch.distributions.Normal
    return _levels(family(torch.tensor(predicted), torch.as_tensor(outputs.scale).double()), outputs.truth)


def _after(fitted: Any, outputs: Outputs) -> Any:
    """Logits of rows that are new to the calibrator, or of a regressor :func:`_levels`."""
    if isinstance(fitted, Calibrator):
        return np.asarray(fitted.transform(outputs.predicted, outputs.features), dtype=np.float64)
    return _levels(fitted.distribution(outputs.predicted, outputs.scale, outputs.features), outputs.truth)


def _levels(distribution: Any, truth: Any) -> Any:
    """By row: the NLL, and the CDF at the target, which is uniform if forecasts are calibrated."""
    target = torch.as_tensor(truth).to(distribution.mean)
    return torch.stack([-distribution.log_prob(target), distribution.cdf(target)], dim=1).double().numpy()


def _scores(rows: Any, outputs: Outputs) -> tuple[Any, dict[str, float | None]]:
    """The NLL of each row, and the scores of all, with None for infinity, which JSON does not have."""
    if outputs.task == "classification":
        labels = outputs.truth.astype(np.int64)
        nll = np.asarray(negative_log_likelihood(labels, logits=rows, reduction="none"), np.float64)
        scores = {"ECE": expected_calibration_error(labels, softmax(rows, axis=1))}
        scores["accuracy"] = float((rows.argmax(1) == labels).mean())
    else:
        nll, level = rows.T.copy()
        low = torch.zeros(len(level)).double()
        scores = {"CAL": quantile_calibration_error(level, torch.distributions.Uniform(low, low + 1))}
        scores[f"in {COVERAGE:.0%} interval"] = float((np.abs(level - 0.5) <= COVERAGE / 2).mean())
    scores = {"NLL": float(nll.mean())} | scores
    return nll, {name: value if math.isfinite(value) else None for name, value in scores.items()}
