"""Scores of predictions, in units of the standardised training target, so that sets can be compared."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import log_loss, mean_poisson_deviance
from torch.distributions import Distribution, Poisson

from experiments.benchmarks._tabular_problems import Problem
from likely.metrics import crps, expected_calibration_error, negative_log_likelihood

Array = NDArray[np.float64]
LEVEL = 0.9  # coverage of the intervals


def scores(
    problem: Problem,
    prediction: Distribution | Array,
    mean: Array | None = None,
    interval: tuple[Array, Array] | None = None,
) -> dict[str, float]:
    """Compute CRPS, NLL, RMSE and coverage of a distribution; of counts the deviance; of classes log-loss and ECE.

    Args:
        problem: The problem whose test rows were predicted.
        prediction: A distribution per row, or one probability per row and class.
        mean: The predicted means; default: those of the distribution.
        interval: Lower and upper ends of 90% intervals; default: quantiles of the distribution.

    Returns:
        The scores by name.
    """
    if not isinstance(prediction, Distribution):
        return _of_classes(problem, prediction)
    y, width = problem.y_test, problem.units[1]
    mean = np.asarray(prediction.mean) if mean is None else mean
    results = {
        "CRPS": _crps(y, prediction) / width,
        "NLL": float(negative_log_likelihood(y, prediction)),
        "RMSE": float(np.sqrt(np.mean(np.square(mean - y)))) / width,
    }
    if problem.kind == "counts":
        return {**results, "deviance": float(mean_poisson_deviance(y, np.maximum(mean, 1e-6)))}
    lower, upper = (_quantile(prediction, p) for p in (0.05, 0.95)) if interval is None else interval
    inside = (lower <= y) & (y <= upper)
    return {**results, "NLL": results["NLL"] - float(np.log(width)), "coverage": float(inside.mean())}


def _of_classes(problem: Problem, proba: Array) -> dict[str, float]:
    proba = np.clip(proba, 1e-15, None)
    proba = proba / proba.sum(1, keepdims=True)
    labels = np.arange(proba.shape[1])
    return {
        "log-loss": float(log_loss(problem.y_test, proba, labels=labels)),
        "ECE": float(expected_calibration_error(problem.y_test, proba)),
        "accuracy": float(np.mean(proba.argmax(1) == problem.y_test)),
    }


def _crps(y: Array, prediction: Distribution) -> float:
    """Compute the CRPS; for a Poisson, which has no closed form here, by a sum over counts."""
    if not isinstance(prediction, Poisson):
        return float(crps(y, prediction))
    rate = prediction.rate.numpy().astype(np.float64)
    largest = int(max(y.max(), (rate + 12 * np.sqrt(rate) + 12).max()))
    total = np.zeros(len(y))
    for start in range(0, largest + 1, 256):  # in blocks, to bound the memory
        k = np.arange(start, min(start + 256, largest + 1))
        below = torch.special.gammaincc(torch.from_numpy(k + 1.0), torch.from_numpy(rate)[:, None]).numpy()
        total += np.square(below - (y[:, None] <= k)).sum(1)
    return float(total.mean())


def _quantile(prediction: Distribution, p: float) -> Array:
    return np.asarray(prediction.icdf(torch.tensor(p, dtype=torch.float64)))
