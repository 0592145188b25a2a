"""The training loop: steps of an optimizer, progress, and the state of the lowest held-out loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from likely._numerics.random import Seeded

Loss = Callable[[int], Tensor]
Judge = Callable[[], Tensor]


@dataclass(frozen=True)
class Progress:
    """The state of a training run, which callbacks and progress bars receive.

    Args:
        step: number of steps taken.
        max_steps: maximum number of steps.
        loss: training loss of the last step.
        held_out: held-out loss of each network, shape (members,); empty where no rows are held out.

    Example:
        >>> from likely.tabular import Progress
        >>> Progress(step=20, max_steps=100, loss=0.5, held_out=(0.7, 0.8)).step
        20
    """

    step: int
    max_steps: int
    loss: float
    held_out: tuple[float, ...]  # one per member; empty where no rows are held out


Callbacks = Sequence[Callable[[Progress], Any]]  # training ends when one returns True


@dataclass
class History:
    """The lowest held-out loss of every member, its step, and the number of steps taken."""

    best: Tensor
    best_step: Tensor
    step: int = 0
    best_states: list[list[Tensor]] = field(default_factory=list, repr=False)


def train(
    loss: Loss,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    max_steps: int,
    judge: Judge | None = None,
    members: Sequence[Sequence[Tensor]] = ((),),
    every: int = 20,
    patience: int | None = None,
    seed: int = 0,
    callbacks: Callbacks = (),
) -> History:
    """Minimise ``loss(step)`` by steps of ``optimizer``; leave every member in its state of the lowest held-out loss.

    What is random in a step depends only on ``seed`` and the step's number, whatever other threads draw; torch's global
    generator is neither read nor changed (:mod:`likely._numerics.random`).

    Example:
        >>> import torch
        >>> from likely._solvers.training import train
        >>> line = torch.nn.Linear(1, 1)
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> error = lambda step: (line(x) - 3 * x).square().mean()
        >>> history = train(error, line, torch.optim.Adam(line.parameters(), lr=0.1), max_steps=200)
        >>> history.step, round(line.weight.item(), 2)
        (200, 3.0)
    """
    unjudged = torch.full((len(members),), torch.inf)
    history = History(unjudged, torch.zeros(len(members), dtype=torch.long))
    callbacks = list(callbacks)
    held_out, value = unjudged, torch.tensor(torch.nan)
    draws = Seeded(seed)
    for step in range(max_steps + 1):
        history.step = step
        looking = step % every == 0 or step == max_steps
        draws.seed((seed + 1_000_003 * step) % 2**63)
        if looking and judge is not None:
            with draws:
                held_out = _judged(judge, members, history)
            if patience is not None and step - int(history.best_step.max()) > patience:
                break
        if looking and step:
            report = Progress(step, max_steps, float(value), tuple(held_out.tolist()) if judge else ())
            results = [callback(report) for callback in callbacks]  # all are called, even if one ends the training
            if any(results):
                break
        if step == max_steps:
            break
        optimizer.zero_grad()
        with draws:
            value = loss(step)
            value.backward()
        if not draws.drew:  # nothing was drawn without an explicit generator
            draws.only_asked()
        optimizer.step()
        value = value.detach()
    if judge is not None:
        _restore_best(members, history)
    return history


def fit_constants(loss_fn: nn.Module, *losses: Callable[[], Tensor]) -> float:
    """Minimise the sum of ``losses`` over the parameters of ``loss_fn``, in place and in double; return the minimum.

    Each loss is computed, differentiated and released before the next, so that many rows need not be held at once.

    Example:
        >>> import torch, likely
        >>> loss_fn, residuals = likely.NormalLoss(), torch.tensor([3.0, -3.0]).double()
        >>> minimum = fit_constants(loss_fn, lambda: loss_fn(residuals, torch.zeros(2).double()))
        >>> round(loss_fn.scale.value.item(), 6)
        3.0
    """
    if not any(True for _ in loss_fn.parameters()):
        return sum(loss().item() for loss in losses)
    search = {"max_iter": 200, "line_search_fn": "strong_wolfe", "tolerance_change": 1e-13}
    parameters = list(loss_fn.double().parameters())
    optimizer = torch.optim.LBFGS(parameters, **search)  # type: ignore[arg-type]
    lowest, best = float("inf"), [parameter.detach().clone() for parameter in parameters]

    def closure() -> float:
        nonlocal lowest, best
        optimizer.zero_grad()
        total = 0.0
        for loss in losses:
            value = loss()
            value.backward()
            total += value.item()
        if -float("inf") < total < lowest:
            lowest, best = total, [parameter.detach().clone() for parameter in parameters]
        return total

    optimizer.step(closure)
    if not all(parameter.isfinite().all() for parameter in parameters):
        # A likelihood without a maximum, as of residuals that are all zero: some line searches diverge.
        with torch.no_grad():
            for parameter, good in zip(parameters, best, strict=True):
                parameter.copy_(good)
    return closure()


@torch.no_grad()
def _judged(judge: Judge, members: Sequence[Sequence[Tensor]], history: History) -> Tensor:
    """Return the held-out losses; copy the state of members at their lowest so far."""
    held_out = judge().detach().float().cpu()
    if not history.best_states:
        history.best_states = [[tensor.detach().clone() for tensor in tensors] for tensors in members]
    for m in torch.nonzero(held_out < history.best)[:, 0].tolist():
        history.best[m], history.best_step[m] = held_out[m], history.step
        for best, tensor in zip(history.best_states[m], members[m], strict=True):
            best.copy_(tensor)
    return held_out


@torch.no_grad()
def _restore_best(members: Sequence[Sequence[Tensor]], history: History) -> None:
    for tensors, lowest in zip(members, history.best_states, strict=True):
        for tensor, best in zip(tensors, lowest, strict=True):
            tensor.copy_(best)
    if not bool(history.best.isfinite().all()):
        raise FloatingPointError(
            "training diverged: the held-out loss was never finite. Lower the learning rate or look for extreme values "
            "in the data"
        )
