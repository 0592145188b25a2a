"""Labels that are probably wrong, by their likelihood under a predicted temperature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from likely.auditing._out_of_fold import fold_out
from likely.calibration import FeatureTemperature, LinearTemperature

Array = NDArray[np.float64]

LEAST = 0.01  # the share of wrong labels that is assumed where the data do not speak for more
_STEPS = 100


@dataclass(frozen=True)
class LabelVerdict:
    """For every row the calibrated log-probabilities, its temperature, the NLL of its label, and P(label is wrong)."""

    log_p: Array
    temperature: Array
    nll: Array
    wrong: Array
    share: float

    def expected(self, rows: NDArray[np.int64]) -> Array:
        """The probabilities of the labels as they are given, the wrong ones included."""
        q = np.exp(self.log_p[rows])
        return np.asarray((1 - self.share) * q + self.share * (1 - q) / (q.shape[1] - 1))


def judge_labels(
    logits: NDArray[np.floating], y: NDArray[np.int64], features: NDArray[np.floating] | None = None, seed: int = 0
) -> LabelVerdict:
    r"""Which labels do logits that were not trained on them speak against?

    A label is right with probability :math:`1 - \epsilon` and then drawn from
    :math:`q = \mathrm{softmax}(z / T)`; else it is one of the other classes. A common T and ε are fitted first,
    jointly, for a temperature alone would take wrong labels for uncertainty and hide them. Then each row gets a
    temperature of its own, linear in the features (or the logits), fitted to other rows, each weighing as much as its
    label is likely to be right. Rows rank by :math:`-\log q_y`.

    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 3, 600)
    >>> logits = 6 * np.eye(3)[truth] + rng.normal(size=(600, 3))
    >>> given = np.where(np.arange(600) < 30, (truth + 1) % 3, truth)        # the first 30 are wrong
    >>> verdict = judge_labels(logits, given)
    >>> bool(verdict.wrong[:30].mean() > 0.9), bool(verdict.wrong[30:].mean() < 0.01), round(verdict.share, 2)
    (True, True, 0.05)
    """
    n, classes = logits.shape
    z: NDArray[np.floating] = logits if logits.dtype == np.float32 else logits.astype(np.float64)
    own = np.arange(n)
    common, share = _common(z, y, seed)
    right = 1 - _posterior(np.exp(log_softmax(z / common, axis=1)[own, y]), share, classes)
    # Calibrators multiply features and logits of one type only.
    read = None if features is None else np.asarray(features, dtype=z.dtype)
    calibrated, temperature = np.empty((n, classes)), np.empty(n)
    for fit, rows in fold_out(n, seed + 1):
        calibrator = LinearTemperature() if read is None else FeatureTemperature()
        extra, new = (None, None) if read is None else (read[fit], read[rows])
        calibrator.fit(z[fit], y[fit], extra, sample_weight=right[fit] + 1e-3)
        temperature[rows] = calibrator.temperature(z[rows], new)
        calibrated[rows] = log_softmax(z[rows].astype(np.float64) / temperature[rows, None], axis=1)
    nll = -calibrated[own, y]
    q = np.exp(-nll)
    for _ in range(_STEPS):
        share = float(_posterior(q, share, classes).mean())
    return LabelVerdict(calibrated, temperature, nll, _posterior(q, max(share, LEAST), classes), share)


def _common(z: NDArray[np.floating], y: NDArray[np.int64], seed: int) -> tuple[float, float]:
    """The temperature and the share of wrong labels of highest likelihood, together."""
    classes = z.shape[1]
    enough = min(20_000, max(2_000, 200_000 // classes))
    some = np.random.RandomState(seed).permutation(len(y))[:enough]
    logits, labels = z[some].astype(np.float64), y[some]
    # One temperature unit is that at which logits have unit deviation, whatever scale they come in.
    unit = max(float(np.std(logits - logits.mean(1, keepdims=True))), 1e-12)

    def cost(parameters: Array) -> float:
        inverse, share = np.exp(np.clip(parameters[0], -10, 10)) / unit, expit(parameters[1])
        q = np.exp(log_softmax(logits * inverse, axis=1)[np.arange(len(labels)), labels])
        return float(-np.log(np.maximum((1 - share) * q + share * (1 - q) / (classes - 1), 1e-300)).mean())

    starts = [(a, b) for a in (0.0, 1.5) for b in (-4.0, -2.5)]
    found = [minimize(cost, start, method="Nelder-Mead", options={"maxiter": 150}) for start in starts]
    best = min(found, key=lambda result: float(result.fun)).x
    return float(unit / np.exp(np.clip(best[0], -10, 10))), float(expit(best[1]))


def _posterior(q: Array, share: float, classes: int) -> Array:
    """P(wrong), where a right label has probability q and a wrong one is any of the others."""
    wrong = share * (1 - q) / (classes - 1)
    return np.asarray(wrong / np.maximum(wrong + (1 - share) * q, 1e-300))
