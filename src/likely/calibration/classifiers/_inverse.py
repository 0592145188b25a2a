"""The inverse temperature of highest likelihood, and each row's loss at any other."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import optimize
from torch import Tensor

from likely._rows.blocks import Rows
from likely._typing import Array
from likely.calibration._row_factor import LINK
from likely.calibration.classifiers._logits import Labels
from likely.likelihoods.softmax import tempered

_BOUND = 1e4


class Inverse(NamedTuple):
    """A fitted 1/T; ``informed`` is False where the rows do not determine it: no spread in the logits, or no error."""

    value: float
    informed: bool


def relative(logits: Tensor, labels: Tensor, inverse: float, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the NLL of each row at f(u) times an inverse temperature, its slope in u and its curvature."""
    nll, first, second = tempered(logits * inverse, labels, LINK(u))
    slope = LINK.slope(u)
    return nll, first * slope, second * slope.square()


def fit_inverse_temperature(logits: Rows, y: Labels, weight: Array, start: int = 2000) -> Inverse:
    """Return the 1/T of highest likelihood, to about eight digits.

    For rows without a single error the likelihood has no maximum. There the probability of an error is taken to be
    Jeffreys' estimate after as many trials without one, 1/2 in n + 1. Logits without spread do not determine the
    temperature, and it stays at one.
    """
    rows = _Scaled(logits, y, weight)
    if rows.spread == 0:
        return Inverse(1.0, False)
    stride = max(1, len(logits) // start)  # spread over the rows, which may be sorted
    log_tau = _newton(rows, ((stride, 40), (1, 20)) if stride > 1 else ((1, 60),))
    target = rows.total * math.log1p(0.5 / (rows.total + 0.5))
    informed = rows.pass_over(math.exp(log_tau))[0] >= target
    if not informed:  # there the loss falls with τ: stop at the loss of errors of that probability
        ends = log_tau - 2 * math.log(_BOUND), log_tau
        log_tau = optimize.brentq(lambda t: rows.pass_over(math.exp(t))[0] - target, *ends, xtol=1e-9)
    return Inverse(math.exp(log_tau) * rows.scale, informed)


class _Scaled:
    """Logits in units of their own size, a power of two: their squares then neither overflow nor vanish."""

    def __init__(self, logits: Rows, y: Labels, weight: Array) -> None:
        self.logits, self.labels = logits, torch.as_tensor(y)
        self.weight, self.total = torch.as_tensor(weight), float(weight.sum())

        def sizes(rows: Any) -> Array:
            block = logits[rows]
            finite = block.isfinite()
            below = block.masked_fill(~finite, math.inf).amin(1) - block.amax(1)
            largest = float(block.masked_fill(~finite, 0).abs().max())
            return np.array([largest, float(below.abs().max()), torch.finfo(block.dtype).eps])

        largest, size, eps = logits.total(sizes, add=np.maximum)
        self.scale = 2.0 ** -min(max(math.frexp(size)[1], -1020), 1020) if size > 0 else 1.0
        # Differences of the size of rounding errors do not count as spread.
        self.spread = 0.0 if size <= 4 * eps * largest else self._deviation()

    def _deviation(self) -> float:
        def sums(rows: Any) -> tuple[float, float]:
            scaled = self.logits[rows] * self.scale
            below = (scaled - scaled.amax(1, keepdim=True))[scaled.isfinite()].double()
            return float(below.square().sum()), float(len(below))

        squares, count = self.logits.total(sums)
        return math.sqrt(squares / max(count, 1.0))

    def pass_over(self, tau: float, stride: int = 1) -> tuple[float, float, float]:
        """Return the loss, its slope and its curvature in τ."""

        def sums(rows: Any) -> tuple[float, float, float]:
            block = self.logits[rows]
            loss, first, second = tempered(block * self.scale, self.labels[rows].to(block.device), tau)
            weight = self.weight[rows].to(loss)
            total, slope, curvature = (float((term * weight).double().sum()) for term in (loss, first, second))
            return total, slope, curvature

        return self.logits.total(sums, stride=stride)


def _newton(rows: _Scaled, stages: tuple[tuple[int, int], ...]) -> float:
    # Start where logits have unit deviation; the bound keeps τ finite for separated rows.
    log_centre = -math.log(max(rows.spread, 1e-30))
    log_tau = log_centre
    for stride, passes in stages:
        for _ in range(passes):
            tau = math.exp(log_tau)
            _, first, second = rows.pass_over(tau, stride)
            # Newton in τ; far from the optimum a step in log τ of at most one.
            move = -first / max(second, 1e-300) / tau
            move = math.log1p(move) if move > -0.5 else -1.0
            log_tau += min(max(move, -1.0), 1.0)
            log_tau = min(max(log_tau, log_centre - math.log(_BOUND)), log_centre + math.log(_BOUND))
            # Newton squares the error: what is below 1e-4 now is below 1e-8 after this step.
            if abs(move) < 1e-4:
                break
    return log_tau
