"""Tables as standardised numbers, a block of rows at a time: categories, missing values and odd units included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

Array = NDArray[np.float64]

_BLOCK, _ROWS = 1 << 16, 512  # numbers of a block, few enough to stay in the cache; but no fewer rows
_LEVELS = 30  # of a category, at most; rarer ones are one
_FAR = 1e50  # deviations: further off is not told apart, so that squares stay finite


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns of their own types, as pandas' and Polars' are."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


@dataclass(frozen=True)
class Columns:
    """How each feature becomes numbers, and their units.

    A number is one column. A category has a column of zeros and ones for each level, and one for the rest: levels seen
    once, beyond the thirty most frequent, or never. A missing value is NaN in all columns of its feature.
    """

    levels: tuple[tuple[Any, ...] | None, ...]  # of each feature; None for a number
    peak: Array  # the largest size in each column: divided by it, nothing overflows
    centre: Array
    spread: Array

    @classmethod
    def learn(cls, X: Any, weight: Array | None) -> tuple[Self, Array]:
        """Levels, means and standard deviations, and the table as numbers."""
        levels = tuple(_levels(column) for column in _each(X)) if is_frame(X) else (None,) * X.shape[1]
        plain = cls(levels, np.ones(1), np.zeros(1), np.ones(1))
        table = plain.numbers(X)
        peak, *moments = plain._units(table, weight)
        return cls(levels, peak, *moments), table

    @property
    def owner(self) -> NDArray[np.int64]:
        """The feature each column is of."""
        widths = [1 if own is None else len(own) + 1 for own in self.levels]
        return np.repeat(np.arange(len(widths)), widths)

    def numbers(self, X: Any) -> Array:
        """The features as numbers, a category as the place of its level."""
        if not is_frame(X):
            return X  # type: ignore[no-any-return]
        found = [_codes(column, own) for column, own in zip(_each(X), self.levels, strict=True)]
        table: Array = check_array(np.column_stack(found), ensure_all_finite="allow-nan")
        return table

    def blocks(self, table: Array) -> Iterator[tuple[slice, Array]]:
        """Rows in standard units, NaN where a value is missing."""
        for rows in _slices(table):
            yield rows, self.standard(table[rows])

    def standard(self, rows: Array) -> Array:
        """Rows in standard units."""
        with np.errstate(over="ignore"):
            return np.clip((self._spelled_out(rows) / self.peak - self.centre) / self.spread, -_FAR, _FAR)

    def _spelled_out(self, rows: Array) -> Array:
        rows = rows.astype(np.float64)
        if all(own is None for own in self.levels):
            return rows
        return np.column_stack(
            [
                column
                if own is None
                else np.where(np.isnan(column), np.nan, column == np.arange(len(own) + 1)[:, None]).T
                for column, own in zip(rows.T, self.levels, strict=True)
            ]
        )

    def _units(self, table: Array, weight: Array | None) -> tuple[Array, Array, Array]:
        peak: Any = 0.0
        for rows in _slices(table):
            peak = np.maximum(peak, np.nan_to_num(np.abs(self._spelled_out(table[rows])), nan=0.0).max(0))
        peak = np.where(peak > 0, peak, 1.0)
        count, mean, square = np.zeros(len(peak)), np.zeros(len(peak)), np.zeros(len(peak))
        for rows in _slices(table):
            x = self._spelled_out(table[rows]) / peak
            seen = np.isfinite(x) * (1.0 if weight is None else weight[rows, None])
            x = np.nan_to_num(x)
            own = seen.sum(0)
            total = count + own
            share = own / np.where(total > 0, total, 1.0)
            middle = (seen * x).sum(0) / np.where(own > 0, own, 1.0)
            gap = middle - mean
            square += (seen * np.square(x - middle)).sum(0) + np.square(gap) * count * share
            mean, count = mean + share * gap, total
        spread = np.sqrt(square / np.where(count > 0, count, 1.0))
        # A constant column's unit is its size, or a new value there would be no news at all.
        varies = spread > 1e-12 * np.abs(mean)
        return peak, mean, np.where(varies, spread, np.where(mean != 0, np.abs(mean), 1.0))


def _slices(table: Array) -> Iterator[slice]:
    step = max(_ROWS, _BLOCK // max(1, table.shape[1]))
    return (slice(start, start + step) for start in range(0, len(table), step))


def _each(X: Any) -> Iterator[Any]:
    return (X[name] for name in X.columns)


def _levels(column: Any) -> tuple[Any, ...] | None:
    if (
        str(column.dtype).lower() not in ("category", "categorical", "enum", "bool", "boolean")
        and _floats(column) is not None
    ):
        return None
    counts = Counter(value for value in np.asarray(column, dtype=object).tolist() if not _missing(value))
    return tuple(level for level, count in counts.most_common(_LEVELS) if count > 1)


def _codes(column: Any, levels: tuple[Any, ...] | None) -> Array:
    if levels is None:
        found = _floats(column)
        if found is None:
            raise ValueError(f"column {column.name!r} held numbers when this was fitted, and now it does not")
        return found
    place = {level: float(code) for code, level in enumerate(levels)}
    values = np.asarray(column, dtype=object).tolist()
    return np.array([np.nan if _missing(value) else place.get(value, float(len(levels))) for value in values])


def _floats(column: Any) -> Array | None:
    """The column as floats, if that is what it is; times count in days."""
    values = np.asarray(column)
    if values.dtype.kind in "mM":
        fine = values.astype(f"{values.dtype.kind}8[ns]")
        return np.where(np.isnat(fine), np.nan, fine.astype(np.int64) / 86_400e9)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    each = values.tolist() if values.dtype.kind == "O" else [""]
    if any(isinstance(value, str | bytes) for value in each):
        return None
    try:
        return np.array([np.nan if _missing(value) else float(value) for value in each])
    except (TypeError, ValueError):
        return None


def _missing(value: Any) -> bool:
    """None, NaN, and pandas' NA and NaT, of which none equals itself."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
