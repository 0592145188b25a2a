"""Rows in memory, of a device or the host; and the interface of all stores."""

from typing import NamedTuple, Protocol

from torch import Tensor


class Pair(NamedTuple):
    """Rows and their running mean squares; with SGD the second is empty."""

    rows: Tensor
    mean_square: Tensor


class Store(Protocol):
    """The operations of an optimizer on rows, wherever they are stored."""

    def read(self, index: Tensor) -> Pair:
        """Read the rows of ``index``."""

    def write(self, index: Tensor, new: Pair, old: Pair | None = None) -> None:
        """Replace the rows of ``index``; a caller that knows the ``old`` ones saves reading them."""


class Memory(Pair):
    """A tensor of rows and one of mean squares."""

    def read(self, index: Tensor) -> Pair:
        """Gather the rows of ``index``."""
        return Pair(self.rows.index_select(0, index), self._state(index))

    def _state(self, index: Tensor) -> Tensor:
        return self.mean_square.index_select(0, index) if len(self.mean_square) else self.mean_square

    def write(self, index: Tensor, new: Pair, old: Pair | None = None) -> None:
        """Scatter rows; the rows of an index that occurs twice must be equal."""
        self.rows.index_copy_(0, index, new.rows)
        if len(self.mean_square):
            self.mean_square.index_copy_(0, index, new.mean_square.to(self.mean_square.dtype))
