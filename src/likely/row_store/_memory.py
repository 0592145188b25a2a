"""Rows in memory, of a device or the host."""

from typing import NamedTuple

import torch
from torch import Tensor


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
