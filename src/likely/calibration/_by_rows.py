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
        signature = inspect.signature(method)

        @functools.wraps(method)
        def answer(self: Any, *args: Any, **options: Any) -> Any:
            bound = signature.bind(self, *args, **options)
            bound.apply_defaults()
            _, (main, X), *further = bound.arguments.items()
            source = source_of(X)
            if source is None:
                return method(self, *args, **options)
            others = {name: value for name, value in further if name in beside}
            source, split = split_source(main, source, others, getattr(self, "column_names_", None))
            wide = np.promote_types(getattr(X, "dtype", np.float64), np.float32)
            answers = Answer(None if width is None else width(self), np.dtype(dtype or wide))
            same = dict(further) | dict.fromkeys(beside)
            return source.map_rows(_OfBlock(BoundMethod(method, self, answers), split, same), answers)

        return answer

    return decorate


@dataclass(frozen=True)
class _OfBlock:
    asked: BoundMethod
    split: Split
    options: dict[str, Any]

    def __call__(self, *block: Any) -> Any:
        arrays = self.split(*block)
        values = self.asked(arrays.pop(self.split.main), **self.options | arrays)
        return values.astype(self.asked.answer.dtype, copy=False)


def remember_columns(calibrator: Any, rows: HeldOutRows) -> None:
    """Store the names of the columns that a calibrator was fitted on, where they have any."""
    names = rows.weight.table.names if rows.elsewhere else None  # type: ignore[attr-defined]
    if names is not None:
        calibrator.column_names_ = names
    else:
        calibrator.__dict__.pop("column_names_", None)
