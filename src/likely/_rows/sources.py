"""Tables in blocks as arguments: their kind, what belongs to their rows, and methods that take them."""

import copy
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

from likely._rows.blocks import is_dask, is_files
from likely._rows.stored_tables import Dask, Files, Source
from likely._typing import Values

__all__ = ["Source"]  # besides what is defined here

_WIDE = ("logits", "features", "samples", "quantiles")  # arguments with several numbers per row; all others have one
Arrays = dict[str, Values]


def is_source(X: Any) -> bool:
    """Whether :func:`source_of` opens a table: it is not in memory."""
    return isinstance(X, Source) or is_dask(X) or is_files(X)


def source_of(X: Any) -> Source | None:
    """Open a table that is not in memory."""
    if isinstance(X, Source):
        return X
    return Dask(X) if is_dask(X) else Files(X) if is_files(X) else None


def refuse_blocks(X: Any, method: str, instead: str) -> None:
    """Raise an error if a table is not in memory, for a method whose result always is."""
    if is_source(X):
        raise ValueError(f"{method} holds its result in memory; for a table that is not, call {instead}")


@dataclass(frozen=True)
class Split:
    """Converts a block and its further arguments to arrays by name; the block itself stays a frame if it is one."""

    main: str
    beside: tuple[str, ...]
    columns: Sequence[str] | None = None  # of the block, if not all of them
    frames: bool = False

    def __call__(self, block: Any, *beside: Any) -> dict[str, Any]:
        arrays = {name: np.asarray(part) for name, part in zip(self.beside, beside, strict=True)}
        main = block if self.columns is None else block[self.columns]
        arrays[self.main] = main if self.frames else np.asarray(main)
        for name, array in arrays.items():
            if array.shape[:1] != (len(block),):
                sizes = f"a block of {len(block)} rows has {name} of shape {array.shape}"
                raise ValueError(f"{name} must have as many rows as the table: {sizes}")
            if name not in _WIDE and array.shape[1:] == (1,) and isinstance(array, np.ndarray):
                arrays[name] = array[:, 0]
        return arrays


def split_source(
    main: str, source: Source, others: dict[str, Any], columns: Sequence[str] | None = None, frames: bool = False
) -> tuple[Source, Split]:
    """Attach further arguments to the blocks of a table; of its ``columns``, if it has them all, no others are read."""
    beside = {name: value for name, value in others.items() if value is not None}
    for name, value in beside.items():
        source = source.with_columns(value, name)
    if columns is not None:
        columns = list(columns) if set(columns) <= set(source.names or ()) else None
    return source, Split(main, tuple(beside), columns, frames)


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
            shape = (0,) if count == 1 and columns is None else (0, count * (columns or 1))
            none = np.empty(shape, kind if dtype is None else dtype(self))
            present = copy.copy(self)  # because the estimator may be fitted again before it is called
            options |= dict.fromkeys(others)
            call = functools.partial(_of_block, method.__name__, present, split, options, none)
            return _separated(source.map_rows(call, none), count, columns)

        return decorated

    return decorate


def _of_block(method: str, fitted: Any, split: Split, options: dict[str, Any], none: Values, *block: Any) -> Any:
    """Return what a method of an estimator, by name because pickle cannot find a decorated one, returns for a block."""
    arrays = split(*block)
    main = arrays.pop(split.main)
    if not len(main):
        return none
    result = getattr(fitted, method)(main, **options | arrays)
    result = np.column_stack(result) if isinstance(result, tuple) else result
    return result if split.frames else result.astype(none.dtype, copy=False)


def _separated(result: Any, count: int, width: int | None) -> Any:
    """Return the arrays that a method returns, whose columns were put side by side."""
    if count == 1:
        return result
    places = [place if width is None else slice(place * width, (place + 1) * width) for place in range(count)]
    columns = result.iloc if hasattr(result, "iloc") else result
    return tuple(columns[:, place] for place in places)


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
                    raise ValueError(f"blocks have {name} of different shapes, {like.shape[1:]} and {part.shape[1:]}")
                spools[name].write(part.astype(like.dtype).tobytes())
        if not first:
            raise ValueError("the table has no rows of positive weight")
        arguments = {main: None} | others
        for name, like in first.items():
            arguments[name] = np.memmap(spools[name], like.dtype, "r+").reshape(-1, *like.shape[1:])
    return Spooled(tuple(arguments.values()), True, source.names)


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
