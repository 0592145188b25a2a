"""Networks, one for each fold, all trained at once: a bent line that starts as the line of its fold."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from likely._random import Seeded
from likely._solvers.training import train
from likely._typing import Array
from likely.tabular._members import MLP, Copies, MemberLinear, tensors_of
from likely.tabular._rows import Batches
from likely.tabular.members._glm import loss_of
from likely.tabular.members._task import Member, Task, View
from likely.tabular.members.linear import fit_lines

HIDDEN = (128, 128)
STEPS, BATCH, RATE, DECAY = 600, 256, 0.01, 0.02
WARM = 30  # steps until the learning rate is whole
EVERY = 50  # steps between looks at the rows left out
JUDGED = 2000  # rows of a fold that are looked at


@dataclass(frozen=True)
class Network:
    """One fold's network."""

    module: nn.Module

    @torch.no_grad()
    def __call__(self, view: View) -> Array:
        """Predictions (rows, outputs)."""
        said = [self._some(x) for x in view.smooth.split(8192)]
        return np.asarray(torch.cat(said).double().cpu())

    def _some(self, x: Tensor) -> Tensor:
        output = self.module(x)
        return (output[0] if isinstance(output, tuple) else output).reshape(len(x), -1)


def fit_networks(task: Task, make: Callable[[], nn.Module] | None = None) -> Member:
    """Adam down the loss with a learning rate that falls to zero; each fold keeps its best state."""
    smooth = task.table.smooth
    x = torch.stack(tuple(smooth)) if smooth[0] is not smooth[-1] else smooth[0][None]
    n, device, models = len(task.folds), x.device, task.n_folds
    target = torch.as_tensor(task.target, dtype=torch.float32, device=device)
    weight = torch.as_tensor(task.weight, dtype=torch.float32, device=device)
    folds = torch.as_tensor(task.folds, device=device)
    own = torch.arange(models, device=device)
    loss_fn, batches = loss_of(task.link), Batches(n, BATCH, task.random_state)
    net = _start(task, x.shape[-1], make).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY, betas=(0.9, 0.99), fused=True)

    def losses(index: Tensor, counted: Tensor) -> Tensor:
        """The loss of each model over its own rows of the index, (models,)."""
        said = net(x[:, index].expand(models, -1, -1))[0]
        each = loss_fn(said.flatten(0, 1), target[index].expand(models, -1, -1).flatten(0, 1)).view(models, -1)
        return (each * counted).sum(1) / counted.sum(1).clamp(min=1e-12)

    def loss(step: int) -> Tensor:
        task.check_time()
        net.train()
        rate = RATE * min(1.0, (step + 1) / WARM) * 0.5 * (1 + math.cos(math.pi * step / STEPS))
        for group in optimizer.param_groups:
            group["lr"] = rate
        index = batches(step).to(device)
        return losses(index, weight[index] * (folds[index] != own[:, None])).sum()

    looked_at = torch.cat([torch.nonzero(folds == fold)[:JUDGED, 0] for fold in range(models)])

    def judge() -> Tensor:
        net.eval()
        return losses(looked_at, weight[looked_at] * (folds[looked_at] == own[:, None]))

    members = tensors_of(net, models)
    train(
        loss, net, optimizer,
        max_steps=STEPS, judge=judge, members=members, every=EVERY, patience=STEPS, seed=task.random_state,
    )  # fmt: skip
    net.eval()
    fitted = tuple(Network(_alone(net, fold).eval()) for fold in range(models))
    blind = np.empty(task.target.shape)
    for fold, _, held in task.splits():
        blind[held] = fitted[fold](task.table.view(fold, held))
    return Member(fitted, blind)


def _start(task: Task, inputs: int, make: Callable[[], nn.Module] | None) -> nn.Module:
    """Networks before their first step."""
    with Seeded(task.random_state, all_draws=make is not None):
        if make is not None:
            copies = Copies(make, task.n_folds)
            _check(copies, task)
            return copies
        net = MLP(task.n_folds, inputs, task.outputs, HIDDEN, 0.0)
    lines: Sequence[Any] = fit_lines(replace(task, best=None)).models
    with torch.no_grad():
        net.line.weight.copy_(torch.from_numpy(np.stack([line.coef for line in lines])))
        net.line.bias.copy_(torch.from_numpy(np.stack([line.bias for line in lines]))[:, None])
    return net


@torch.no_grad()
def _check(net: nn.Module, task: Task) -> None:
    """Whether a module reads the inputs, and returns as many numbers as there are outputs."""
    inputs = task.table.smooth[0][:2].cpu()
    try:
        returned = net.eval()(inputs)[0].shape[-1]
    except RuntimeError as problem:
        width = f"{inputs.shape[1]} numbers (a category has several, a gap one more)"
        raise ValueError(f"the module in model cannot read rows of {width}: {problem}") from None
    if returned != task.outputs:
        raise ValueError(f"the module in model returns {returned} numbers per row, and {task.outputs} are needed")


@torch.no_grad()
def _alone(net: nn.Module, fold: int) -> nn.Module:
    """The network of one fold."""
    if isinstance(net, Copies):
        return net.copies[fold]
    assert isinstance(net, MLP)
    own = copy.deepcopy(net)
    for part in own.modules():
        if isinstance(part, MemberLinear):
            part.weight = nn.Parameter(part.weight[fold : fold + 1].clone())
            part.bias = nn.Parameter(part.bias[fold : fold + 1].clone())
    return own
