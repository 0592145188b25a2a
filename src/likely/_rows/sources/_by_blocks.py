"""Methods that treat each row by itself, for tables that are not in memory."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from likely._rows.sources._kinds import is_source, source_of
from likely._rows.sources._source import Answer, BoundMethod


def by_blocks(
    width: Callable[..., int | None] = lambda _, **__: None,
    dtype: Callable[[Any], Any] = lambda _: np.float64,
    per_row: str = "",
    arrays: Callable[..., int] = lambda **_: 1,
    texts: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a method that treats each row by itself, so that it accepts tables in blocks.

    Its result has ``arrays`` arrays of ``width`` columns; ``per_row`` names further arguments with one value per row.
    With ``texts`` a list is the rows themselves, not paths.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def decorated(self: Any, X: Any, *args: Any, **options: Any) -> Any:
            source = None if texts and isinstance(X, list | tuple) else source_of(X)
            if source is None:
                return method(self, X, *args, **options)
            options = _options(signature, self, X, *args, **options)
            per_row_values = {name: options.pop(name) for name in per_row.split()}
            names = tuple(name for name, values in per_row_values.items() if values is not None)
            for name in names:
                source = source.with_columns(per_row_values[name])
            count, columns = arrays(**options), width(self, **options)
            answer = Answer(_total_width(count, columns), np.dtype(dtype(self)))
            result = source.map_rows(_OfBlock(BoundMethod(method, self, answer), names, options), answer)
            return _separated(result, count, columns)

        return decorated

    return decorate


def _options(signature: inspect.Signature, *args: Any, **options: Any) -> dict[str, Any]:
    """Return the arguments after ``self`` and ``X`` by their names, with their defaults."""
    bound = signature.bind(*args, **options)
    bound.apply_defaults()
    return dict(list(bound.arguments.items())[2:])


def _total_width(count: int, columns: int | None) -> int | None:
    return None if count == 1 and columns is None else count * (columns or 1)


@dataclass(frozen=True)
class _OfBlock:
    method: BoundMethod
    names: tuple[str, ...]
    options: dict[str, Any]

    def __call__(self, block: Any, *values: Any) -> Any:
        # By their names: columns of a file cannot be dropped, such as the target's, or moved.
        fitted = getattr(self.method.fitted, "feature_names_in_", None)
        if fitted is not None and hasattr(block, "columns") and set(fitted) <= set(block.columns):
            block = block[list(fitted)]
        result = self.method(block, **dict(zip(self.names, values, strict=True)), **self.options)
        return np.column_stack(result) if isinstance(result, tuple) else result


def _separated(result: Any, count: int, width: int | None) -> Any:
    """Return the arrays that a method returns, whose columns were put side by side."""
    if count == 1:
        return result
    columns = [place if width is None else slice(place * width, (place + 1) * width) for place in range(count)]
    if hasattr(result, "columns"):
        return tuple(result[place] if width is None else result[list(result.columns[place])] for place in columns)
    return tuple(result[:, place] for place in columns)


def refuse_blocks(X: Any, method: str, instead: str) -> None:
    """Raise an error if a table is not in memory, for a method whose result always is."""
    if is_source(X):
        raise ValueError(f"{method} holds its result in memory; for a table that is not, call {instead}")
