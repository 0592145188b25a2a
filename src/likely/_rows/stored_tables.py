"""Tables that stay in files or in Dask: functions are sent to their blocks, and the results come back."""

from __future__ import annotations

import copy
import functools
import operator
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import joblib
import numpy as np
from sklearn.utils import _safe_indexing

from likely._rows.blocks import ENDINGS, drawn, is_dask, is_files, kind_of_file
from likely._typing import Values

T = TypeVar("T")
BLOCK_NUMBERS = 1 << 22  # values per block, about: with temporaries and two threads, a few hundred MB
MAX_AT_ONCE = 16  # blocks whose results are in memory at once


class Source(ABC):
    """A table in blocks of rows, which can be read any number of times and is never in memory as a whole.

    A block is a pandas frame or a NumPy array, which estimators accept. Subclasses decide where functions are run.
    """

    names: list[str] | None = None  # of the columns; None of an array
    width: int  # number of columns
    paths: Sequence[str] = ()  # local files of the table
    columns: tuple[Any, ...] = ()  # of further arguments of functions: the names of their columns, or None
    parts: tuple[Sequence[Any], ...] = ()  # a part for each block of those that are no columns

    @abstractmethod
    def run(self, call: Callable[..., T], parts: Sequence[Sequence[Any]]) -> Iterator[T]:
        """Yield ``call(block, …)`` of every block, in the order of the rows."""

    @abstractmethod
    def map_rows(self, compute: Callable[..., Any], none: Values) -> Any:
        """Return the results of ``compute`` for all rows, in the table's own kind; ``none`` is that for no rows."""

    def parts_of(self, other: Any) -> Sequence[Any]:
        """Return the rows of another table or array that belong to each block."""
        if len(other) != len(self):
            raise ValueError(f"the table has {len(self):,} rows, but its target or weights have {len(other):,}")
        ends = zip(self.starts, self.sizes, strict=True)
        return [_safe_indexing(other, slice(start, start + size)) for start, size in ends]

    def with_columns(self, other: Any, argument: str = "columns") -> Source:
        """Return a source whose blocks have one further argument: columns by name, or rows of another table."""
        source, names = copy.copy(self), _names(other)
        missing = [name for name in names if name not in (self.names or ())]
        if missing:
            known = f"there are {', '.join(self.names[:10])}" if self.names else "the table is an array, without names"
            raise ValueError(f"{argument}={other!r}: there is no column {missing[0]!r}: {known}")
        if names:
            source.names = [name for name in self.names or () if name not in names]
            source.width = len(source.names)
        else:
            source.parts = (*self.parts, self.parts_of(other))
        source.columns = (*self.columns, other if names else None)
        return source

    def each(self, compute: Callable[..., T], *beside: Sequence[Any]) -> Iterator[T]:
        """Yield ``compute(block, …)`` of every block, in the order of the rows."""
        return self.run(functools.partial(_on_block, compute, self.columns), [*self.parts, *beside])

    def total(self, compute: Callable[..., T], add: Callable[[T, T], T] = operator.add) -> T:
        """Return the sum of ``compute(block, …)`` over all blocks."""
        parts = self.each(compute)
        return functools.reduce(add, parts, _first(parts))

    @functools.cached_property
    def sizes(self) -> list[int]:
        """The number of rows of each block."""
        return list(self.run(len, []))

    @property
    def starts(self) -> list[int]:
        """The number of the first row of each block."""
        return (np.cumsum(self.sizes) - self.sizes).tolist()

    def __len__(self) -> int:
        return sum(self.sizes)

    def sample(self, stride: int = 1) -> tuple[Any, ...]:
        """Return one of every ``stride`` rows, by :func:`drawn`, in memory: the table and its further arguments."""
        parts = self.each(functools.partial(_picked, stride), self.starts)
        return tuple(_joined(part) for part in zip(_first(parts), *parts, strict=True))


def _on_block(compute: Callable[..., Any], columns: tuple[Any, ...], block: Any, *arrays: Any) -> Any:
    """Call a function of a block, with columns of it as further arguments where they have names."""
    block = block.read() if isinstance(block, Piece) else block
    rest = iter(arrays)
    beside = [next(rest) if names is None else block[names].to_numpy() for names in columns]
    taken = [name for names in columns for name in _names(names)]
    return compute(block.drop(columns=taken) if taken else block, *beside, *rest)


def _names(value: Any) -> list[str]:
    """The columns that an argument names; none where it is an array or a table."""
    names = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    return list(names) if all(isinstance(name, str) for name in names) else []


def _first(parts: Iterator[T]) -> T:
    for part in parts:
        return part
    raise ValueError("the table has no rows")


def _picked(stride: int, *blocks: Any) -> tuple[Any, ...]:
    """The rows drawn of some arrays; the last argument is the number of their first row."""
    *parts, start = blocks
    rows = drawn(start, len(parts[0]), stride)
    # By an index, because a view would keep the whole block in memory.
    return tuple(_safe_indexing(part, rows) for part in parts)


def _joined(parts: Sequence[Any]) -> Any:
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    return np.concatenate(parts)


class Dask(Source):
    """Blocks of a Dask array or frame: functions run where they are, and results for rows are lazy too."""

    def __init__(self, X: Any) -> None:
        columns = getattr(X, "columns", None)
        self.names = None if columns is None else [str(name) for name in columns]
        self.width = X.shape[1] if X.ndim > 1 else 1
        self.collection, self.blocks = X, _blocks(X)

    def parts_of(self, other: Any) -> Sequence[Any]:
        """See :meth:`Source.parts_of`."""
        if not is_dask(other):
            return super().parts_of(other)
        ours, theirs = (getattr(table, "chunks", [()])[0] for table in (self.collection, other))
        if ours and theirs and sum(ours) == sum(theirs):  # unknown sizes, NaN, are equal to nothing
            other = other.rechunk({0: ours})
        parts = _blocks(other)
        if len(parts) != len(self.blocks):
            raise ValueError(f"the table has {len(self.blocks)} blocks, but its target or weights have {len(parts)}")
        return parts

    def run(self, call: Callable[..., T], parts: Sequence[Sequence[Any]]) -> Iterator[T]:
        """See :meth:`Source.run`."""
        return _by_dask(call, zip(self.blocks, *parts, strict=True))

    def map_rows(self, compute: Callable[..., Any], none: Values) -> Any:
        """Return a Dask array for an array, a Dask series or frame for a frame; nothing is computed yet."""
        from dask.delayed import delayed

        is_array = hasattr(self.collection, "chunks")
        results = compute if is_array else functools.partial(_indexed, compute)
        call = functools.partial(_on_block, results, self.columns)
        # In the graph only once, however many blocks there are: a fitted model may be large.
        shared = delayed(call, pure=False)
        tasks = [shared(*arguments) for arguments in zip(self.blocks, *self.parts, strict=True)]
        if is_array:
            import dask.array as da

            shapes = [(rows, *none.shape[1:]) for rows in self.collection.chunks[0]]
            arrays = [da.from_delayed(task, shape, none.dtype) for task, shape in zip(tasks, shapes, strict=True)]
            return da.concatenate(arrays, allow_unknown_chunksizes=True)
        import dask.dataframe as dd

        # Nothing is computed: the type of the results is that of no rows.
        meta = _indexed(lambda _: none, self.collection._meta)
        return dd.from_delayed(tasks, meta=meta, divisions=self.collection.divisions, verify_meta=False)


def _blocks(X: Any) -> list[Any]:
    if hasattr(X, "rechunk"):  # an array, whose columns may be in several blocks
        X = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    return np.ravel(X.to_delayed()).tolist()


def _indexed(compute: Callable[..., Any], block: Any, *beside: Any) -> Any:
    """Return results with the index of their rows."""
    import pandas as pd

    result = compute(block, *beside)
    return (pd.Series if result.ndim == 1 else pd.DataFrame)(result, index=block.index)


def _by_dask(call: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """Yield results in their order, a few at a time: together they may exceed the memory."""
    from dask.base import compute
    from dask.delayed import delayed

    calls = iter(calls)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)  # Dask advises to scatter models
        # It goes to each worker once. If it is lost with a worker, Dask computes it again.
        shared = delayed(call, pure=False).persist()
    while batch := [shared(*arguments) for arguments in islice(calls, MAX_AT_ONCE)]:
        yield from compute(*batch)


@dataclass(frozen=True)
class Piece:
    """Rows of a file: all of Parquet, a row group, or a batch of a file that can only be read from its beginning."""

    rows: int
    content: Any
    schema: Any

    def read(self) -> Any:
        """Return a pandas frame."""
        table = self.content
        if hasattr(table, "to_table"):
            with naming_unreadable(table.path):
                table = table.to_table(self.schema)
        return table.to_pandas(date_as_object=False)


class Files(Source):
    """Parquet, Feather or CSV, read by pyarrow: a path, glob or URL, or a list of these.

    Functions run in joblib's threads, or as ``joblib.parallel_config`` sets.
    """

    names: list[str]

    def __init__(self, X: Any) -> None:
        self.dataset = _dataset(list(X) if isinstance(X, list | tuple) else [X])
        self.schema = _schema(self.dataset)
        self.names, self.width = list(self.schema.names), len(self.schema.names)
        self.paths = [path for path in self.dataset.files if os.path.exists(path)]

    def parts_of(self, other: Any) -> Sequence[Any]:
        """See :meth:`Source.parts_of`."""
        # A column or two of other files: they fit in memory.
        return super().parts_of(Files(other).sample()[0].to_numpy() if is_files(other) else other)

    def run(self, call: Callable[..., T], parts: Sequence[Sequence[Any]]) -> Iterator[T]:
        """See :meth:`Source.run`."""
        calls = zip(self._pieces(), *parts, strict=True)
        # joblib would compute in this process on a cluster with a single thread, and cannot tell a lost scheduler.
        if hasattr(joblib.parallel.get_active_backend()[0], "client"):
            return _by_dask(call, calls)
        parallel = joblib.Parallel(prefer="threads", n_jobs=jobs(), return_as="generator", pre_dispatch="n_jobs + 1")
        return parallel(joblib.delayed(call)(*arguments) for arguments in calls)

    @functools.cached_property
    def sizes(self) -> list[int]:
        """The number of rows of each block, which Parquet stores in its header."""
        return [piece.rows for piece in self._pieces()]

    def map_rows(self, compute: Callable[..., Any], none: Values) -> Any:
        """Return a NumPy array."""
        result = np.empty((len(self), *none.shape[1:]), none.dtype)
        for start, part in zip(self.starts, self.each(compute), strict=True):
            result[start : start + len(part)] = part
        return result

    def _pieces(self) -> Iterator[Piece]:
        block_rows = max(1, BLOCK_NUMBERS // max(1, len(self.schema)))
        for fragment in self.dataset.get_fragments():
            with naming_unreadable(fragment.path):
                if hasattr(fragment, "split_by_row_group"):
                    is_small = fragment.count_rows() <= block_rows
                    groups = [fragment] if is_small else fragment.split_by_row_group()
                    pieces = ((group.count_rows(), group) for group in groups)
                else:
                    batches = fragment.to_batches(self.schema, batch_size=block_rows)
                    pieces = ((batch.num_rows, batch) for batch in batches)
                yield from (Piece(rows, content, self.schema) for rows, content in pieces if rows)


def jobs() -> int | None:
    """Return the number of cores, or None where ``joblib.parallel_config`` sets the number of jobs."""
    backend, number = joblib.parallel.get_active_backend()
    local = type(backend).__name__ in ("LokyBackend", "ThreadingBackend")
    return joblib.cpu_count() if number == _UNSET and local else None


_UNSET = joblib.parallel.get_active_backend()[1]  # None, and 1 before joblib 1.6


def _dataset(paths: list[Any]) -> Any:
    try:
        from pyarrow import csv, dataset
    except ImportError:
        raise ImportError("tables in files are read by pyarrow: pip install 'likely[arrow,data]'") from None
    found = [_found(os.fspath(path)) for path in paths]
    files = [file for _, some in found for file in some]
    kinds = {kind_of_file(file): file for file in files}
    if len(kinds) > 1:
        raise ValueError(f"files of different kinds, {' and '.join(kinds.values())}: pass only those of one kind")
    form: Any = kind_of_file(files[0])
    if form == "csv":  # an empty cell is a gap, among texts too
        form = dataset.CsvFileFormat(convert_options=csv.ConvertOptions(strings_can_be_null=True))
    # Folders such as year=2024 are a column, as to pandas and Dask; those above the folder that is named are not.
    is_folder = len(paths) == 1 and os.path.isdir(paths[0])
    parts = {"partitioning": "hive", "partition_base_dir": os.path.abspath(paths[0])} if is_folder else {}
    with naming_unreadable(files[0]):  # the other files must have its columns
        return dataset.dataset(files, format=form, filesystem=found[0][0], **parts)


@contextmanager
def naming_unreadable(path: str) -> Iterator[None]:
    """Raise an error that names the file that cannot be read, in one line."""
    try:
        yield
    except (OSError, ValueError) as error:  # Arrow's errors are among these
        raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


def _found(path: str) -> tuple[Any, list[str]]:
    """Return the file system of a path, glob or URL, and its files in the order of their names."""
    import fsspec  # torch needs it, but does not load it

    system, root = fsspec.core.url_to_fs(path)
    entries = [root] if system.exists(root) else sorted(system.glob(root))
    # Not a pipe or a device.
    files = [file for entry in entries for file in system.find(entry) if kind_of_file(file) and system.isfile(file)]
    if not files:
        reason = f"holds no file that ends in {', '.join(ENDINGS)}" if entries else "does not exist"
        raise FileNotFoundError(f"{path} {reason}")
    return system, files


def _schema(dataset: Any) -> Any:
    """Return the types that suit all files: of whole numbers in one and others in the next, the latter."""
    import pyarrow as pa

    schema, (first, *others) = dataset.schema, dataset.get_fragments()
    for fragment in others:
        with naming_unreadable(fragment.path):
            own = fragment.physical_schema
        try:
            for name in sorted({*own.names} ^ {*first.physical_schema.names}):
                raise ValueError(f"{name!r} is not there in {(first if name in own.names else fragment).path}")
            schema = pa.unify_schemas([schema, own], promote_options="permissive")
        except (TypeError, ValueError) as error:
            raise ValueError(f"{fragment.path} has other columns: {error}") from None
    return schema
