"""Small networks that are started and trained from a generator of their own, one or several side by side."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

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
    """``nn.Dropout`` by a generator, which is there for the time of training."""

    def __init__(self, share: float, generator: torch.Generator | None) -> None:
        super().__init__()
        self.share, self.generator = share, generator

    def forward(self, x: Tensor) -> Tensor:
        """In training, each value is zero with this probability, and the others are larger by as much."""
        if not self.training or not self.share:
            return x
        kept = torch.empty_like(x).bernoulli_(1 - self.share, generator=self.generator)
        return x * kept / max(1 - self.share, 1e-30)


class Layers:
    """Makes layers for one network, or for ``members`` of them side by side, from one generator.

    Args:
        generator: draws the weights; torch's own is neither used nor changed.
        members: how many networks; None for one without an axis for members.
    """

    def __init__(self, generator: torch.Generator, members: int | None = None) -> None:
        self.generator, self.members = generator, members

    def linear(self, inputs: int, outputs: int) -> nn.Linear | Stacked:
        """A layer that starts as ``nn.Linear`` does."""
        bound = 1 / math.sqrt(inputs)
        return self._drawn(inputs, outputs, bound, bound)

    def glorot(self, inputs: int, outputs: int) -> nn.Linear | Stacked:
        """A layer with Glorot's weights and no bias to begin with."""
        return self._drawn(inputs, outputs, math.sqrt(6 / (inputs + outputs)), 0.0)

    def dropout(self, share: float) -> Dropout:
        """A layer that leaves out this share of values, drawn by the same generator."""
        return Dropout(share, self.generator)

    @torch.no_grad()
    def _drawn(self, inputs: int, outputs: int, weight: float, bias: float) -> nn.Linear | Stacked:
        layer: nn.Linear | Stacked
        if self.members is None:
            layer = skip_init(nn.Linear, inputs, outputs)
        else:
            layer = Stacked(inputs, outputs, self.members)
        layer.weight.uniform_(-weight, weight, generator=self.generator)
        layer.bias.uniform_(-bias, bias, generator=self.generator)
        return layer


class Autoencoder(nn.Module):
    """An encoder, a decoder, and a likelihood of what is rebuilt with a scale that is read off the row."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, loss_fn: LikelihoodLoss) -> None:
        super().__init__()
        self.encoder, self.decoder, self.loss_fn = encoder, decoder, loss_fn

    @property
    def members(self) -> int | None:
        """How many networks are side by side; None for one without an axis of its own."""
        stacked = [own for own in self.modules() if isinstance(own, Stacked)]
        return len(stacked[0].weight) if stacked else None

    def rebuilt(self, x: Tensor) -> Tensor:
        """Rows through the code and back."""
        found: Tensor = self.decoder(self.encoder(x))
        return found

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        """The mean NLL."""
        loss: Tensor = self.loss_fn(self.rebuilt(x), x, features=x, sample_weight=weight)
        return loss
