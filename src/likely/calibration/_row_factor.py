"""The factor f(u) by which a row's scale or inverse temperature differs, with u linear or from small networks.

Deep Scaling uses five networks, each trained without a fifth of the rows, for as long as the loss on those improves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from likely._numerics.significance import held_out_gain
from likely._rows.blocks import Rows, moments
from likely._rows.contents import contents, fold_numbers
from likely._solvers.evidence import Evaluate
from likely._solvers.training import train
from likely._typing import Array
from likely.constraints import ShiftedSoftplus

LINK = ShiftedSoftplus(0.2)  # f, which is one at zero
FOLDS = 5
_NUMBERS = 2**23  # maximum size of the training table: a small network needs no more


class Networks(NamedTuple):
    """Networks of one hidden layer; u of a row is the mean of the five, clipped to the range seen in the fit."""

    first: Array  # of shape (networks, columns, hidden)
    shift: Array  # of shape (networks, hidden)
    last: Array  # of shape (networks, hidden)
    bias: Array  # of shape (networks,)
    range: Array  # of shape (2,)

    def __call__(self, x: Tensor) -> Tensor:
        """Return u of rows of standardised numbers."""
        return _outputs([torch.as_tensor(layer).to(x) for layer in self[:4]], x).mean(0).clamp(*self.range)


@dataclass(kw_only=True, eq=False, repr=False)
class DeepCalibrator:
    """What DeepTemperature and DeepScale share: networks on the standardised inputs of a row, and their settings."""

    hidden: int = 32
    max_iter: int = 500
    learning_rate: float = 0.003
    margin: float = 2.0
    random_state: int = 0

    def _fit_factor(self, source: Rows, evaluate: Evaluate, weight: Array, ties: Any, informed: bool = True) -> None:
        """Train on the rows of ``source``, all of them unless there are very many; not at all unless ``informed``.

        The last layer starts at zero, and so does u: that is the base model. The number of steps is the one of greatest
        gain over it on the rows left out, less ``margin`` standard errors of the paired difference; it is zero where no
        gain exceeds them.
        """
        size, max_iter = len(source) * max(self.hidden, source.shape[1]), self.max_iter if informed else 0
        thinned = slice(0, len(source), max(1, -(-size // _NUMBERS)))  # spread over a table that may be sorted
        numbers, weight = source[thinned], np.asarray(weight[thinned])
        rows, counts = Rows(numbers), torch.as_tensor(weight)
        self.mean_, self.deviation_ = moments(rows, weight)
        x = self._standardised(numbers)
        held_out = self._held_out_weights(rows, torch.as_tensor(ties[thinned]).cpu().numpy(), counts).to(x)
        training = counts.to(x) - held_out
        layers = self._start(x)
        at_start: list[Tensor] = []
        next_step: list[Tensor] = []  # u and its slope, which the judge has computed anyway

        def judge() -> Tensor:
            with torch.enable_grad():
                u = _outputs(list(layers), x)
            evaluated = (evaluate(thinned, of_network)[:2] for of_network in u.detach())
            nll, slope = (torch.stack(parts) for parts in zip(*evaluated, strict=True))
            next_step[:] = u, (slope * training / training.sum()).to(u)
            held_out_nll = (nll * (held_out > 0)).double().sum(0)
            at_start[:] = at_start or [held_out_nll]
            gain = held_out_gain((at_start[0] - held_out_nll).cpu(), counts)
            return torch.tensor([-gain.sure(self.margin)], dtype=torch.float64)

        history = train(
            lambda step: (next_step[0] * next_step[1]).sum(),
            layers,
            torch.optim.Adam(layers, lr=self.learning_rate),
            max_steps=max_iter,
            judge=judge,
            members=[list(layers)],
            every=1,
            patience=max(20, max_iter // 5),
            seed=self.random_state,
        )
        self.n_iter_ = int(history.best_step)
        self.gain_ = -float(history.best) / float(weight.sum())  # in nats per row
        weights = [layer.detach() for layer in layers]
        u = _outputs(weights, x).mean(0)
        ends = np.array([float(u.min()), float(u.max())])
        first, shift, last, bias = (layer.cpu().numpy() for layer in weights)
        self.networks_ = Networks(first, shift, last, bias, ends) if self.n_iter_ else None

    def _held_out_weights(self, rows: Rows, ties: Array, counts: Tensor) -> Tensor:
        """Return, for each network, the weights of the rows that it is trained without; zero for all others."""
        folds = fold_numbers(contents(rows), FOLDS, random_state=self.random_state, ties=ties)
        return (torch.arange(FOLDS)[:, None] == torch.as_tensor(folds)) * counts

    def _start(self, x: Tensor) -> nn.ParameterList:
        columns, random = x.shape[1], torch.Generator().manual_seed(self.random_state)
        first = torch.randn(FOLDS, columns, self.hidden, generator=random) / math.sqrt(columns)
        shift = torch.randn(FOLDS, self.hidden, generator=random)
        start = (first, shift, torch.zeros(FOLDS, self.hidden), torch.zeros(FOLDS))
        return nn.ParameterList(layer.to(x) for layer in start)

    def _multiplier(self, source: Tensor) -> Tensor:
        """Return f(u) of each row, by which its scale or its inverse temperature differs from the global one."""
        if self.networks_ is None:
            return torch.ones_like(source[:, 0])
        return LINK(self.networks_(self._standardised(source)))

    def _standardised(self, source: Tensor) -> Tensor:
        mean, deviation = torch.as_tensor(self.mean_).to(source), torch.as_tensor(self.deviation_).to(source)
        return ((source - mean) / deviation).float()


def _outputs(layers: Sequence[Tensor], x: Tensor) -> Tensor:
    first, shift, last, bias = layers
    return (torch.tanh(x @ first + shift[:, None]) @ last[..., None])[..., 0] + bias[:, None]
