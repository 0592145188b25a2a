"""Distributed training: every process holds the whole table and computes the gradients of its share of each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from likely._random import CheapDropout
from likely._solvers.training import Progress
from likely.tabular._rows import CHUNK, Rows

CLOSE = 1e-6  # relative difference of sums that rounding may cause


@dataclass(frozen=True)
class Processes:
    """The processes of :mod:`torch.distributed`; without a process group, this one alone."""

    rank: int = 0
    count: int = 1

    @classmethod
    def current(cls) -> Processes:
        """Return the processes of the default process group."""
        if not (dist.is_available() and dist.is_initialized()):
            return cls()
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def share(self) -> slice:
        """The rows of a batch that this process takes."""
        return slice(self.rank, None, self.count)

    def value_of_first(self, value: float, device: torch.device | str) -> float:
        """Return the value of the first process."""
        if self.count == 1:
            return value
        return float(self.from_first(torch.tensor(value, dtype=torch.float64, device=device)))

    def from_first(self, tensor: Tensor) -> Tensor:
        """Replace a tensor, in place, by that of the first process, and return it."""
        if self.count > 1:
            dist.broadcast(tensor, 0)
        return tensor

    @torch.no_grad()
    def equalize(self, tensors: Iterable[Tensor]) -> None:
        """Copy tensors of the first process to all others."""
        for tensor in tensors if self.count > 1 else ():
            self.from_first(tensor.data)

    def check_same(self, rows: Rows) -> None:
        """Raise an error in all processes unless they hold the same table."""
        if self.count == 1:
            return
        tensors = (rows.x, rows.y, rows.weight)
        sums = [sum(part.double().abs().sum() for part in tensor.split(CHUNK)) for tensor in tensors]
        checksums = torch.tensor([float(value) for value in (len(rows.x), *sums)], dtype=torch.float64)
        ends = torch.cat([checksums, -checksums]).to(rows.x.device)
        dist.all_reduce(ends, dist.ReduceOp.MAX)
        high, low = ends[: len(checksums)], -ends[len(checksums) :]
        if bool((high - low > CLOSE * high).any()):
            raise ValueError("the processes were given different tables: give each of them all rows of X and y")

    @contextmanager
    def adding_up(self, module: nn.Module, optimizer: torch.optim.Optimizer, batch: int) -> Iterator[None]:
        """Add up the gradients of all processes before each step inside; make all states equal at the end.

        Dropout then draws for all ``batch`` rows and uses those of the share, so that it does not depend on the number
        of processes.
        """
        if self.count == 1:
            yield
            return
        drops = [part for part in module.modules() if isinstance(part, CheapDropout)]
        states = [*module.parameters(), *module.buffers()]
        self.equalize(states)
        hook = optimizer.register_step_pre_hook(_add_gradients)
        for part in drops:
            part.of = (batch, self.share)
        try:
            yield
        finally:
            hook.remove()
            for part in drops:
                part.of = None
        self.equalize(states)

    def agreeing(
        self, callbacks: Iterable[Callable[[Progress], Any]], device: torch.device
    ) -> list[Callable[[Progress], Any]]:
        """Return callbacks that receive the loss of the whole batch, and end the training in all processes at once."""
        callbacks = list(callbacks)
        if self.count == 1:
            return callbacks

        def call(progress: Progress) -> bool:
            loss = torch.tensor(progress.loss, dtype=torch.float64, device=device)
            dist.all_reduce(loss)
            shared_progress = replace(progress, loss=float(loss))
            # All callbacks are called, even if one ends the training.
            results = [callback(shared_progress) for callback in callbacks]
            ended = torch.tensor(float(any(results)), device=device)
            dist.all_reduce(ended, dist.ReduceOp.MAX)
            return bool(ended)

        return [call]


def _add_gradients(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    for grad, total in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(total.view_as(grad))
