"""Scores of a model's outputs before and after calibration, on rows that the calibrator was not fitted to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold

from likely.calibration import Calibrator
from likely.cli.outputs import Outputs
from likely.metrics import expected_calibration_error, negative_log_likelihood, quantile_calibration_error

COVERAGE = 0.9  # nominal coverage of the interval that is scored
Rows = NDArray[np.float64]


class Scores(NamedTuple):
    """The NLL of every row, and the scores that are printed."""

    nll: Rows
    told: dict[str, float]


def fit(calibrator: Any, outputs: Outputs) -> Any:
    """A fitted copy."""
    scale = () if isinstance(calibrator, Calibrator) else (outputs.scale,)
    return clone(calibrator).fit(outputs.predicted, *scale, outputs.truth, outputs.features)


def before(outputs: Outputs, calibrator: Any) -> Scores | None:
    """Scores of the uncalibrated outputs; None for means without scales, which are not distributions."""
    rows = rows_before(outputs, calibrator)
    return None if rows is None else summed_up(calibrator, rows)


def rows_before(outputs: Outputs, calibrator: Any) -> Rows | None:
    """Per-row parts of the scores of the uncalibrated outputs; None for means without scales."""
    predicted = np.asarray(outputs.predicted, dtype=np.float64)
    if isinstance(calibrator, Calibrator):
        if calibrator.inputs == "probabilities":
            predicted = np.log(np.maximum(predicted, np.finfo(np.float32).tiny))
        return _by_logits(predicted, outputs.truth)
    if outputs.scale is None:
        return None
    steps = getattr(calibrator, "steps", None)
    likelihood = steps[0][1].likelihood if steps else calibrator.likelihood
    family = torch.distributions.Laplace if likelihood == "laplace" else torch.distributions.Normal
    scale = np.asarray(outputs.scale, dtype=np.float64)
    return _by_distribution(family(torch.as_tensor(predicted), torch.as_tensor(scale)), outputs.truth)


def after(fitted: Any, outputs: Outputs) -> Scores:
    """Scores of a fitted calibrator on rows that are new to it."""
    return summed_up(fitted, rows_after(fitted, outputs))


def out_of_fold(calibrator: Any, outputs: Outputs, folds: int, seed: int, tell: Callable[[int], None]) -> Scores:
    """Cross-validated scores; ``tell`` is called with the number of every fold."""
    everyone, parts, order = np.arange(len(outputs)), [], []
    for number, (train, held_out) in enumerate(KFold(folds, shuffle=True, random_state=seed).split(everyone)):
        tell(number)
        parts.append(rows_after(fit(calibrator, _rows_of(outputs, train)), _rows_of(outputs, held_out)))
        order.append(held_out)
    return summed_up(calibrator, np.concatenate(parts, axis=1)[:, np.argsort(np.concatenate(order))])


def _rows_of(outputs: Outputs, rows: NDArray[np.intp]) -> Outputs:
    parts: dict[str, Any] = {name: part[rows] for name, part in vars(outputs).items() if isinstance(part, np.ndarray)}
    return replace(outputs, **parts)


def rows_after(fitted: Any, outputs: Outputs) -> Rows:
    """Per-row parts of the scores of a fitted calibrator."""
    if isinstance(fitted, Calibrator):
        return _by_logits(fitted.transform(outputs.predicted, outputs.features), outputs.truth)
    return _by_distribution(fitted.distribution(outputs.predicted, outputs.scale, outputs.features), outputs.truth)


def _by_logits(logits: Any, truth: Any) -> Rows:
    """The NLL of every row, the probability of its most probable class, and whether that class is right."""
    labels = np.asarray(truth).astype(np.int64)
    nll = negative_log_likelihood(labels, logits=logits, reduction="none")
    probabilities = torch.softmax(torch.as_tensor(np.asarray(logits, dtype=np.float64)), 1).numpy()
    return np.stack([np.asarray(nll, np.float64), probabilities.max(1), probabilities.argmax(1) == labels])


def _by_distribution(distribution: Any, truth: Any) -> Rows:
    """The NLL of every row, and its CDF at the target."""
    target = torch.as_tensor(np.asarray(truth, dtype=np.float64)).to(distribution.mean)
    return torch.stack([-distribution.log_prob(target), distribution.cdf(target)]).double().numpy()


def summed_up(calibrator: Any, rows: Rows) -> Scores:
    """The scores from their per-row parts, one column per row."""
    return _of_classes(rows) if isinstance(calibrator, Calibrator) else _of_forecasts(rows)


def _of_classes(rows: Rows) -> Scores:
    nll, confidence, right = rows
    ece = expected_calibration_error(right.astype(np.int64), confidence, pos_label=1)
    return Scores(nll, {"NLL": float(nll.mean()), "ECE": ece, "accuracy": float(right.mean())})


def _of_forecasts(rows: Rows) -> Scores:
    nll, level = rows
    # The CDF at the target is uniform if the forecasts are calibrated.
    uniform = torch.distributions.Uniform(torch.zeros(len(level)).double(), torch.ones(len(level)).double())
    covered = np.abs(level - 0.5) <= COVERAGE / 2
    cal = quantile_calibration_error(level, uniform)
    return Scores(nll, {"NLL": float(nll.mean()), "CAL": cal, f"in {COVERAGE:.0%} interval": float(covered.mean())})
