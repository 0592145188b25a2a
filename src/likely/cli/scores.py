"""Scores of a model's outputs before and after calibration, on rows that the calibrator was not fitted to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold

from likely._solvers.selection import held_out_gain
from likely.calibration import Calibrator
from likely.cli.outputs import Outputs
from likely.metrics import expected_calibration_error, negative_log_likelihood, quantile_calibration_error

COVERAGE = 0.9  # nominal coverage of the interval that is scored
# What scores are computed from, one column per row: for classes the NLL, the probability of the most probable class
# and whether that class is right; for forecasts of numbers the NLL and the CDF at the target.
RowScores = NDArray[np.float64]


def fit(calibrator: Any, outputs: Outputs) -> Any:
    """A fitted copy."""
    scale = () if isinstance(calibrator, Calibrator) else (outputs.scale,)
    return clone(calibrator).fit(outputs.predicted, *scale, outputs.truth, outputs.features)


def before(outputs: Outputs, calibrator: Any) -> RowScores | None:
    """Scores of the uncalibrated outputs; None for means without scales, which are not distributions."""
    predicted = np.asarray(outputs.predicted, dtype=np.float64)
    if isinstance(calibrator, Calibrator):
        if calibrator.inputs == "probabilities":
            predicted = np.log(np.maximum(predicted, np.finfo(np.float32).tiny))
        return _of_logits(predicted, outputs.truth)
    if outputs.scale is None:
        return None
    steps = getattr(calibrator, "steps", None)
    likelihood = steps[0][1].likelihood if steps else calibrator.likelihood
    family = torch.distributions.Laplace if likelihood == "laplace" else torch.distributions.Normal
    scale = np.asarray(outputs.scale, dtype=np.float64)
    return _of_distribution(family(torch.as_tensor(predicted), torch.as_tensor(scale)), outputs.truth)


def after(fitted: Any, outputs: Outputs) -> RowScores:
    """Scores of a fitted calibrator on rows that are new to it."""
    if isinstance(fitted, Calibrator):
        return _of_logits(fitted.transform(outputs.predicted, outputs.features), outputs.truth)
    return _of_distribution(fitted.distribution(outputs.predicted, outputs.scale, outputs.features), outputs.truth)


def out_of_fold(
    calibrator: Any, outputs: Outputs, cv: int, random_state: int, tell: Callable[[int], None]
) -> RowScores:
    """Cross-validated scores; ``tell`` is called with the number of every fold."""
    parts, order = [], []
    folds = KFold(cv, shuffle=True, random_state=random_state).split(np.arange(len(outputs)))
    for number, (train, held_out) in enumerate(folds):
        tell(number)
        parts.append(after(fit(calibrator, _rows_of(outputs, train)), _rows_of(outputs, held_out)))
        order.append(held_out)
    return np.concatenate(parts, axis=1)[:, np.argsort(np.concatenate(order))]


def compared(old: RowScores | None, new: RowScores) -> dict[str, Any]:
    """The scores before and after calibration, and the gain in NLL with its standard error, to print."""
    if old is None:
        return {"after": _summary(new)}
    scores = {"before": _summary(old), "after": _summary(new)}
    if not (np.isfinite(old[0]).all() and np.isfinite(new[0]).all()):  # a label of probability zero
        return scores
    gain, rows = held_out_gain(old[0] - new[0]), new.shape[1]
    return scores | {"gain": {"NLL": gain.total / rows, "error": gain.error / rows}}


def _rows_of(outputs: Outputs, rows: NDArray[np.intp]) -> Outputs:
    parts: dict[str, Any] = {name: part[rows] for name, part in vars(outputs).items() if isinstance(part, np.ndarray)}
    return replace(outputs, **parts)


def _of_logits(logits: Any, truth: Any) -> RowScores:
    labels = np.asarray(truth).astype(np.int64)
    nll = negative_log_likelihood(labels, logits=logits, reduction="none")
    probabilities = torch.softmax(torch.as_tensor(np.asarray(logits, dtype=np.float64)), 1).numpy()
    return np.stack([np.asarray(nll, np.float64), probabilities.max(1), probabilities.argmax(1) == labels])


def _of_distribution(distribution: Any, truth: Any) -> RowScores:
    target = torch.as_tensor(np.asarray(truth, dtype=np.float64)).to(distribution.mean)
    return torch.stack([-distribution.log_prob(target), distribution.cdf(target)]).double().numpy()


def _summary(rows: RowScores) -> dict[str, float | None]:
    """The scores of all rows, with None for infinity, which JSON does not have."""
    nll, *rest = rows
    scores = {"NLL": float(nll.mean()), **(_of_classes(*rest) if len(rest) == 2 else _of_levels(*rest))}
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}


def _of_classes(confidence: RowScores, right: RowScores) -> dict[str, float]:
    ece = expected_calibration_error(right.astype(np.int64), confidence, pos_label=1)
    return {"ECE": ece, "accuracy": float(right.mean())}


def _of_levels(level: RowScores) -> dict[str, float]:
    # The CDF at the target is uniform if the forecasts are calibrated.
    uniform = torch.distributions.Uniform(torch.zeros(len(level)).double(), torch.ones(len(level)).double())
    covered = np.abs(level - 0.5) <= COVERAGE / 2
    return {"CAL": quantile_calibration_error(level, uniform), f"in {COVERAGE:.0%} interval": float(covered.mean())}
