"""Several networks side by side, each with parameters of its own: the first axis counts them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from likely._random import CheapDropout, generator


class MemberLinear(nn.Module):
    """A linear map for each member, in one batched product."""

    def __init__(self, members: int, inputs: int, outputs: int, gain: float = 1.0) -> None:
        super().__init__()
        start = torch.randn(members, inputs, outputs, generator=generator())
        self.weight = nn.Parameter(start * (gain / math.sqrt(max(inputs, 1))))
        self.bias = nn.Parameter(torch.zeros(members, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(rows, inputs), the same for all, or (members, rows, inputs) to (members, rows, outputs)."""
        return torch.baddbmm(self.bias, x if x.ndim == 3 else x.expand(len(self.weight), *x.shape), self.weight)


class Hidden(nn.Sequential):
    """Hidden layers, and how many numbers they end in."""

    def __init__(self, members: int, inputs: int, hidden: Sequence[int], dropout: float) -> None:
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise((inputs, *hidden)):
            layers += [MemberLinear(members, fan_in, fan_out, gain=math.sqrt(2)), nn.SiLU(), CheapDropout(dropout)]
        super().__init__(*layers)
        self.width = (inputs, *hidden)[-1]
        if layers:  # bends spread over the inputs: with all of them at zero the units are too much alike
            nn.init.normal_(layers[0].bias, std=0.5, generator=generator())  # type: ignore[arg-type]


class MLP(nn.Module):
    """Hidden layers beside a line: prediction = line(x) + network(x), whose last layer starts at zero.

    Started there the networks *are* linear models, and bend only as far as the rows ask for it: on small tables that
    is most of the way. Without hidden layers there is the line alone.
    """

    def __init__(self, members: int, inputs: int, outputs: int, hidden: Sequence[int], dropout: float) -> None:
        super().__init__()
        self.line = MemberLinear(members, inputs, outputs, gain=0.0)
        self.body = Hidden(members, inputs, hidden, dropout)
        self.last = MemberLinear(members, self.body.width, outputs, gain=0.0) if hidden else None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions (members, rows, outputs) and features (members, rows, width): the last layer, or the inputs."""
        if self.last is None:
            return self.line(x), x.expand(len(self.line.weight), *x.shape[-2:])
        features = self.body(x)
        return self.line(x) + self.last(features), features


class Heads(nn.Module):
    """Features that likelihood parameters are read off: the inputs, and a hidden layer beside them."""

    def __init__(self, members: int, inputs: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.body = Hidden(members, inputs, (hidden,), dropout)
        self.width = inputs + hidden

    def forward(self, x: Tensor) -> Tensor:
        """(members, rows, width) of inputs (rows, inputs)."""
        features = self.body(x)
        return torch.cat([x.expand(len(features), *x.shape[-2:]), features], -1)


class Copies(nn.Module):
    """Any module, once for each member. It returns predictions, or predictions and features."""

    def __init__(self, make: Callable[[], nn.Module], members: int) -> None:
        super().__init__()
        self.copies = nn.ModuleList(make() for _ in range(members))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions (members, rows, outputs) and features (members, rows, width): the inputs, unless it has some."""
        pairs = []
        for module, own in zip(self.copies, x if x.ndim == 3 else [x] * len(self.copies), strict=True):
            output = module(own)
            prediction, features = output if isinstance(output, tuple) else (output, own)
            pairs.append((prediction.reshape(len(own), -1), features))
        predictions, features = zip(*pairs, strict=True)
        return torch.stack(predictions), torch.stack(features)


def fresh(module: nn.Module) -> nn.Module:
    """A copy of a module with its parameters drawn anew, where its layers know how to."""
    own = copy.deepcopy(module)
    for layer in own.modules():
        reset = getattr(layer, "reset_parameters", None)
        if callable(reset):
            reset()
    return own


def tensors_of(module: nn.Module, members: int) -> list[list[Tensor]]:
    """Each member's tensors, as views: all of its own copy of a module, its rows of every other parameter."""
    lists: list[list[Tensor]] = [[] for _ in range(members)]
    for part in module.modules():
        if isinstance(part, Copies):
            for own, single in zip(lists, part.copies, strict=True):
                own += [*single.parameters(), *single.buffers()]
    copied = {id(tensor) for own in lists for tensor in own}
    for tensor in module.parameters():
        if id(tensor) not in copied:
            for m, own in enumerate(lists):
                own.append(tensor[m])
    return lists
