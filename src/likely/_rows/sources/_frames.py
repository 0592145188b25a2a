"""Frames of other engines, whose batches reach Python as Arrow: Spark's and Ray's.

Rows have no order there, so that further arguments of a block are columns of the same frame.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from likely._rows.sources._source import Source

T = TypeVar("T")


@dataclass
class Frame(Source):
    """Batches of a frame that another engine holds."""

    frame: Any
    names: list[str]
    others: list[str] = field(default_factory=list)

    def beside(self, other: Any) -> Frame:
        """See :meth:`Source.beside`; a column of the frame only."""
        kind = type(self).__name__
        if not isinstance(other, str):
            raise ValueError(f"rows of a {kind} frame have no order to go by: name a column of it, as in y='price'")
        if other not in self.names:
            raise ValueError(f"there is no column {other!r}: there are {', '.join(self.names[:10])}")
        source = copy.copy(self)
        source.__dict__.pop("sizes", None)
        source.names, source.others = [name for name in self.names if name != other], [*self.others, other]
        return source

    def called(self, compute: Callable[..., T]) -> Callable[..., T]:
        """Return a function of batches, as pandas frames, that calls ``compute`` with its arguments."""
        return _Called(compute, self.names, self.others)


@dataclass(frozen=True)
class _Called:
    compute: Callable[..., Any]
    names: list[str]
    others: list[str]

    def __call__(self, batch: Any, *arrays: Any) -> Any:
        return self.compute(batch[self.names], *(batch[name].to_numpy() for name in self.others), *arrays)
