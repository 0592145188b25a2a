"""Dask's arrays and frames: functions run where the blocks are, and results are lazy too."""

from __future__ import annotations

import copy
import functools
import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from likely._rows.sources._source import Answer, Source, cut

T = TypeVar("T")
MAX_ADDED = 8  # results that are added up at once, so that no sum waits for all of them
MAX_AT_ONCE = 16  # blocks whose results are in memory at once


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array, frame or series."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


@dataclass
class Dask(Source):
    """Blocks of a Dask collection, with further arguments per block."""

    collection: Any
    parts: list[tuple[Any, ...]] = field(default_factory=list)

    @classmethod
    def opened(cls, X: Any) -> Dask:
        """Return the blocks of an array or a frame."""
        columns = getattr(X, "columns", None)
        source = cls(X, [(block,) for block in _blocks(X)])
        source.names = None if columns is None else [str(name) for name in columns]
        return source

    def with_columns(self, other: Any) -> Dask:
        """See :meth:`Source.with_columns`."""
        source = copy.copy(self)
        if isinstance(other, str):
            names = [name for name in self.collection.columns if name != other]
            columns, source = _blocks(self.collection[other]), Dask.opened(self.collection[names])
        else:
            columns = self._aligned(other) if is_dask(other) else cut(other, self.sizes)
        if len(columns) != len(self.parts):
            raise ValueError(f"the table has {len(self.parts)} blocks, and what belongs to it has {len(columns)}")
        # Without the column the block is another one; the other arguments stay.
        parts = zip(source.parts, self.parts, columns, strict=True)
        source.parts = [(block, *before[1:], column) for (block, *_), before, column in parts]
        return source

    def each(self, compute: Callable[..., T], *beside: Sequence[Any]) -> Iterator[T]:
        """See :meth:`Source.each`."""
        return _computed(self._tasks(compute, *beside))

    def total(self, compute: Callable[..., T], add: Callable[[T, T], T] = operator.add) -> T:
        """See :meth:`Source.total`; the sums are computed where the blocks are."""
        from dask.delayed import delayed

        tasks = self._tasks(compute)
        add_all = delayed(functools.partial(functools.reduce, add))
        while len(tasks) > 1:
            tasks = [add_all(tasks[start : start + MAX_ADDED]) for start in range(0, len(tasks), MAX_ADDED)]
        return next(_computed(tasks))

    def map_rows(self, compute: Callable[..., Any], answer: Answer) -> Any:
        """Return a Dask array for an array, a Dask series or frame for a frame; nothing is computed yet."""
        if self.names is None:
            return self._array(compute, answer)
        import dask.dataframe as dd
        import pandas as pd

        tasks = self._tasks(_Indexed(compute))
        empty = answer.none
        index = self.collection._meta.index
        meta = pd.Series(empty, index=index) if answer.width is None else pd.DataFrame(empty, index=index)
        return dd.from_delayed(tasks, meta=meta, divisions=self.collection.divisions, verify_meta=False)

    def _array(self, compute: Callable[..., Any], answer: Answer) -> Any:
        import dask.array as da

        rows = self.collection.chunks[0]
        tail = () if answer.width is None else (answer.width,)
        parts = [
            da.from_delayed(task, (size, *tail), dtype=answer.dtype)
            for task, size in zip(self._tasks(compute), rows, strict=True)
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)

    def _tasks(self, compute: Callable[..., Any], *beside: Sequence[Any]) -> list[Any]:
        from dask.delayed import delayed

        # In the graph only once, however many blocks there are: a fitted model may be large.
        call = delayed(compute, pure=False)
        beside_blocks = zip(*beside, strict=True) if beside else ([],) * len(self.parts)
        return [call(*part, *arrays) for part, arrays in zip(self.parts, beside_blocks, strict=True)]

    def _aligned(self, other: Any) -> list[Any]:
        """Return the blocks of another collection, with the same rows as these."""
        if hasattr(other, "chunks") and self.names is None and other.chunks[0] != self.collection.chunks[0]:
            if np.isnan(self.collection.chunks[0]).any() or np.isnan(other.chunks[0]).any():
                return _blocks(other)  # whether the sizes match is checked when they are read
            return _blocks(other.rechunk({0: self.collection.chunks[0]}))
        return _blocks(other)


def _computed(tasks: Iterable[Any]) -> Iterator[Any]:
    """Yield the results of delayed calls in their order, a few at a time: together they may exceed the memory."""
    from dask.base import compute as compute_all

    tasks = iter(tasks)
    while batch := list(islice(tasks, MAX_AT_ONCE)):
        with _naming_scheduler():
            results = compute_all(*batch)
        yield from results


def on_workers(client: Any, call: Callable[..., T], shared: Any, calls: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """Yield the results of a function on the workers of a cluster, in order, with a few calls under way at once."""
    calls = iter(calls)
    with _naming_scheduler(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)  # Dask advises to scatter what is large
        # A task's result goes to each worker once. If it is lost with a worker, Dask computes it again.
        shared = client.submit(_itself, shared, pure=False)
        while batch := list(islice(calls, MAX_AT_ONCE)):
            yield from client.gather([client.submit(call, shared, *arguments, pure=False) for arguments in batch])


def _itself(shared: T) -> T:
    return shared


@contextmanager
def _naming_scheduler() -> Iterator[None]:
    """Turn the errors of a client whose scheduler is gone into one line with the scheduler's address."""
    client = _client()
    try:
        yield
    except Exception as error:
        # A task is cancelled only after the status has changed; a question to the scheduler can fail before.
        if client is None or (client.status == "running" and type(error).__name__ != "CommClosedError"):
            raise
        raise ConnectionError(f"the Dask scheduler at {client.scheduler.address} was lost") from None


def _client() -> Any:
    """Return the client that Dask's collections are computed by, None without a cluster."""
    distributed = sys.modules.get("distributed")
    try:
        return None if distributed is None else distributed.Client.current()
    except ValueError:
        return None


def _blocks(X: Any) -> list[Any]:
    if hasattr(X, "rechunk"):  # an array, whose columns may be in several blocks
        X = X.rechunk(dict.fromkeys(range(1, X.ndim), -1)) if X.ndim > 1 else X
        return list(X.to_delayed().ravel())
    return list(X.to_delayed())


@dataclass(frozen=True)
class _Indexed:
    """Results with the index of their rows."""

    compute: Callable[..., Any]

    def __call__(self, block: Any, *beside: Any) -> Any:
        import pandas as pd

        result = self.compute(block, *beside)
        return (pd.Series if result.ndim == 1 else pd.DataFrame)(result, index=block.index)
