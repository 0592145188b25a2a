"""Further rows of a table, read as a sample of it was: the same kinds of columns, and the same places of levels."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._rows.columns import days
from likely._typing import Array
from likely.auditing._columns import FARTHEST, INDICATED_LEVELS, MODELLED, Columns, as_numbers


@dataclass(frozen=True)
class ColumnReader:
    """What the columns of a sample hold, to read further rows by."""

    kinds: dict[str, Any]
    levels: dict[str, list[str]]

    @classmethod
    def of(cls, columns: Columns, leave_out: Collection[str] = ()) -> Self:
        """Learn from a sample."""
        names = [name for name in columns.named(*MODELLED) if name not in leave_out]
        levels = {name: as_numbers(columns.typed[name])[1] for name in names}
        return cls(
            {name: columns.kinds[name] for name in names},
            {name: names_of_levels for name, names_of_levels in levels.items() if names_of_levels is not None},
        )

    def typed(self, block: pd.DataFrame) -> pd.DataFrame:
        """The columns of a block with their own types: numbers as floats, dates as days, categories as strings."""
        return pd.DataFrame({name: as_kind(block[name], kind) for name, kind in self.kinds.items()}, index=block.index)

    def codes(self, name: str, words: Any) -> Array:
        """The places of levels, NaN where one is missing; a level that the sample lacks comes after all others."""
        missing = pd.isna(words)
        places = pd.Index(self.levels[name]).get_indexer(pd.Index(np.where(missing, "", words)))
        return np.where(missing, np.nan, np.where(places < 0, len(self.levels[name]), places))

    def design(self, typed: pd.DataFrame) -> NDArray[np.float32]:
        """Numbers for models, as :func:`likely.auditing._columns.design` makes them of the sample."""
        parts: list[NDArray[np.float32]] = []
        for name in self.kinds:
            values = typed[name].to_numpy()
            if name not in self.levels:
                numbers = np.clip(values.astype(np.float64), -FARTHEST, FARTHEST)[:, None]
            else:
                numbers = self.codes(name, values)[:, None]
                if len(self.levels[name]) <= INDICATED_LEVELS:
                    numbers = np.where(np.isnan(numbers), np.nan, numbers == np.arange(len(self.levels[name])))
            parts.append(numbers.astype(np.float32))
        return np.concatenate(parts, axis=1)


def as_kind(column: pd.Series[Any], kind: str) -> Any:
    """A column's values as those of a kind; what is not of the kind is missing.

    >>> as_kind(pd.Series(["1", "x", None]), "number").tolist(), as_kind(pd.Series([True, None]), "category").tolist()
    ([1.0, nan, nan], ['True', None])
    """
    if kind == "number":
        numeric = pd.api.types.is_numeric_dtype(column.dtype)
        read = column if numeric else pd.to_numeric(column.astype(object), errors="coerce")
        values = read.to_numpy(np.float64, na_value=np.nan)
        return np.where(np.isinf(values), np.nan, values)
    if kind == "date":
        times = days(column)
        stamps = pd.to_datetime(column, format="ISO8601", errors="coerce", utc=True) if times is None else None
        return times if stamps is None else days(stamps)
    missing = column.isna().to_numpy(bool)
    words = np.full(len(column), None, dtype=object)
    words[~missing] = [str(value) for value in column[~missing].tolist()]
    return words
