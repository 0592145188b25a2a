"""Rows in memory, and the row-wise optimizers, in one place for all stores."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from likely._validation import check_not_negative, check_positive

OPTIMIZERS = ("rmsprop", "adagrad", "sgd")


class Pair(NamedTuple):
    """Rows and their running mean squares; with SGD the second is empty."""

    rows: Tensor
    mean_square: Tensor


class Memory(Pair):
    """A tensor of all rows and one of their mean squares."""

    @property
    def device(self) -> torch.device:
        """Where rows are read, moved and written."""
        return self.rows.device

    def read(self, index: Tensor) -> Pair:
        """Gather the rows of ``index``."""
        state = self.mean_square.index_select(0, index) if len(self.mean_square) else self.mean_square
        return Pair(self.rows.index_select(0, index), state)

    def write(self, index: Tensor, new: Pair) -> None:
        """Scatter rows; the rows of an index that occurs twice must be equal."""
        self.rows.index_copy_(0, index, new.rows)
        if len(self.mean_square):
            self.mean_square.index_copy_(0, index, new.mean_square.to(self.mean_square.dtype))


@dataclass
class Rule:
    """A step of RMSProp, Adagrad or SGD with clipping and weight decay."""

    optimizer: str
    lr: float
    decay: float
    eps: float
    clip: float | None
    weight_decay: float

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}; got {self.optimizer!r}")
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay must lie in [0, 1), got {self.decay}")
        for name in ("lr", "eps", "clip"):
            if (value := getattr(self, name)) is not None:
                check_positive(name, value)
        check_not_negative("weight_decay", self.weight_decay)

    @property
    def number(self) -> int:
        """The number of the optimizer in kernels."""
        return OPTIMIZERS.index(self.optimizer)

    @property
    def has_state(self) -> bool:
        """Whether there is a running mean square per row."""
        return self.optimizer != "sgd"

    def __call__(self, rows: Tensor, mean_square: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows and mean squares after a step; a row whose gradient is not finite is exactly unchanged."""
        flat, old = grad.reshape(len(grad), -1), rows.reshape(len(rows), -1)
        wide = flat.shape[1] > 1  # scalars, the most frequent case, need no sums
        moves = flat.isfinite().all(1)[:, None] if wide else flat.isfinite()
        flat = torch.where(moves, flat, 0.0)
        if self.clip is not None:
            length = flat.square().sum(1).sqrt()[:, None] if wide else flat.abs()
            flat = torch.where(length > self.clip, flat / (length / self.clip), flat)
        change = flat
        if self.has_state:
            square = flat.square().mean(1) if wide else flat.square()[:, 0]
            mean_square = torch.where(square == 0, mean_square, self._accumulated(mean_square, square))
            change = flat / (mean_square.sqrt()[:, None] + self.eps)
        if self.weight_decay:
            change = change + self.weight_decay * old * moves
        return (old - self.lr * change).reshape(rows.shape), mean_square

    def _accumulated(self, old: Tensor, square: Tensor) -> Tensor:
        if self.optimizer == "adagrad":
            return old + square
        # The first gradient of a row starts its mean square, so that the first step has the length lr.
        return torch.where(old == 0, square, old + (1 - self.decay) * (square - old))
