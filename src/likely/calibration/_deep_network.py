"""Deep Scaling's core: five small networks, each trained without a fifth of the rows, for as long as those gain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from likely._rows.blocks import Rows, moments
from likely._rows.contents import contents
from likely._rows.folds import fold_numbers
from likely._solvers.selection import held_out_gain
from likely._solvers.training import train
from likely.calibration._link import LINK

FOLDS = 5
_NUMBERS = 2**23  # at most so many numbers of a table are trained on: a small network needs no more


@dataclass(frozen=True)
class Networks:
    """u of every row: the mean of the five, kept within the range met in the fit."""

    layers: list[Tensor]
    range: tuple[float, float]
    n_iter: int
    gain: float  # the part of it that exceeds the margin, in nats per row

    def __call__(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return _network([layer.to(x) for layer in self.layers], x).mean(0).clamp(*self.range)


class DeepCalibrator:
    """What DeepTemperature and DeepScale share: networks of the standardised source of a row, and their settings."""

    hidden: int
    max_iter: int
    learning_rate: float
    margin: float
    random_state: int

    def _fit_networks(
        self,
        source: Tensor,
        evaluate: Callable[[Tensor], tuple[Tensor, Tensor]],
        weight: NDArray[np.float64],
        ties: NDArray[Any],
        max_iter: int,
    ) -> None:
        """Train on the rows of ``source``; ``evaluate(u)`` returns each row's NLL and its slope in u."""
        rows = Rows(source)
        self.mean_, self.deviation_ = moments(rows, weight)
        folds = fold_numbers(contents(rows, rounded=True), FOLDS, random_state=self.random_state, ties=ties)
        self.networks_ = fit_networks(
            self._standardised(source),
            evaluate,
            torch.as_tensor(weight),
            hidden=self.hidden,
            learning_rate=self.learning_rate,
            max_iter=max_iter,
            margin=self.margin,
            random_state=self.random_state,
            folds=torch.as_tensor(folds),
        )
        self.n_iter_, self.gain_ = self.networks_.n_iter, self.networks_.gain

    def _multiplier(self, source: Tensor) -> Tensor:
        """f(u) of every row, by which its scale or its inverse temperature differs from the global one."""
        if self.n_iter_ == 0:
            return source.new_ones(len(source))
        multiplier: Tensor = LINK(self.networks_(self._standardised(source)))
        return multiplier

    def _standardised(self, source: Tensor) -> Tensor:
        mean, deviation = torch.as_tensor(self.mean_).to(source), torch.as_tensor(self.deviation_).to(source)
        return ((source - mean) / deviation).float()


def fit_networks(
    x: Tensor,
    evaluate: Callable[[Tensor], tuple[Tensor, Tensor]],
    weight: Tensor,
    *,
    hidden: int,
    learning_rate: float,
    max_iter: int,
    margin: float,
    random_state: int,
    folds: Tensor,
) -> Networks:
    """Train on standardised features; ``evaluate(u)`` returns each row's NLL and its slope in u.

    The last layer starts at zero, and so does u: that is the base model. The number of steps is the one of greatest
    gain over it on the rows left out, less ``margin`` standard errors of the paired difference: where no gain is
    sure it is zero, and the further the networks stray, the surer a gain has to be. ``folds`` has the number of the
    network that must not see a row.
    """
    d = x.shape[1]
    random = torch.Generator().manual_seed(random_state)
    out = ((torch.arange(FOLDS)[:, None] == folds) * weight.cpu()).to(x)  # a row's weight where it is left out
    kept = weight.to(x) - out
    start = [
        torch.randn(FOLDS, d, hidden, generator=random) / math.sqrt(d),
        torch.randn(FOLDS, 1, hidden, generator=random),
        torch.zeros(FOLDS, hidden, 1),
        torch.zeros(FOLDS, 1, 1),
    ]
    layers = nn.ParameterList(layer.to(x) for layer in start)
    at_start: list[Tensor] = []
    seen: list[Tensor] = []  # u and its slope, which the judge leaves for the step that follows

    def judge() -> Tensor:
        with torch.enable_grad():
            u = _network(layers, x)
        nll, slope = (torch.stack(parts) for parts in zip(*map(evaluate, u.detach()), strict=True))
        seen[:] = u, (slope * kept / kept.sum()).to(u)
        held = (nll * (out > 0)).double().sum(0)
        at_start[:] = at_start or [held]
        gain = held_out_gain(at_start[0] - held, weight)
        return torch.tensor([-gain.sure(margin)], dtype=torch.float64)

    def loss(step: int) -> Tensor:
        u, slope = seen
        return (u * slope).sum()

    history = train(
        loss,
        layers,
        torch.optim.Adam(layers, lr=learning_rate),
        max_steps=max_iter,
        judge=judge,
        members=[list(layers)],
        every=1,
        patience=max(20, max_iter // 5),
        seed=random_state,
    )
    answer = [layer.detach() for layer in layers]
    u = _network(answer, x).mean(0)
    gain = -float(history.best) / float(weight.sum())
    return Networks(answer, (float(u.min()), float(u.max())), int(history.best_step), gain)


def few(n: int, width: int) -> slice:
    """Rows to train on, spread over a table that may be sorted: all of them unless there are very many."""
    return slice(0, n, max(1, -(-n * width // _NUMBERS)))


def _network(layers: Iterable[Tensor], x: Tensor) -> Tensor:
    first, shift, last, bias = layers
    return (torch.tanh(x @ first + shift) @ last + bias)[..., 0]
