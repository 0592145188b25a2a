"""Outputs row by row for tables in blocks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from likely._rows.opened import Split, split_source
from likely._rows.sources import Answer, BoundMethod, source_of
from likely.calibration._held_out import HeldOutRows


def by_rows(
    *beside: str, width: Callable[[Any], int] | None = None, dtype: Any = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a method that returns a value per row, so that it takes tables in blocks and returns the same kind.

    Further arguments of the rows may be of the table's kind, arrays in memory, or names of the table's columns.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        parameters = list(inspect.signature(method).parameters)

        @functools.wraps(method)
        def answer(self: Any, *args: Any, **options: Any) -> Any:
            X = args[0] if args else options.get(parameters[1])
            source = source_of(X)
            if source is None:
                return method(self, *args, **options)
            options |= dict(zip(parameters[1:], args, strict=False))
            del options[parameters[1]]
            others = {name: options.pop(name, None) for name in beside}
            source, split = split_source(parameters[1], source, others, getattr(self, "column_names_", None))
            defaults = {**dict.fromkeys(beside), **options}
            answers = Answer(None if width is None else width(self), np.dtype(dtype or _wide(X)))
            return source.map_rows(_OfBlock(BoundMethod(method, self, answers), split, defaults), answers)

        return answer

    return decorate


@dataclass(frozen=True)
class _OfBlock:
    asked: BoundMethod
    split: Split
    options: dict[str, Any]

    def __call__(self, *block: Any) -> Any:
        arrays = self.split(*block)
        values = self.asked(arrays.pop(self.split.main), **{**self.options, **arrays})
        return values.astype(self.asked.answer.dtype, copy=False)


def _wide(X: Any) -> Any:
    return np.promote_types(getattr(X, "dtype", np.float64), np.float32)


def remember_columns(calibrator: Any, rows: HeldOutRows) -> None:
    """Store the names of the columns that a calibrator was fitted on, where they have any."""
    names = rows.weight.table.names if rows.elsewhere else None  # type: ignore[attr-defined]
    if names is not None:
        calibrator.column_names_ = names
    else:
        calibrator.__dict__.pop("column_names_", None)
