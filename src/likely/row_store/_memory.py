"""Rows in memory, a device's or the host's; and what every keeper of rows can do."""

from typing import NamedTuple, Protocol

from torch import Tensor


class Pair(NamedTuple):
    """Rows and their running mean squares; with SGD the second is empty."""

    rows: Tensor
    mean_square: Tensor


class Store(Protocol):
    """All that an optimizer asks of rows, wherever they are."""

    def read(self, index: Tensor) -> Pair:
        """The rows of ``index``."""

    def write(self, index: Tensor, new: Pair, old: Pair | None = None) -> None:
        """Replace the rows of ``index``; who knows what they were may say so, and spare a look."""


class Memory(Pair):
    """A tensor of rows and one of mean squares."""

    def read(self, index: Tensor) -> Pair:
        """Gather."""
        return Pair(self.rows.index_select(0, index), self._state(index))

    def _state(self, index: Tensor) -> Tensor:
        return self.mean_square.index_select(0, index) if len(self.mean_square) else self.mean_square

    def write(self, index: Tensor, new: Pair, old: Pair | None = None) -> None:
        """Scatter; an index that occurs twice has the same row twice."""
        self.rows.index_copy_(0, index, new.rows)
        if len(self.mean_square):
            self.mean_square.index_copy_(0, index, new.mean_square.to(self.mean_square.dtype))
