"""Spark's frames: functions run in its executors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from likely._rows.sources._frames import Frame
from likely._rows.sources._source import Answer

T = TypeVar("T")


def is_spark(X: Any) -> bool:
    """Whether X is a Spark frame."""
    return type(X).__module__.startswith("pyspark.sql") and hasattr(X, "mapInArrow")


class Spark(Frame):
    """A Spark frame; functions run in its executors, by ``mapInArrow``."""

    @classmethod
    def opened(cls, X: Any) -> Spark:
        """Return the batches of a frame."""
        return cls(X, list(X.columns))

    def each(self, compute: Callable[..., T], *beside: Sequence[Any]) -> Iterator[T]:
        """See :meth:`Source.each`."""
        run = _Pickled(self.called(compute), list(zip(*beside, strict=True)) if beside else None, self._numbers(beside))
        rows = self.frame.mapInArrow(run, "part long, batch long, result binary").collect()
        return (pickle.loads(row.result) for row in sorted(rows, key=lambda row: (row.part, row.batch)))

    def answers(self, compute: Callable[..., Any], answer: Answer) -> Any:
        """Return the frame with one or several additional columns."""
        from pyspark.sql.types import DoubleType, LongType, StructField

        kind = LongType() if answer.dtype == "int64" else DoubleType()
        schema = copy.deepcopy(self.frame.schema)
        for name in answer.names:
            schema.add(StructField(name, kind))
        return self.frame.mapInArrow(_Added(self.called(compute), answer.names), schema)

    def _numbers(self, beside: Sequence[Any]) -> dict[tuple[int, int], int] | None:
        """Return the number of each batch of each partition; None without further arguments."""
        if not beside:
            return None
        rows = self.frame.mapInArrow(_Pickled(_nothing, None, None), "part long, batch long, result binary").collect()
        return {(row.part, row.batch): number for number, row in enumerate(sorted(rows, key=lambda row: row[:2]))}


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class _Pickled:
    """The position of each batch and the result of a function for it, as a row of a frame."""

    compute: Callable[..., Any]
    beside: list[tuple[Any, ...]] | None
    numbers: dict[tuple[int, int], int] | None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        part = TaskContext.get().partitionId()
        for number, batch in enumerate(batches):
            arrays = () if self.beside is None or self.numbers is None else self.beside[self.numbers[part, number]]
            result = pickle.dumps(self.compute(batch.to_pandas(), *arrays))
            yield pa.RecordBatch.from_pydict({"part": [part], "batch": [number], "result": [result]})


@dataclass(frozen=True)
class _Added:
    """Batches with the results of a function in additional columns."""

    compute: Callable[..., Any]
    names: list[str]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            result = self.compute(batch.to_pandas())
            columns = [result] if result.ndim == 1 else list(result.T)
            arrays = [*batch.columns, *(pa.array(column) for column in columns)]
            yield pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, *self.names])
