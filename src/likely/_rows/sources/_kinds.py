"""Which kind of storage a table has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from likely._rows.sources._dask import Dask, is_dask
from likely._rows.sources._files import Files, is_files
from likely._rows.sources._source import Source

_KINDS: tuple[tuple[Callable[[Any], bool], Any], ...] = ((is_dask, Dask), (is_files, Files))


def is_source(X: Any) -> bool:
    """Whether :func:`source_of` opens a table: it is not in memory."""
    return isinstance(X, Source) or any(is_one(X) for is_one, _ in _KINDS)


def source_of(X: Any) -> Source | None:
    """Open a table that is not in memory."""
    if isinstance(X, Source):
        return X
    for is_one, kind in _KINDS:
        if is_one(X):
            return kind.opened(X)
    return None
