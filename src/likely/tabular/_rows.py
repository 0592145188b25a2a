"""A training set as tensors in standard units, and rows dealt into folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._rows.blocks import row_blocks
from likely._rows.units import middle_and_spread
from likely._typing import Array
from likely.losses import LikelihoodLoss

CHUNK = 8192  # rows at a time where there is no gradient to keep
JUDGED = 10_000  # rows that are looked at to tell when to stop: more would not tell better


@dataclass(frozen=True)
class Rows:
    """Inputs (rows, inputs) and targets in standard units: numbers (rows, targets), or labels (rows,)."""

    x: Tensor
    y: Tensor
    weight: Tensor
    outputs: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row's likelihood parameter: one a target, or one for all logits."""
        return tuple(self.y.shape[1:])

    def checksum(self) -> float:
        """The sum of all inputs, by which a resumed run knows its table."""
        return sum(float(some.double().sum()) for some in self.x.split(CHUNK))

    def nll(self, loss_fn: LikelihoodLoss, prediction: Tensor, index: Tensor, features: Tensor | None) -> Tensor:
        """(members, rows) of predictions (members, rows, outputs); the index has a row for each member, or one."""
        members = len(prediction)
        index = index.expand(members, index.shape[-1])
        if not self.shape:
            prediction = prediction.movedim(-1, 1)
        nll: Tensor = loss_fn(prediction, self.y[index], features=features, index=index)
        return nll.mean(-1) if self.shape else nll


@dataclass(frozen=True)
class Units:
    """Where columns have their middle and how far they spread."""

    centre: Array
    spread: Array

    @classmethod
    def standard(cls, table: NDArray[np.floating], weight: Array) -> Units:
        """Mean and deviation; a constant column has its own size, so that rounding does not become a signal."""
        largest = np.max([np.abs(table[rows]).max(0) for rows in row_blocks(len(table), numbers=CHUNK)], 0)
        size = np.maximum(largest.astype(np.float64), np.finfo(np.float64).tiny)  # squares may overflow
        mean, square = np.zeros(table.shape[1]), np.zeros(table.shape[1])
        for rows in row_blocks(len(table), numbers=CHUNK):
            mean += weight[rows] @ (table[rows] / size) / weight.sum()
        for rows in row_blocks(len(table), numbers=CHUNK):
            square += weight[rows] @ np.square(table[rows] / size - mean) / weight.sum()
        deviation = np.sqrt(square)
        spread = np.where(deviation > 1e-12 * np.abs(mean), deviation, np.abs(mean))
        return cls(mean * size, np.where(spread > 0, spread * size, 1.0))

    @classmethod
    def robust(cls, table: Array, weight: Array) -> Units:
        """Median and spread, which outliers cannot move."""
        return cls(*middle_and_spread(table, weight))

    def inputs(self, X: NDArray[np.floating], device: torch.device) -> Tensor:
        """Columns in these units, in single precision."""
        out = torch.empty(X.shape, dtype=torch.float32, device=device)
        for rows in row_blocks(len(X), numbers=CHUNK):
            out[rows] = torch.from_numpy((X[rows] - self.centre) / self.spread)
        return out


@torch.no_grad()
def in_chunks(n: int, compute: Callable[[slice], Mapping[str, Tensor]], dim: int) -> dict[str, Tensor]:
    """What ``compute`` says of some rows at a time, joined along ``dim``.

    Written in place: small tensors that stay, between large ones that come and go, would leave the memory in holes.
    """
    joined: dict[str, Tensor] = {}
    for rows in row_blocks(n, numbers=CHUNK):
        for name, value in compute(rows).items():
            if name not in joined:
                joined[name] = value.new_empty(*value.shape[:dim], n, *value.shape[dim + 1 :])
            joined[name].narrow(dim, rows.start, rows.stop - rows.start).copy_(value)
    return joined


def deal(n: int, folds: int, seed: int) -> Tensor:
    """A row of row numbers for each fold; a shorter fold repeats its first."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    longest = -(-n // folds)
    parts = [order[k::folds] for k in range(folds)]
    return torch.stack([torch.cat([part, part[:1].expand(longest - len(part))]) for part in parts])


class Batches:
    """Row numbers of each step: all rows once, in a new order every time round."""

    def __init__(self, n: int, size: int | None, seed: int) -> None:
        self.n, self.size, self.seed = n, n if size is None else min(size, n), seed
        self.round = max(1, n // self.size)
        self._epoch, self._order = -1, torch.arange(n)

    def __call__(self, step: int) -> Tensor:
        """The rows of a step, which follow from the seed and its number."""
        if self.size == self.n:
            return self._order
        epoch, place = divmod(step, self.round)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(self.seed + epoch)
            self._epoch, self._order = epoch, torch.randperm(self.n, generator=generator)
        return self._order[place * self.size : (place + 1) * self.size]
