"""Parquet, Feather and CSV: a file, a folder, a glob or a URL, read in pieces by pyarrow."""

from __future__ import annotations

import copy
import functools
import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import joblib
import numpy as np

from likely._rows.sources._dask import on_workers
from likely._rows.sources._source import Answer, Source, cut

T = TypeVar("T")
BLOCK_NUMBERS = 1 << 22  # values per block, about: with temporaries and two threads, a few hundred MB
ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".feather": "feather", ".arrow": "feather"}


def is_files(X: Any) -> bool:
    """Whether X names files, or is a pyarrow dataset."""
    if isinstance(X, str | os.PathLike):
        return True
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(path, str | os.PathLike) for path in X)
    return type(X).__module__.startswith("pyarrow") and hasattr(X, "get_fragments")


def is_one_file(data: Any) -> bool:
    """Whether data is the path of a single file, even if it does not exist: no folder, no glob, no URL."""
    if not isinstance(data, str | os.PathLike):
        return False
    path = os.fspath(data)
    return "://" not in path and not os.path.isdir(path) and (os.path.exists(path) or not glob.has_magic(path))


def names_files(text: str) -> bool:
    """Whether a text can only be a path, glob or URL, and not the name of a column."""
    is_path = "://" in text or os.sep in text or Path(text).suffix.lower() in ENDINGS
    return is_path or os.path.isdir(text) or bool(glob.has_magic(text) and glob.glob(text))


@dataclass(frozen=True)
class Piece:
    """Rows of a file: some of its row groups, or a batch of a file that can only be read from its beginning."""

    rows: int
    content: Any
    how: dict[str, Any] | None = None  # the columns and types to read; None for what is in memory already

    def read(self) -> Any:
        """Return a pandas frame."""
        table = self.content
        if self.how is not None:
            with _naming(table.path):
                table = table.to_table(**self.how)
        return table.to_pandas(date_as_object=False)


@dataclass
class Files(Source):
    """Rows of files; blocks are frames. Functions run in joblib's threads, or as ``joblib.parallel_config`` sets."""

    dataset: Any
    schema: Any
    names: list[str]
    others: list[Any] = field(default_factory=list)

    @classmethod
    def opened(cls, X: Any) -> Files:
        """Return the rows of a path, glob, URL, list of these, or dataset."""
        dataset = X if hasattr(X, "get_fragments") else _dataset([X] if isinstance(X, str | os.PathLike) else list(X))
        return cls(dataset, _schema(dataset), list(dataset.schema.names))

    def with_columns(self, other: Any) -> Files:
        """See :meth:`Source.with_columns`."""
        source = copy.copy(self)
        source.__dict__.pop("sizes", None)
        if isinstance(other, str):
            if other not in self.names:
                raise ValueError(f"there is no column {other!r}: there are {', '.join(self.names[:10])}")
            source.names = [name for name in self.names if name != other]
        elif is_files(other):
            return self.with_columns(Files.opened(other).every(1)[0].to_numpy())  # a column or two: they fit in memory
        elif len(other) != len(self):
            cut(other, self.sizes)
        source.others = [*self.others, other]
        return source

    def each(self, compute: Callable[..., T], *beside: Sequence[Any]) -> Iterator[T]:
        """See :meth:`Source.each`."""
        calls = (
            (piece, self.names, self._arrays(start, piece.rows), block_arrays)
            for piece, start, *block_arrays in self._pieces(beside)
        )
        # joblib would compute in this process on a cluster with a single thread, and cannot tell a lost scheduler.
        client = getattr(joblib.parallel.get_active_backend()[0], "client", None)
        if client is not None:
            return on_workers(client, _apply, compute, calls)
        parallel = joblib.Parallel(prefer="threads", n_jobs=_jobs(), return_as="generator", pre_dispatch="n_jobs + 1")
        return parallel(joblib.delayed(_apply)(compute, *arguments) for arguments in calls)

    @functools.cached_property
    def sizes(self) -> list[int]:
        """The number of rows of each block, which Parquet stores in its header."""
        return [piece.rows for piece, *_ in self._pieces(())]

    @property
    def paths(self) -> list[str]:
        """See :meth:`Source.paths`."""
        return [path for path in self.dataset.files if os.path.exists(path)]

    def map_rows(self, compute: Callable[..., Any], answer: Answer) -> Any:
        """Return a NumPy array."""
        shape = (len(self),) if answer.width is None else (len(self), answer.width)
        result, start = np.empty(shape, answer.dtype), 0
        for part in self.each(compute):
            result[start : start + len(part)] = part
            start += len(part)
        return result

    def _arrays(self, start: int, rows: int) -> list[Any]:
        return [other if isinstance(other, str) else np.asarray(other[start : start + rows]) for other in self.others]

    def _pieces(self, beside: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        start = 0
        names = [*self.names, *(other for other in self.others if isinstance(other, str))]
        for number, piece in enumerate(_pieces(self.dataset, {"schema": self.schema, "columns": names})):
            yield piece, start, *(part[number] for part in beside)
            start += piece.rows


def _apply(compute: Callable[..., T], piece: Piece, names: list[str], others: list[Any], arrays: list[Any]) -> T:
    frame = piece.read()
    beside = [frame[other].to_numpy() if isinstance(other, str) else other for other in others]
    return compute(frame if len(names) == frame.shape[1] else frame[names], *beside, *arrays)


def _pieces(dataset: Any, how: dict[str, Any]) -> Iterable[Piece]:
    rows_per_block = max(1, BLOCK_NUMBERS // max(1, len(how["columns"])))
    for fragment in dataset.get_fragments():
        if not hasattr(fragment, "row_groups"):
            with _naming(fragment.path):
                batches = fragment.to_batches(**how, batch_size=rows_per_block)
                yield from (Piece(batch.num_rows, batch) for batch in batches if batch.num_rows)
            continue
        groups: list[int] = []
        rows = 0
        for group in fragment.row_groups:
            if groups and rows + group.num_rows > rows_per_block:
                yield Piece(rows, fragment.subset(row_group_ids=groups), how)
                groups, rows = [], 0
            groups, rows = [*groups, group.id], rows + group.num_rows
        if rows:
            yield Piece(rows, fragment.subset(row_group_ids=groups), how)


def _dataset(paths: list[Any]) -> Any:
    try:
        from pyarrow import dataset
    except ImportError:
        raise ImportError("tables in files are read by pyarrow: pip install 'likely[arrow,data]'") from None
    found = [_found(os.fspath(path)) for path in paths]
    files = [file for _, some in found for file in some]
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        raise ValueError(f"files of different kinds, {' and '.join(sorted(kinds))}: name those of one kind")
    # Folders such as year=2024 are a column, as to pandas and Dask; those above the folder that is named are not.
    is_folder = len(paths) == 1 and os.path.isdir(paths[0])
    parts = {"partitioning": "hive", "partition_base_dir": os.path.abspath(paths[0])} if is_folder else {}
    with _naming(files[0]):  # the other files must have its columns
        return dataset.dataset(files, format=_format(kinds.pop()), filesystem=found[0][0], **parts)


def _format(kind: str) -> Any:
    """Return how files of a kind are read: an empty cell of CSV is a gap, among texts too."""
    if kind != "csv":
        return kind
    from pyarrow import csv, dataset

    return dataset.CsvFileFormat(convert_options=csv.ConvertOptions(strings_can_be_null=True))


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Raise an error that names the file that cannot be read, in one line."""
    try:
        yield
    except (OSError, ValueError) as error:  # Arrow's errors are among these
        raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


def _kind(path: str) -> str:
    kind = ENDINGS.get(Path(path).suffix.lower())
    if kind is None:
        raise ValueError(f"{path} has no ending that is read by blocks: {', '.join(ENDINGS)}")
    return kind


def _found(path: str) -> tuple[Any, list[str]]:
    """Return the file system of a path, glob or URL, and its files in the order of their names."""
    import fsspec  # torch needs it, but does not load it

    system, root = fsspec.core.url_to_fs(path)
    entries = [root] if system.exists(root) else sorted(system.glob(root))
    files: list[str] = []
    for entry in entries:
        if not system.isdir(entry):
            files.append(entry)
            continue
        inside = system.find(entry, detail=True)  # pipes and devices among it
        files += sorted(
            file for file, about in inside.items() if about["type"] == "file" and Path(file).suffix.lower() in ENDINGS
        )
    if not files and entries:
        raise FileNotFoundError(f"{path} holds no file that ends in {', '.join(ENDINGS)}")
    if not files:
        raise FileNotFoundError(f"{path} does not exist")
    return system, files


def _schema(dataset: Any) -> Any:
    """Return the types that suit all files: of whole numbers in one and others in the next, the latter."""
    first: Any = None
    schema = dataset.schema
    for fragment in dataset.get_fragments():
        with _naming(fragment.path):
            physical = fragment.physical_schema
        first = first or (physical, fragment.path)
        for name in [] if physical.equals(first[0]) else dict.fromkeys([*first[0].names, *physical.names]):
            here, there = (of_file.field(name) if name in of_file.names else None for of_file in (physical, first[0]))
            if not _common(here, there):
                kind_here, kind_there = ("not there" if field is None else field.type for field in (here, there))
                difference = f"{name!r} is {kind_here}, and {kind_there} in {first[1]}"
                raise ValueError(f"{fragment.path} has other columns: {difference}")
            # A dataset may have been given a schema of its own, without this column or with another kind of it.
            common = _common(here, schema.field(name)) if name in schema.names else None
            if common:
                schema = schema.set(schema.get_field_index(name), common)
    return schema


def _common(one: Any, other: Any) -> Any:
    """Return the field whose type holds the values of two; None where there is none."""
    import pyarrow as pa

    if one is None or other is None:
        return None
    try:
        return pa.unify_schemas([pa.schema([one]), pa.schema([other])], promote_options="permissive").field(0)
    except pa.ArrowTypeError:
        return None


_UNSET = joblib.parallel.get_active_backend()[1]  # None, and 1 before joblib 1.6


def _jobs() -> int | None:
    """Return the number of cores, or None where ``joblib.parallel_config`` sets the number of jobs."""
    backend, jobs = joblib.parallel.get_active_backend()
    local = type(backend).__name__ in ("LokyBackend", "ThreadingBackend")
    return joblib.cpu_count() if jobs == _UNSET and local else None
