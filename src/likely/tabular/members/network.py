"""Networks, one per fold, trained at once; each starts as the linear model of its fold."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from likely._numerics.random import Seeded
from likely._solvers.training import train
from likely._typing import Array
from likely.tabular.members.linear import fit_lines
from likely.tabular.members.task import StackMember, Task, View, loss_of
from likely.tabular.networks.modules import MLP, Copies, MemberLinear, tensors_of
from likely.tabular.networks.rows import Batches

HIDDEN, STEPS = (128, 128), 600
MANY_CLASSES = 5  # number of classes from which on networks are wider and learn for longer:
MANY_HIDDEN, MANY_STEPS = (256, 256), 1200
BATCH, RATE, DECAY = 256, 0.01, 0.02
CLASS_BATCH, CLASS_DROPOUT = 128, 0.2  # for classes
WARM = 30  # steps over which the learning rate rises
EVERY = 50  # steps between evaluations on held-out rows
JUDGED = 2000  # largest number of held-out rows per fold for that


@dataclass(frozen=True)
class Network:
    """One fold's network."""

    module: nn.Module

    @torch.no_grad()
    def __call__(self, view: View) -> Array:
        """Predict, in the link's units, of shape (rows, outputs)."""
        chunks = [self._forward(x) for x in view.smooth.split(8192)]
        return np.asarray(torch.cat(chunks).double().cpu())

    def _forward(self, x: Tensor) -> Tensor:
        output = self.module(x)
        return (output[0] if isinstance(output, tuple) else output).reshape(len(x), -1)


def fit_networks(task: Task, make: Callable[[], nn.Module] | None = None) -> StackMember:
    """Train by AdamW with a learning rate that falls to zero; each ends in its state of lowest held-out loss."""
    smooth = task.table.smooth
    x = torch.stack(tuple(smooth)) if smooth[0] is not smooth[-1] else smooth[0][None]
    n, device, models = len(task.folds), x.device, task.n_folds
    steps = MANY_STEPS if task.outputs >= MANY_CLASSES else STEPS
    target = torch.as_tensor(task.target, dtype=torch.float32, device=device)
    weight = torch.as_tensor(task.weight, dtype=torch.float32, device=device)
    folds = torch.as_tensor(task.folds, device=device)
    model_number = torch.arange(models, device=device)
    loss_fn, batches = (
        loss_of(task.link),
        Batches(n, CLASS_BATCH if task.link == "softmax" else BATCH, task.random_state),
    )
    net = _start(task, x.shape[-1], make).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY, betas=(0.9, 0.99), fused=True)

    def losses(index: Tensor, counted: Tensor) -> Tensor:
        """Return the loss of each model, of shape (models,), over the rows of the index that ``counted`` weights."""
        prediction = net(x[:, index].expand(models, -1, -1))[0]
        values = loss_fn(prediction.flatten(0, 1), target[index].expand(models, -1, -1).flatten(0, 1)).view(models, -1)
        return (values * counted).sum(1) / counted.sum(1).clamp(min=1e-12)

    def loss(step: int) -> Tensor:
        task.check_time()
        net.train()
        rate = RATE * min(1.0, (step + 1) / WARM) * 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = rate
        index = batches(step).to(device)
        return losses(index, weight[index] * (folds[index] != model_number[:, None])).sum()

    held_out_rows = torch.cat([torch.nonzero(folds == fold)[:JUDGED, 0] for fold in range(models)])

    def judge() -> Tensor:
        net.eval()
        return losses(held_out_rows, weight[held_out_rows] * (folds[held_out_rows] == model_number[:, None]))

    members = tensors_of(net, models)
    train(
        loss, net, optimizer,
        max_steps=steps, judge=judge, members=members, every=EVERY, patience=steps, seed=task.random_state,
    )  # fmt: skip
    net.eval()
    fitted = tuple(Network(_network_of_fold(net, fold).eval()) for fold in range(models))
    out_of_fold = np.empty(task.target.shape)
    for fold, _, held_out in task.splits():
        out_of_fold[held_out] = fitted[fold](task.table.view(fold, held_out))
    return StackMember(fitted, out_of_fold)


def _start(task: Task, inputs: int, make: Callable[[], nn.Module] | None) -> nn.Module:
    """Return the networks before their first step."""
    with Seeded(task.random_state, all_draws=make is not None):
        if make is not None:
            copies = Copies(make, task.n_folds)
            _check(copies, task)
            return copies
        hidden = MANY_HIDDEN if task.outputs >= MANY_CLASSES else HIDDEN
        net = MLP(task.n_folds, inputs, task.outputs, hidden, CLASS_DROPOUT if task.link == "softmax" else 0.0)
    lines: Sequence[Any] = task.lines or fit_lines(replace(task, best=None)).models
    with torch.no_grad():
        net.line.weight.copy_(torch.from_numpy(np.stack([line.coef for line in lines])))
        net.line.bias.copy_(torch.from_numpy(np.stack([line.bias for line in lines]))[:, None])
    return net


@torch.no_grad()
def _check(net: nn.Module, task: Task) -> None:
    """Raise an error if a module cannot read the inputs, or returns the wrong number of outputs."""
    inputs = task.table.smooth[0][:2].cpu()
    try:
        returned = net.eval()(inputs)[0].shape[-1]
    except RuntimeError as problem:
        width = f"{inputs.shape[1]} numbers (a category has several, a gap one more)"
        raise ValueError(f"the module in model cannot read rows of {width}: {problem}") from None
    if returned != task.outputs:
        raise ValueError(f"the module in model returns {returned} numbers per row, and {task.outputs} are needed")


@torch.no_grad()
def _network_of_fold(net: nn.Module, fold: int) -> nn.Module:
    """Return the network of one fold as a module of its own."""
    if isinstance(net, Copies):
        return net.copies[fold]
    assert isinstance(net, MLP)
    single = copy.deepcopy(net)
    for part in single.modules():
        if isinstance(part, MemberLinear):
            part.weight = nn.Parameter(part.weight[fold : fold + 1].clone())
            part.bias = nn.Parameter(part.bias[fold : fold + 1].clone())
    return single
