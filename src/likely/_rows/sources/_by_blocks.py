"""Methods that treat each row by itself, for tables that are not in memory."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from likely._rows.sources._kinds import is_source, source_of
from likely._rows.sources._source import Answer, Asked


def by_blocks(
    width: Callable[..., int | None] = lambda _, **__: None,
    dtype: Callable[[Any], Any] = lambda _: np.float64,
    per_row: str = "",
    arrays: Callable[..., int] = lambda **_: 1,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a method that treats each row by itself, so that it accepts tables in blocks.

    Columns of a frame are taken by their names: those of a file cannot be dropped, such as the target's, or moved.
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
            further = {name: options.pop(name) for name in per_row.split()}
            names = tuple(name for name, values in further.items() if values is not None)
            for name in names:
                source = source.beside(further[name])
            count, numbers = arrays(**options), width(self, **options)
            columns = None if count == 1 and numbers is None else count * (numbers or 1)
            answer = Answer(columns, np.dtype(dtype(self)), method.__name__)
            result = source.answers(_OfBlock(Asked(method, self, answer), names, options), answer)
            return _separated(result, count, numbers)

        return decorated

    return decorate


@dataclass(frozen=True)
class _OfBlock:
    asked: Asked
    names: tuple[str, ...]
    options: dict[str, Any]

    def __call__(self, block: Any, *values: Any) -> Any:
        fitted = getattr(self.asked.fitted, "feature_names_in_", None)
        if fitted is not None and hasattr(block, "columns") and set(fitted) <= set(block.columns):
            block = block[list(fitted)]
        result = self.asked(block, **dict(zip(self.names, values, strict=True)), **self.options)
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
