"""Tables that are not in memory: estimators are fitted to a sample of the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

from likely._rows.sources import source_of

MAX_NUMBERS = 1 << 25  # largest number of values that a fit reads from a table that is not in memory


class Read(NamedTuple):
    """The arguments of a fit, in memory."""

    X: Any
    y: Any
    extras: tuple[Any, ...]
    total: int | None


def read_sample(X: Any, y: Any, *extras: Any) -> Read:
    """Return arguments in memory unchanged, and a sample of the rows of a table that is not."""
    source = source_of(X)
    if source is None:
        return Read(X, y, extras, None)
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    for argument in (y, *extras):
        source = source if argument is None else source.with_columns(argument)
    stride = max(1, -(-len(source) * source.width // MAX_NUMBERS))
    table, target, *columns = source.sample(stride)
    remaining = iter(columns)
    values = tuple(None if argument is None else next(remaining) for argument in extras)
    return Read(table, target, values, len(source))
