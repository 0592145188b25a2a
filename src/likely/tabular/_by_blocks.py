"""Tables that are not in memory: estimators are fitted to a sample of the rows, and predict all of them by blocks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from likely._rows.sources import Answer, Asked, Source, source_of

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


def by_blocks(
    parts: Callable[..., int] = lambda **_: 1,
    dtype: Callable[[Any], Any] = lambda _: np.float64,
    per_row: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a method that treats each row by itself, so that it accepts tables that are not in memory.

    Columns of a table that were not in the fit, such as the target's, are left out.

    Args:
        parts: function of a call's options that returns the number of arrays the method returns; each has
            ``_width()`` columns.
        dtype: function of the fitted estimator that returns the type of the method's result.
        per_row: names of the arguments with one entry per row.

    Returns:
        The decorator.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def decorated(self: Any, X: Any, *args: Any, **options: Any) -> Any:
            source = source_of(X)
            if source is None:
                return method(self, X, *args, **options)
            bound = signature.bind(self, X, *args, **options)
            bound.apply_defaults()
            options = dict(list(bound.arguments.items())[2:])
            for name in per_row:
                source = source.beside(options.pop(name))
            count, width = parts(**options), self._width(method.__name__, **options)
            columns = None if count == 1 and width is None else count * (width or 1)
            answer = Answer(columns, np.dtype(dtype(self)), method.__name__)
            predict_block = _OfBlock(Asked(method, self, answer), per_row, options)
            return _split(source.answers(predict_block, answer), count, width)

        return decorated

    return decorate


@dataclass(frozen=True)
class _OfBlock:
    asked: Asked
    names: tuple[str, ...]
    options: dict[str, Any]

    def __call__(self, block: Any, *values: Any) -> Any:
        names = getattr(self.asked.fitted, "feature_names_in_", None)
        if names is not None and hasattr(block, "columns") and set(names) < set(block.columns):
            block = block[list(names)]
        arguments = dict(zip(self.names, values, strict=True))
        result = self.asked(block, **arguments, **self.options)
        return np.column_stack(result) if isinstance(result, tuple) else result


def _split(result: Any, count: int, width: int | None) -> Any:
    """Split the columns of a result into the arrays that the method returns."""
    if count == 1:
        return result
    columns = [part if width is None else slice(part * width, (part + 1) * width) for part in range(count)]
    if hasattr(result, "columns"):
        return tuple(result[part] if width is None else result[list(result.columns[part])] for part in columns)
    return tuple(result[:, part] for part in columns)


def refuse_blocks(X: Any, method: str, instead: str) -> None:
    """Raise an error if a table is not in memory, for a method whose result always is.

    Args:
        X: a table.
        method: name of the method.
        instead: the methods to call instead.
    """
    if source_of(X) is not None:
        raise ValueError(f"{method} holds its result in memory; for a table that is not, call {instead}")
