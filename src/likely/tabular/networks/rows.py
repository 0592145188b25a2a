"""A training set as tensors in standard units, its folds and its batches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from likely._rows.blocks import row_blocks
from likely._typing import Array, Floats
from likely.losses import LikelihoodLoss

CHUNK_ROWS = 8192  # rows per chunk where no gradient is needed
MAX_JUDGED_ROWS = 10_000  # held-out rows for early stopping: more would not make it more accurate


@dataclass(frozen=True)
class TrainingRows:
    """Inputs (rows, inputs) and targets in standard units: numbers (rows, targets), or labels (rows,)."""

    x: Tensor
    y: Tensor
    weight: Tensor
    outputs: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row's likelihood parameter: one value per target, or one for all logits."""
        return tuple(self.y.shape[1:])

    def nll(self, loss_fn: LikelihoodLoss, prediction: Tensor, index: Tensor, features: Tensor | None) -> Tensor:
        """Compute the NLL (members, rows) of predictions (members, rows, outputs) at an index per member, or one."""
        members = len(prediction)
        index = index.expand(members, index.shape[-1])
        if not self.shape:
            prediction = prediction.movedim(-1, 1)
        nll: Tensor = loss_fn(prediction, self.y[index], features=features, index=index)
        return nll.mean(-1) if self.shape else nll


@dataclass(frozen=True)
class Units:
    """The centre and the spread of each column."""

    centre: Array
    spread: Array

    @classmethod
    def standard(cls, table: Floats, weight: Array) -> "Units":
        """Return mean and deviation; the spread of a constant is its size, so that rounding becomes no signal."""
        blocks = list(row_blocks(len(table), numbers=CHUNK_ROWS))
        largest = np.max([np.abs(table[rows]).max(0) for rows in blocks], 0)
        size = np.maximum(largest.astype(np.float64), np.finfo(np.float64).tiny)  # squares may overflow
        mean, square = np.zeros(table.shape[1]), np.zeros(table.shape[1])
        for rows in blocks:
            mean += weight[rows] @ (table[rows] / size) / weight.sum()
        for rows in blocks:
            square += weight[rows] @ np.square(table[rows] / size - mean) / weight.sum()
        deviation = np.sqrt(square)
        spread = np.where(deviation > 1e-12 * np.abs(mean), deviation, np.abs(mean))
        return cls(mean * size, np.where(spread > 0, spread * size, 1.0))

    def inputs(self, X: Floats, device: torch.device) -> Tensor:
        """Convert columns to these units, in single precision."""
        out = torch.empty(X.shape, dtype=torch.float32, device=device)
        for rows in row_blocks(len(X), numbers=CHUNK_ROWS):
            out[rows] = torch.from_numpy((X[rows] - self.centre) / self.spread)
        return out


@torch.no_grad()
def in_chunks(n: int, compute: Callable[[slice], Mapping[str, Tensor]], dim: int) -> dict[str, Tensor]:
    """Join the results of ``compute`` for chunks of rows along ``dim``.

    Results are written in place: small tensors that stay, among large ones that are freed, would fragment the memory.
    """
    joined: dict[str, Tensor] = {}
    for rows in row_blocks(n, numbers=CHUNK_ROWS):
        for name, value in compute(rows).items():
            if name not in joined:
                joined[name] = value.new_empty(*value.shape[:dim], n, *value.shape[dim + 1 :])
            joined[name].narrow(dim, rows.start, rows.stop - rows.start).copy_(value)
    return joined


def padded_folds(n: int, folds: int, seed: int) -> Tensor:
    """Return the row numbers of each fold, shape (folds, rows); a shorter fold repeats its first row."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    longest = -(-n // folds)
    parts = [order[k::folds] for k in range(folds)]
    return torch.stack([torch.cat([part, part[:1].expand(longest - len(part))]) for part in parts])


class Batches:
    """Row numbers of the batch of each step: all rows once per epoch, in a new order each time."""

    def __init__(self, n: int, size: int | None, seed: int) -> None:
        self.n, self.size, self.seed = n, n if size is None else min(size, n), seed
        self.steps_per_epoch = max(1, n // self.size)
        self._epoch, self._order = -1, torch.arange(n)

    def __call__(self, step: int) -> Tensor:
        """Return the rows of a step, which depend only on the seed and the step's number."""
        if self.size == self.n:
            return self._order
        epoch, batch = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(self.seed + epoch)
            self._epoch, self._order = epoch, torch.randperm(self.n, generator=generator)
        return self._order[batch * self.size : (batch + 1) * self.size]
