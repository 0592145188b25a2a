"""Several networks in one module: the first axis of each parameter is the network."""

import copy
import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from likely._numerics.random import CheapDropout, generator


class MemberLinear(nn.Module):
    """One linear map per member, in one batched product."""

    def __init__(self, members: int, inputs: int, outputs: int, gain: float = 1.0) -> None:
        super().__init__()
        start = torch.randn(members, inputs, outputs, generator=generator())
        self.weight = nn.Parameter(start * (gain / math.sqrt(max(inputs, 1))))
        self.bias = nn.Parameter(torch.zeros(members, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map (members, rows, inputs), or (rows, inputs) shared by all members, to (members, rows, outputs)."""
        return torch.baddbmm(self.bias, x if x.ndim == 3 else x.expand(len(self.weight), *x.shape), self.weight)


class Hidden(nn.Sequential):
    """Hidden layers; ``width`` is the number of units in the last."""

    def __init__(self, members: int, inputs: int, hidden: Sequence[int], dropout: float) -> None:
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise((inputs, *hidden)):
            layers += [MemberLinear(members, fan_in, fan_out, gain=math.sqrt(2)), nn.SiLU(), CheapDropout(dropout)]
        super().__init__(*layers)
        self.width = (inputs, *hidden)[-1]
        if layers:  # random biases: with all of them at zero, the units are too similar
            nn.init.normal_(layers[0].bias, std=0.5, generator=generator())  # type: ignore[arg-type]


class MLP(nn.Module):
    """A line plus hidden layers: prediction = line(x) + network(x), whose last layer starts at zero.

    At the start the networks *are* linear models, and become nonlinear only as far as the rows require: on small tables
    that is most of the way. Without hidden layers there is only the line.
    """

    def __init__(self, members: int, inputs: int, outputs: int, hidden: Sequence[int], dropout: float) -> None:
        super().__init__()
        self.line = MemberLinear(members, inputs, outputs, gain=0.0)
        self.body = Hidden(members, inputs, hidden, dropout)
        self.last = MemberLinear(members, self.body.width, outputs, gain=0.0) if hidden else None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return predictions (members, rows, outputs) and features (members, rows, width): last layer, or inputs."""
        if self.last is None:
            return self.line(x), x.expand(len(self.line.weight), *x.shape[-2:])
        features = self.body(x)
        return self.line(x) + self.last(features), features


class Heads(nn.Module):
    """Features for likelihood parameters: the inputs and a hidden layer."""

    def __init__(self, members: int, inputs: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.body = Hidden(members, inputs, (hidden,), dropout)
        self.width = inputs + hidden

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs (rows, inputs) to features (members, rows, width)."""
        features = self.body(x)
        return torch.cat([x.expand(len(features), *x.shape[-2:]), features], -1)


class Copies(nn.Module):
    """One copy per member of any module that returns predictions, or predictions and features."""

    def __init__(self, make: Callable[[], nn.Module], members: int) -> None:
        super().__init__()
        self.copies = nn.ModuleList(make() for _ in range(members))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return predictions (members, rows, outputs) and features (members, rows, width): the module's, or inputs."""
        pairs = []
        for module, inputs in zip(self.copies, x if x.ndim == 3 else [x] * len(self.copies), strict=True):
            output = module(inputs)
            prediction, features = output if isinstance(output, tuple) else (output, inputs)
            pairs.append((prediction.reshape(len(inputs), -1), features))
        predictions, features = zip(*pairs, strict=True)
        return torch.stack(predictions), torch.stack(features)


def fresh(module: nn.Module) -> nn.Module:
    """Return a copy of a module, with the parameters of every layer drawn anew that has ``reset_parameters``."""
    copied = copy.deepcopy(module)
    for layer in copied.modules():
        reset = getattr(layer, "reset_parameters", None)
        if callable(reset):
            reset()
    return copied


def tensors_of(module: nn.Module, members: int) -> list[list[Tensor]]:
    """Return each member's tensors: all tensors of its copy in :class:`Copies`, views of its rows in all others."""
    lists: list[list[Tensor]] = [[] for _ in range(members)]
    for part in module.modules():
        if isinstance(part, Copies):
            for tensors, single in zip(lists, part.copies, strict=True):
                tensors += [*single.parameters(), *single.buffers()]
    copied = {id(tensor) for tensors in lists for tensor in tensors}
    for tensor in module.parameters():
        if id(tensor) not in copied:
            for m, tensors in enumerate(lists):
                tensors.append(tensor[m])
    return lists
