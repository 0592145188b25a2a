"""Tables that are not in memory: estimators are fitted to a sample of the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from likely._rows.sources import Source, source_of

MOST = 1 << 25  # largest number of values that a fit reads from a table that is not in memory


class Read(NamedTuple):
    """The arguments of a fit, in memory.

    Args:
        X: the table.
        y: its targets.
        extras: further arguments with one entry per row.
        total: number of rows of the whole table; None where it was in memory already.
    """

    X: Any
    y: Any
    extras: tuple[Any, ...]
    total: int | None


def read_sample(X: Any, y: Any, *extras: Any) -> Read:
    """Return arguments in memory unchanged, and a regular sample of the rows of a table that is not.

    Args:
        X: a table.
        y: its targets: something in memory, a Dask series or array, or the name of a column.
        *extras: further arguments with one entry per row, or names of columns; or None.

    Returns:
        The rows to fit to: every k-th row, with the smallest k that reads at most ``MOST`` values.
    """
    source = source_of(X)
    if source is None:
        return Read(X, y, extras, None)
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    for argument in (y, *extras):
        source = source if argument is None else source.beside(argument)
    stride = max(1, -(-_numbers(source) // MOST))
    table, target, *columns = source.every(stride)
    remaining = iter(columns)
    values = tuple(None if argument is None else next(remaining) for argument in extras)
    return Read(table, target, values, len(source))


def _numbers(source: Source) -> int:
    return source.total(_count) if source.names is None else len(source) * len(source.names)


def _count(block: Any, *_: Any) -> int:
    return int(np.prod(np.shape(block)))
