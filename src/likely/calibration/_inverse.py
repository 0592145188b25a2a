"""The inverse temperature of highest likelihood, and what a row's loss is at any other."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._rows.blocks import Rows
from likely.constraints import ShiftedSoftplus

LINK = ShiftedSoftplus(0.2)
_BOUND = 1e4
_RULED_OUT = -1e30  # stands for -∞: any finite number keeps 0 · ∞ out of the moments


class Inverse(NamedTuple):
    """A fitted 1/T; ``informed`` is False where the rows cannot say more: no spread in the logits, or no error."""

    value: float
    informed: bool


def tempered(logits: Tensor, labels: Tensor, inverse: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
    """The softmax NLL of each row at inverse temperature τ, its slope in τ and its curvature.

    The slope is E z - z_y and the curvature Var z under the tempered softmax: the Fisher information itself, since
    neither depends on the label. A row whose own class is ruled out (-∞) has an infinite NLL at every temperature:
    it tells nothing, and all three are zero.
    """
    tau = inverse[:, None] if isinstance(inverse, Tensor) else inverse
    shifted = (logits - logits.amax(1, keepdim=True)).clamp_(min=_RULED_OUT)
    powers = (shifted * tau).exp_()
    total = powers.sum(1)
    chosen = shifted.gather(1, labels[:, None])[:, 0]
    first = powers.mul_(shifted).sum(1) / total
    second = powers.mul_(shifted).sum(1) / total
    scale = inverse if isinstance(inverse, Tensor) else float(inverse)
    possible = (chosen > _RULED_OUT).to(first)
    chosen = chosen * possible
    curvature = (second - first.square()).clamp(min=0)
    return (total.log() - scale * chosen) * possible, (first - chosen) * possible, curvature * possible


def relative(logits: Tensor, labels: Tensor, inverse: float, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The NLL of each row at f(u) times an inverse temperature, its slope in u and its curvature."""
    nll, first, second = tempered(logits * inverse, labels, LINK(u))
    slope = LINK.slope(u)
    return nll, first * slope, second * slope.square()


def fit_inverse_temperature(
    logits: Rows, y: NDArray[np.int64], weight: NDArray[np.float64] | None, start: int = 2000
) -> Inverse:
    """The 1/T of highest likelihood, right to about eight digits.

    Rows without a single error have none: the likelihood rises for ever. There the probability of an error is taken
    to be what it is after as many trials without one (Jeffreys): 1/2 in n + 1. Logits without spread say nothing of
    the temperature, and it stays at one.
    """
    rows = _Scaled(logits, y, weight)
    if rows.spread == 0:
        return Inverse(1.0, False)
    stride = max(1, len(logits) // start)  # spread over the rows, which may be sorted
    log_tau = _newton(rows, ((stride, 40), (1, 20)) if stride > 1 else ((1, 60),))
    target = rows.total * math.log1p(0.5 / (rows.total + 0.5))
    informed = rows.pass_over(math.exp(log_tau))[0] >= target
    if not informed:
        log_tau = _at_loss(rows, target, log_tau)
    return Inverse(math.exp(log_tau) * rows.scale, informed)


class _Scaled:
    """Logits in units of their own size, a power of two: their squares then neither overflow nor vanish."""

    def __init__(self, logits: Rows, y: NDArray[np.int64], weight: NDArray[np.float64] | None) -> None:
        self.logits, self.labels = logits, torch.as_tensor(y)
        self.weight = None if weight is None else torch.as_tensor(weight)
        self.total = float(len(y) if weight is None else weight.sum())
        largest, size = 0.0, 0.0
        for part in logits.blocks():
            block = logits[part]
            finite = block.isfinite()
            largest = max(largest, float(block.masked_fill(~finite, 0).abs().max()))
            below = block.masked_fill(~finite, math.inf).amin(1) - block.amax(1)
            size = max(size, float(below.abs().max()))
        self.scale = 2.0 ** -min(max(math.frexp(size)[1], -1020), 1020) if size > 0 else 1.0
        # Differences that are rounding, no more, are no spread.
        rounding = 4 * torch.finfo(logits[slice(0, 1)].dtype).eps * largest
        self.spread = 0.0 if size <= rounding else self._deviation()

    def _deviation(self) -> float:
        squares = count = 0.0
        for part in self.logits.blocks():
            block = self.logits[part] * self.scale
            below = (block - block.amax(1, keepdim=True))[block.isfinite()].double()
            squares, count = squares + float(below.square().sum()), count + len(below)
        return math.sqrt(squares / max(count, 1.0))

    def pass_over(self, tau: float, stride: int = 1) -> tuple[float, float, float]:
        """The loss, its slope and its curvature in τ."""
        sums = [0.0, 0.0, 0.0]
        for part in self.logits.blocks(stride):
            block = self.logits[part] * self.scale
            terms = tempered(block, self.labels[part].to(block.device), tau)
            for k, term in enumerate(terms):
                own = term if self.weight is None else term * self.weight[part].to(term)
                sums[k] += float(own.double().sum())
        return sums[0], sums[1], sums[2]


def _newton(rows: _Scaled, stages: tuple[tuple[int, int], ...]) -> float:
    # Logits of unit deviation are where confidence starts; the bound keeps separated rows finite.
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


def _at_loss(rows: _Scaled, target: float, high: float) -> float:
    """Where the loss, which falls with τ when there is no error, has come down to ``target``."""
    low = high - 2 * math.log(_BOUND)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rows.pass_over(math.exp(middle))[0] > target else (low, middle)
        if high - low < 1e-9:
            break
    return 0.5 * (low + high)
