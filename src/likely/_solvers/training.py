"""The one training loop: steps of an optimizer, progress, checkpoints, and the state of the lowest held-out loss."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from likely._files import replacing
from likely._random import Seeded

Loss = Callable[[int], Tensor]
Judge = Callable[[], Tensor]


@dataclass(frozen=True)
class Progress:
    """Where training stands: what callbacks and progress bars receive.

    >>> from likely.tabular import Progress
    >>> Progress(step=20, max_steps=100, loss=0.5, held_out=(0.7, 0.8)).step
    20
    """

    step: int
    max_steps: int
    loss: float
    held_out: tuple[float, ...]  # one per member; empty where no rows are held out


@dataclass
class History:
    """The best held-out loss of every member, the step it was met at, and the steps taken."""

    best: Tensor
    best_step: Tensor
    step: int = 0
    done: bool = False
    kept: list[list[Tensor]] = field(default_factory=list, repr=False)


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
    callbacks: Iterable[Callable[[Progress], Any]] = (),
    checkpoint: Checkpoint | None = None,
) -> History:
    """Take steps of ``optimizer`` down ``loss(step)``; leave every member in its state of the lowest held-out loss.

    ``module`` holds all that learns. ``judge`` returns the held-out loss of each of the ``members``, lists of the
    tensors that are theirs, every so many steps, the start included; training ends when none has improved for
    ``patience`` steps. What is random in a step follows from ``seed`` and the step's number alone, whatever other
    threads draw, so that a run resumed from its ``checkpoint`` goes on as if it had not been stopped; torch's global
    generator is neither read nor moved (:mod:`likely._random`). A callback that returns True ends the training.

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
    if checkpoint is not None:
        checkpoint.resume(module, optimizer, history)
    held, value = unjudged, torch.tensor(torch.nan)
    draws = Seeded(seed)
    for step in range(history.step, max_steps + 1):
        if history.done:
            break
        history.step = step
        looking = step % every == 0 or step == max_steps
        draws.seed((seed + 1_000_003 * step) % 2**63)
        if looking and judge is not None:
            with draws:
                held = _judged(judge, members, history)
            if patience is not None and step - int(history.best_step.max()) > patience:
                break
        if looking and step:
            report = Progress(step, max_steps, float(value), tuple(held.tolist()) if judge else ())
            answers = [callback(report) for callback in callbacks]  # all of them, whoever says stop
            if any(answers):
                break
            if checkpoint is not None:
                checkpoint.save(module, optimizer, history)
        if step == max_steps:
            break
        optimizer.zero_grad()
        with draws:
            value = loss(step)
            value.backward()
        if not draws.drew:  # nothing but what asks for its generator
            draws.only_asked()
        optimizer.step()
        value = value.detach()
    if judge is not None:
        _restore_best(members, history)
    history.done = True
    if checkpoint is not None:
        checkpoint.save(module, optimizer, history)
    return history


def fit_constants(loss_fn: nn.Module, *losses: Callable[[], Tensor]) -> float:
    """Minimise the sum of ``losses`` over the few parameters of ``loss_fn``, in place and in double; the minimum.

    Each of them is computed, differentiated and forgotten before the next: many rows need not be held at once.

    >>> import torch, likely
    >>> loss_fn, residuals = likely.NormalLoss(), torch.tensor([3.0, -3.0]).double()
    >>> minimum = fit_constants(loss_fn, lambda: loss_fn(residuals, torch.zeros(2).double()))
    >>> round(loss_fn.scale.value.item(), 6)
    3.0
    """
    if not any(True for _ in loss_fn.parameters()):
        return sum(loss().item() for loss in losses)
    search = {"max_iter": 200, "line_search_fn": "strong_wolfe", "tolerance_change": 1e-13}
    own = list(loss_fn.double().parameters())
    optimizer = torch.optim.LBFGS(own, **search)  # type: ignore[arg-type]
    lowest, best = float("inf"), [parameter.detach().clone() for parameter in own]

    def closure() -> float:
        nonlocal lowest, best
        optimizer.zero_grad()
        total = 0.0
        for loss in losses:
            value = loss()
            value.backward()
            total += value.item()
        if -float("inf") < total < lowest:
            lowest, best = total, [parameter.detach().clone() for parameter in own]
        return total

    optimizer.step(closure)
    if not all(parameter.isfinite().all() for parameter in own):
        # A likelihood without a maximum, as of residuals that are all zero: some line searches run off the end of it.
        with torch.no_grad():
            for parameter, good in zip(own, best, strict=True):
                parameter.copy_(good)
    return closure()


@torch.no_grad()
def _judged(judge: Judge, members: Sequence[Sequence[Tensor]], history: History) -> Tensor:
    """Return the held-out losses; members at their lowest so far are copied."""
    held = judge().detach().float().cpu()
    if not history.kept:
        history.kept = [[tensor.detach().clone() for tensor in own] for own in members]
    for m in torch.nonzero(held < history.best)[:, 0].tolist():
        history.best[m], history.best_step[m] = held[m], history.step
        for best, tensor in zip(history.kept[m], members[m], strict=True):
            best.copy_(tensor)
    return held


@torch.no_grad()
def _restore_best(members: Sequence[Sequence[Tensor]], history: History) -> None:
    for own, kept in zip(members, history.kept, strict=True):
        for tensor, best in zip(own, kept, strict=True):
            tensor.copy_(best)
    if not bool(history.best.isfinite().all()):
        raise FloatingPointError(
            "training diverged: the held-out loss was never finite. Lower the learning rate or look for extreme values "
            "in the data"
        )


class Checkpoint:
    """A file that a killed run goes on from.

    ``about`` says which run it is: a file of another run is refused. Files are replaced in one move, so that there is
    a whole one at any time, and are read without unpickling code.

    >>> import tempfile
    >>> from likely._solvers.training import Checkpoint
    >>> Checkpoint(f"{tempfile.mkdtemp()}/fit.pt", about={"rows": 20}).path.name
    'fit.pt'
    """

    def __init__(self, path: str | os.PathLike[str], about: dict[str, Any], seconds: float = 10.0) -> None:
        self.path, self.about, self.seconds = Path(path), about, seconds
        self._saved = time.monotonic()

    def save(self, module: nn.Module, optimizer: torch.optim.Optimizer, history: History) -> None:
        """Write the state, unless it was written a moment ago and there is more to come."""
        if time.monotonic() - self._saved < self.seconds and not history.done:
            return
        state = {
            "about": self.about,
            "module": module.state_dict(),
            "optimizer": optimizer.state_dict(),
            "history": vars(history),
        }
        with replacing(self.path) as beside:
            torch.save(state, beside)
        self._saved = time.monotonic()

    def resume(self, module: nn.Module, optimizer: torch.optim.Optimizer, history: History) -> None:
        """Go back to the state in the file, if there is one."""
        if not self.path.exists():
            return
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
            about = state["about"]
        except Exception as error:
            raise ValueError(f"{self.path} is not a checkpoint of ours: delete it or name another file") from error
        if about != self.about:
            raise ValueError(
                f"{self.path} is the checkpoint of another fit ({_difference(about, self.about)}): delete it or name "
                "another file"
            )
        module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
        vars(history).update(state["history"])


def _difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    keys = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
    return ", ".join(f"{key} {theirs.get(key)!r}, now {ours.get(key)!r}" for key in keys)
