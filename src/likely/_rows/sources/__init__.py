"""Tables that are larger than memory or on other machines, one file per kind of storage."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from likely._rows.sources._dask import Dask, is_dask, naming_scheduler
from likely._rows.sources._files import ENDINGS, Files, is_files, is_one_file, names_files
from likely._rows.sources._ray import Ray, is_ray
from likely._rows.sources._source import Answer, Asked, Source, drawn
from likely._rows.sources._spark import Spark, is_spark

_KINDS: tuple[tuple[Callable[[Any], bool], Any], ...] = (
    (is_dask, Dask),
    (is_files, Files),
    (is_spark, Spark),
    (is_ray, Ray),
)
__all__ = [
    "ENDINGS",
    "Answer",
    "Asked",
    "Source",
    "by_blocks",
    "drawn",
    "is_one_file",
    "is_source",
    "names_files",
    "naming_scheduler",
    "source_of",
]


def is_source(X: Any) -> bool:
    """Whether :func:`source_of` opens a table: it is not in memory."""
    return isinstance(X, Source) or any(is_one(X) for is_one, _ in _KINDS)


def source_of(X: Any) -> Source | None:
    """Open a table that is not in memory.

    Args:
        X: a path, glob or URL of Parquet, Feather or CSV, a list of paths, a pyarrow dataset, a Dask array or frame,
            a Spark frame, a Ray data set, or anything in memory.

    Returns:
        The blocks of the table, or None if it is in memory.
    """
    if isinstance(X, Source):
        return X
    for is_one, kind in _KINDS:
        if is_one(X):
            return kind.opened(X)
    return None


def by_blocks(
    width: Callable[[Any], int | None] | None = None,
    dtype: Callable[[Any], Any] = lambda _: np.float64,
    per_row: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a method that treats each row by itself, so that it accepts tables in blocks.

    Args:
        width: function of the fitted estimator that returns the numbers per row of the result; None for one.
        dtype: function of the fitted estimator that returns the type of the result.
        per_row: names of further arguments with one entry per row, separated by spaces.

    Returns:
        The decorator.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        parameters = list(inspect.signature(method).parameters)

        @functools.wraps(method)
        def decorated(self: Any, X: Any, *args: Any, **options: Any) -> Any:
            source = source_of(X)
            if source is None:
                return method(self, X, *args, **options)
            options |= dict(zip(parameters[2:], args, strict=False))
            names = [name for name in per_row.split() if options.get(name) is not None]
            for name in names:
                source = source.beside(options.pop(name))
            answer = Answer(None if width is None else width(self), np.dtype(dtype(self)), method.__name__)
            return source.answers(_OfBlock(Asked(method, self, answer), tuple(names), options), answer)

        return decorated

    return decorate


@dataclass(frozen=True)
class _OfBlock:
    asked: Asked
    names: tuple[str, ...]
    options: dict[str, Any]

    def __call__(self, block: Any, *values: Any) -> Any:
        return self.asked(block, **dict(zip(self.names, values, strict=True)), **self.options)
