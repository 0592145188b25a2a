"""Ray Data's data sets: functions run in its tasks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from likely._rows.sources._frames import Frame
from likely._rows.sources._source import Answer, joined, thinned

T = TypeVar("T")


def is_ray(X: Any) -> bool:
    """Whether X is a Ray data set."""
    return type(X).__module__.startswith("ray.data") and hasattr(X, "map_batches")


class Ray(Frame):
    """A Ray data set; functions run by ``map_batches``, one block at a time.

    Ray does not number the blocks of tasks: a sample counts the rows of each block from its first.
    """

    @classmethod
    def opened(cls, X: Any) -> Ray:
        """Return the blocks of a data set."""
        return cls(X, list(X.columns()))

    def each(self, compute: Callable[..., T], *beside: Sequence[Any]) -> Iterator[T]:
        """See :meth:`Source.each`; blocks without numbers cannot have further arguments."""
        if beside:
            raise TypeError("blocks of a Ray data set have no number")
        results = self.frame.map_batches(_Pickled(self.called(compute)), batch_format="pandas", batch_size=None)
        return (pickle.loads(row["result"]) for row in results.iter_rows())

    def every(self, stride: int) -> tuple[Any, ...]:
        """Return every ``stride``-th row of each block, in memory."""
        parts = list(self.each(_Thinned(stride)))
        return tuple(joined(part) for part in zip(*parts, strict=True))

    def answers(self, compute: Callable[..., Any], answer: Answer) -> Any:
        """Return the data set with one or several additional columns."""
        added = _Added(self.called(compute), answer.names)
        return self.frame.map_batches(added, batch_format="pandas", batch_size=None)


@dataclass(frozen=True)
class _Thinned:
    stride: int

    def __call__(self, *blocks: Any) -> tuple[Any, ...]:
        return thinned(*blocks, 0, stride=self.stride)


@dataclass(frozen=True)
class _Pickled:
    """The result of a function for each block, as a row of a data set."""

    compute: Callable[..., Any]

    def __call__(self, block: Any) -> dict[str, list[bytes]]:
        return {"result": [pickle.dumps(self.compute(block))]}


@dataclass(frozen=True)
class _Added:
    """Blocks with the results of a function in additional columns."""

    compute: Callable[..., Any]
    names: list[str]

    def __call__(self, block: Any) -> Any:
        result = self.compute(block)
        return block.assign(**dict(zip(self.names, [result] if result.ndim == 1 else result.T, strict=True)))
