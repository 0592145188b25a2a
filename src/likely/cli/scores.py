"""How good a model's outputs are before and after calibration, on rows that the calibrator was not fitted to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold

from likely.calibration import Calibrator
from likely.cli.outputs import Outputs
from likely.metrics import expected_calibration_error, negative_log_likelihood, quantile_calibration_error

COVERAGE = 0.9  # of the interval that is scored
Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """The NLL of every row, and what is told of all of them together."""

    nll: Rows
    told: dict[str, float]


def fit(calibrator: Any, outputs: Outputs) -> Any:
    """A fitted copy."""
    if isinstance(calibrator, Calibrator):
        return clone(calibrator).fit(outputs.predicted, outputs.truth, outputs.features)
    return clone(calibrator).fit(outputs.predicted, outputs.scale, outputs.truth, outputs.features)


def before(outputs: Outputs, calibrator: Any) -> Scores | None:
    """Scores of the outputs as they are; None for means without scales, which forecast no distribution."""
    if isinstance(calibrator, Calibrator):
        return _classified(_as_logits(outputs.predicted, calibrator), outputs.truth)
    if outputs.scale is None:
        return None
    mean, scale = (np.asarray(part, dtype=np.float64) for part in (outputs.predicted, outputs.scale))
    family = torch.distributions.Laplace if _likelihood(calibrator) == "laplace" else torch.distributions.Normal
    return _regressed([_judged(family(torch.as_tensor(mean), torch.as_tensor(scale)), outputs.truth)])


def after(fitted: Any, outputs: Outputs) -> Scores:
    """Scores of a fitted calibrator's answers to rows that are new to it."""
    return _scores(fitted, outputs.truth, [_answers(fitted, outputs)])


def out_of_fold(calibrator: Any, outputs: Outputs, folds: int, seed: int, tell: Callable[[int], None]) -> Scores:
    """Scores of answers to each fold by a fit to the others; ``tell`` hears of every fold."""
    parts, order = [], []
    for number, (kept, out) in enumerate(KFold(folds, shuffle=True, random_state=seed).split(np.empty(len(outputs)))):
        tell(number)
        parts.append(_answers(fit(calibrator, rows_of(outputs, kept)), rows_of(outputs, out)))
        order.append(out)
    dealt = np.concatenate(order)
    scores = _scores(calibrator, rows_of(outputs, dealt).truth, parts)
    return Scores(scores.nll[np.argsort(dealt)], scores.told)


def rows_of(outputs: Outputs, rows: NDArray[np.intp]) -> Outputs:
    """Some of the rows."""
    parts: dict[str, Any] = {name: part[rows] for name, part in vars(outputs).items() if isinstance(part, np.ndarray)}
    return replace(outputs, **parts)


def _answers(fitted: Any, outputs: Outputs) -> Any:
    if isinstance(fitted, Calibrator):
        return fitted.transform(outputs.predicted, outputs.features)
    return _judged(fitted.distribution(outputs.predicted, outputs.scale, outputs.features), outputs.truth)


def _scores(calibrator: Any, truth: Any, parts: list[Any]) -> Scores:
    if isinstance(calibrator, Calibrator):
        return _classified(np.concatenate(parts), truth)
    return _regressed(parts)


def _classified(logits: Any, truth: Any) -> Scores:
    labels = np.asarray(truth).astype(np.int64)
    nll = np.asarray(negative_log_likelihood(labels, logits=logits, reduction="none"))
    probabilities = torch.softmax(torch.as_tensor(np.asarray(logits, dtype=np.float64)), 1).numpy()
    right = probabilities.argmax(1) == labels
    ece = expected_calibration_error(labels, probabilities)
    return Scores(nll, {"NLL": float(nll.mean()), "ECE": ece, "accuracy": float(right.mean())})


def _as_logits(predicted: Any, calibrator: Calibrator) -> Any:
    numbers = np.asarray(predicted, dtype=np.float64)
    if calibrator.inputs == "logits":
        return numbers
    return np.log(np.maximum(numbers, np.finfo(np.float32).tiny))


def _judged(distribution: Any, truth: Any) -> Rows:
    """The NLL of every row, and its CDF at the target."""
    target = torch.as_tensor(np.asarray(truth, dtype=np.float64)).to(distribution.mean)
    rows: Rows = torch.stack([-distribution.log_prob(target), distribution.cdf(target)]).double().numpy()
    return rows


def _regressed(parts: list[Rows]) -> Scores:
    nll, level = np.concatenate(parts, axis=1)
    # The CDF at the target is uniform where forecasts are right.
    uniform = torch.distributions.Uniform(torch.zeros(len(level)).double(), torch.ones(len(level)).double())
    covered = np.abs(level - 0.5) <= COVERAGE / 2
    cal = quantile_calibration_error(level, uniform)
    return Scores(nll, {"NLL": float(nll.mean()), "CAL": cal, f"in {COVERAGE:.0%} interval": float(covered.mean())})


def _likelihood(calibrator: Any) -> str:
    steps = getattr(calibrator, "steps", None)
    return str(steps[0][1].likelihood if steps else calibrator.likelihood)
