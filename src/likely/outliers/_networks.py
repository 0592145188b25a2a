"""Small networks that draw from the generator of their fit (:mod:`likely._random`), one or several side by side."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from likely._random import generator
from likely.likelihoods import LikelihoodLoss


class Stacked(nn.Module):
    """A linear layer for each of several members: (members, rows, inputs) to (members, rows, outputs)."""

    def __init__(self, inputs: int, outputs: int, members: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, outputs, inputs))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Each member's rows through its layer."""
        return torch.baddbmm(self.bias, x, self.weight.mT)


class Dropout(nn.Module):
    """``nn.Dropout`` by the generator of the fit."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """In training, each value is zero with this probability, and the others are larger by as much."""
        if not self.training or not self.share:
            return x
        mask = torch.empty_like(x).bernoulli_(1 - self.share, generator=generator())
        return x * mask / max(1 - self.share, 1e-30)


def linear(inputs: int, outputs: int, members: int | None) -> nn.Linear | Stacked:
    """A layer that starts as ``nn.Linear`` does; one for each of several members, if that is a number."""
    bound = 1 / math.sqrt(inputs)
    return _drawn(inputs, outputs, members, bound, bound)


def glorot(inputs: int, outputs: int, members: int | None) -> nn.Linear | Stacked:
    """A layer with Glorot's weights and no bias to begin with."""
    return _drawn(inputs, outputs, members, math.sqrt(6 / (inputs + outputs)), 0.0)


@torch.no_grad()
def _drawn(inputs: int, outputs: int, members: int | None, weight: float, bias: float) -> nn.Linear | Stacked:
    layer = skip_init(nn.Linear, inputs, outputs) if members is None else Stacked(inputs, outputs, members)
    layer.weight.uniform_(-weight, weight, generator=generator())
    layer.bias.uniform_(-bias, bias, generator=generator())
    return layer


class Autoencoder(nn.Module):
    """An encoder, a decoder, and a likelihood of what is rebuilt with a scale that is read off the row."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, loss_fn: LikelihoodLoss) -> None:
        super().__init__()
        self.encoder, self.decoder, self.loss_fn = encoder, decoder, loss_fn

    @property
    def members(self) -> int | None:
        """How many networks are side by side; None for one without an axis of its own."""
        stacked = [module for module in self.modules() if isinstance(module, Stacked)]
        return len(stacked[0].weight) if stacked else None

    def rebuilt(self, x: Tensor) -> Tensor:
        """Rows through the code and back."""
        return self.decoder(self.encoder(x))

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        """The mean NLL."""
        return self.loss_fn(self.rebuilt(x), x, features=x, sample_weight=weight)
