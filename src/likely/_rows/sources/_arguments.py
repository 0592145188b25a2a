"""Tables in blocks as arguments: their kind, what belongs to their rows, and methods that take them."""

from __future__ import annotations

import functools
import inspect
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from likely._rows.sources._dask import Dask, is_dask
from likely._rows.sources._files import Files, is_files
from likely._rows.sources._source import Answer, BoundMethod, Source

_KINDS: tuple[tuple[Callable[[Any], bool], Any], ...] = ((is_dask, Dask), (is_files, Files))
_WIDE = ("logits", "features", "samples", "quantiles")  # arguments with several numbers per row; all others have one
Arrays = dict[str, NDArray[Any]]


def is_source(X: Any) -> bool:
    """Whether :func:`source_of` opens a table: it is not in memory."""
    return isinstance(X, Source) or any(is_one(X) for is_one, _ in _KINDS)


def source_of(X: Any) -> Source | None:
    """Open a table that is not in memory."""
    if isinstance(X, Source):
        return X
    return next((kind.opened(X) for is_one, kind in _KINDS if is_one(X)), None)


def refuse_blocks(X: Any, method: str, instead: str) -> None:
    """Raise an error if a table is not in memory, for a method whose result always is."""
    if is_source(X):
        raise ValueError(f"{method} holds its result in memory; for a table that is not, call {instead}")


@dataclass(frozen=True)
class Split:
    """Converts a block and its further arguments to arrays by name; the block itself stays a frame if it is one."""

    main: str
    beside: tuple[str, ...]
    named: dict[str, list[str]]
    columns: list[str] | None = None
    frames: bool = False

    def __call__(self, block: Any, *beside: Any) -> dict[str, Any]:
        arrays = {name: np.asarray(part) for name, part in zip(self.beside, beside, strict=True)}
        arrays |= {name: block[columns].to_numpy() for name, columns in self.named.items()}
        main = block if self.columns is None or block.ndim == 1 else block[self.columns]
        arrays[self.main] = main if self.frames else np.asarray(main)
        for name, array in arrays.items():
            if (
                name not in _WIDE
                and array.ndim == 2
                and array.shape[1] == 1
                and not (self.frames and name == self.main)
            ):
                arrays[name] = array[:, 0]
            if array.shape[:1] != (len(block),):
                sizes = f"a block of {len(block)} rows has {name} of shape {array.shape}"
                raise ValueError(f"{name} must have as many rows as the table: {sizes}")
        return arrays


def split_source(
    main: str, source: Source, others: dict[str, Any], columns: Sequence[str] | None = None, frames: bool = False
) -> tuple[Source, Split]:
    """Attach further arguments to the blocks of a table; of its ``columns``, if it has them all, no others are read."""
    beside, named = [], {}
    for name, value in others.items():
        if names := _names(value):
            missing = [column for column in names if column not in (source.names or [])]
            if missing:
                content = (
                    "is an array, without names" if source.names is None else f"has {', '.join(source.names[:10])}"
                )
                raise ValueError(f"{name}={value!r} names a column {missing[0]!r}, but the table {content}")
            named[name] = names
        elif value is not None:
            source = source.with_columns(value)
            beside.append(name)
    remaining = source.names
    if remaining is not None:
        named_columns = [column for names in named.values() for column in names]
        remaining = [column for column in remaining if column not in named_columns]
        if columns is not None and set(columns) <= set(remaining):
            remaining = list(columns)
    return source, Split(main, tuple(beside), named, remaining, frames)


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    are_names = isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(name, str) for name in value)
    return list(value) if are_names else []


def by_blocks(
    width: Callable[..., int | None] = lambda _, **__: None,
    dtype: Callable[[Any], Any] | None = None,
    per_row: str = "",
    arrays: Callable[..., int] = lambda **_: 1,
    texts: bool = False,
    frames: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a method that treats each row by itself, so that it accepts tables in blocks and returns their kind.

    Its result has ``arrays`` arrays of ``width`` columns; ``per_row`` names further arguments with one entry per row,
    which may be of the table's kind, arrays in memory, or names of the table's columns. With ``texts`` a list is the
    rows themselves, not paths. Without ``frames`` the method is given arrays, and the result has their precision.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def decorated(self: Any, *args: Any, **options: Any) -> Any:
            bound = signature.bind(self, *args, **options)
            bound.apply_defaults()
            _, (main, X), *further = bound.arguments.items()
            source = None if texts and isinstance(X, list | tuple) else source_of(X)
            if source is None:
                return method(self, *args, **options)
            options = dict(further)
            others = {name: options.pop(name) for name in per_row.split()}
            fitted = getattr(self, "feature_names_in_" if frames else "column_names_", None)
            source, split = split_source(main, source, others, fitted, frames)
            count, columns = arrays(**options), width(self, **options)
            kind = np.float64 if frames else np.promote_types(getattr(X, "dtype", np.float64), np.float32)
            side_by_side = None if count == 1 and columns is None else count * (columns or 1)
            answer = Answer(side_by_side, np.dtype(kind if dtype is None else dtype(self)))
            call = _OfBlock(BoundMethod(method, self, answer), split, dict.fromkeys(others) | options)
            return _separated(source.map_rows(call, answer), count, columns)

        return decorated

    return decorate


@dataclass(frozen=True)
class _OfBlock:
    method: BoundMethod
    split: Split
    options: dict[str, Any]

    def __call__(self, *block: Any) -> Any:
        arrays = self.split(*block)
        result = self.method(arrays.pop(self.split.main), **self.options | arrays)
        result = np.column_stack(result) if isinstance(result, tuple) else result
        return result if self.split.frames else result.astype(self.method.answer.dtype, copy=False)


def _separated(result: Any, count: int, width: int | None) -> Any:
    """Return the arrays that a method returns, whose columns were put side by side."""
    if count == 1:
        return result
    columns = [place if width is None else slice(place * width, (place + 1) * width) for place in range(count)]
    if hasattr(result, "columns"):
        return tuple(result[place] if width is None else result[list(result.columns[place])] for place in columns)
    return tuple(result[:, place] for place in columns)


class Spooled(NamedTuple):
    """Arguments with an entry per row, whether they are mapped to temporary files, and the columns of the first."""

    arguments: tuple[Any, ...]
    mapped: bool = False
    columns: list[str] | None = None


def spooled(main: str, X: Any, **others: Any) -> Spooled:
    """Copy a table in blocks, and what belongs to its rows, to temporary files; a table in memory is left as it is.

    A fit reads its rows many times, and there it reads them as it reads rows in memory. Those of weight zero are left
    out. The files exist as long as anything refers to them.
    """
    source = source_of(X)
    if source is None:
        return Spooled((X, *others.values()))
    source, split = split_source(main, source, {name: v for name, v in others.items() if not isinstance(v, Real)})
    first = Arrays()
    with ExitStack() as files:
        spools: dict[str, Any] = defaultdict(lambda: files.enter_context(tempfile.TemporaryFile()))
        for numbers in source.each(functools.partial(_numbers, split)):
            for name, part in numbers.items() if len(numbers[main]) else ():
                like = first.setdefault(name, part[:1].copy())
                if part.shape[1:] != like.shape[1:]:
                    shapes = f"{like.shape[1:]} and {part.shape[1:]}"
                    raise ValueError(f"blocks have {name} of different shapes per row, {shapes}")
                spools[name].write(part.astype(like.dtype).tobytes())
        if not spools:
            weighted = "" if others.get("sample_weight") is None else " of positive weight"
            raise ValueError(f"the table has no rows{weighted}")
        mapped: dict[str, Any] = {main: None} | others
        for name, like in first.items():
            mapped[name] = np.memmap(spools[name], like.dtype, "r+").reshape(-1, *like.shape[1:])
    return Spooled(tuple(mapped.values()), True, split.columns)


def _numbers(split: Split, *block: Any) -> Arrays:
    """Return the arrays of a block without rows of weight zero: floats as they are, others in double precision."""
    arrays = split(*block)
    counted = arrays["sample_weight"] != 0 if "sample_weight" in arrays else slice(None)
    for name, array in arrays.items():
        try:
            arrays[name] = array[counted] if array.dtype.kind == "f" else array[counted].astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must hold numbers, and for classes their numbers 0, 1, …") from None
    return arrays
