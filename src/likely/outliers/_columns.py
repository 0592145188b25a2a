"""Tables as numbers, a block of rows at a time: categories, missing values and odd units included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from likely._rows.blocks import row_blocks
from likely._typing import Array
from likely.outliers._distinct import Distinct

_BLOCK, _ROWS = 1 << 16, 512  # numbers of a block, few enough to stay in the cache; but no fewer rows
_FAR = 1e50  # deviations: further off is not told apart, so that squares stay finite


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns of their own types, as pandas' and Polars' are."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


@dataclass(frozen=True)
class Levels:
    """The surprise of each level of a category, in nats.

    A level that c rows have is as surprising as the share of rows that have a level as rare: minus the log of that
    share, with half a row added to it. Rows are counted as if each had been left out, so that a level that was never
    seen is as surprising as the levels that are seen once: where every row has a level of its own, not at all.
    """

    codes: dict[Any, int]
    nats: Array  # by code, and last of a level that was never seen
    unseen: Array  # what a row of the level has if it is left out
    usual: float

    @classmethod
    def learn(cls, codes: dict[Any, int], column: Array, weight: Array) -> Self:
        """From the codes of a column, NaN where a value is missing."""
        seen = ~np.isnan(column)
        mass = np.bincount(column[seen].astype(np.intp), weight[seen], minlength=len(codes) + 1).astype(np.float64)
        order = np.argsort(mass)
        below = np.append(0.0, np.cumsum(mass[order]))

        def surprise(count: Array) -> Array:
            rarer = below[np.searchsorted(mass[order], count + 1 + 1e-9, "right")]
            return -np.log((rarer + 0.5) / (below[-1] + 0.5))

        nats = surprise(mass)
        usual = float(mass @ nats / below[-1]) if below[-1] > 0 else 0.0
        return cls(codes, nats, surprise(np.maximum(mass - 1, 0.0)), usual)


@dataclass(frozen=True)
class Columns:
    """How each feature becomes one number: in standard units, or the surprise of its level. NaN where it is missing."""

    levels: tuple[Levels | None, ...]  # of each feature; None for a number
    peak: Array  # the largest size in each column: divided by it, nothing overflows; of categories without a meaning
    centre: Array
    spread: Array

    @classmethod
    def learn(cls, X: Any, weight: Array | None) -> tuple[Self, Array, Distinct]:
        """Units and levels, the table as numbers, and its different rows."""
        codes = [_level_codes(column) for column in _each(X)] if is_frame(X) else [None] * X.shape[1]
        table = _numbers(X, codes)
        rows = Distinct.learn(table, weight)
        levels = tuple(
            None if own is None else Levels.learn(own, column, rows.weight)
            for own, column in zip(codes, table.T, strict=True)
        )
        return cls(levels, *_units(table, rows.weight)), table, rows

    @property
    def categories(self) -> NDArray[np.intp]:
        """The features that are categories."""
        return np.flatnonzero([own is not None for own in self.levels])

    @property
    def measured(self) -> Any:
        """The features that are numbers, as an index."""
        words = self.categories
        return np.setdiff1d(np.arange(len(self.levels)), words) if len(words) else slice(None)

    @property
    def usual(self) -> Array:
        """The mean surprise of each category."""
        return np.array([own.usual for own in self.levels if own is not None])

    def numbers(self, X: Any) -> Array:
        """The features as numbers, a category as the code of its level."""
        return _numbers(X, [None if own is None else own.codes for own in self.levels])

    def blocks(self, table: Array, unseen: bool = False) -> Iterator[tuple[slice, Array]]:
        """Rows as :meth:`standard` has them, a block at a time."""
        for rows in _slices(table):
            yield rows, self.standard(table[rows], unseen)

    def standard(self, rows: Array, unseen: bool = False) -> Array:
        """Numbers in standard units and levels as nats; as if each row had been left out, if ``unseen``."""
        rows = rows.astype(np.float64, order="C")
        with np.errstate(over="ignore"):
            z: Array = np.clip((rows / self.peak - self.centre) / self.spread, -_FAR, _FAR)
        for j, own in enumerate(self.levels):
            if own is not None:
                codes = np.nan_to_num(rows[:, j]).astype(np.intp)
                z[:, j] = np.where(np.isnan(rows[:, j]), np.nan, (own.unseen if unseen else own.nats)[codes])
        return z


def _numbers(X: Any, codes: Sequence[dict[Any, int] | None]) -> Array:
    if not is_frame(X):
        return X
    found = [_codes(column, own) for column, own in zip(_each(X), codes, strict=True)]
    return check_array(np.column_stack(found), ensure_all_finite="allow-nan")


def _units(table: Array, weight: Array) -> tuple[Array, Array, Array]:
    peak: Any = 0.0
    for rows in _slices(table):
        peak = np.maximum(peak, np.nan_to_num(np.abs(table[rows].astype(np.float64)), nan=0.0).max(0))
    peak = np.where(peak > 0, peak, 1.0)
    count, mean, square = np.zeros(len(peak)), np.zeros(len(peak)), np.zeros(len(peak))
    for rows in _slices(table):
        x = table[rows].astype(np.float64, order="C") / peak
        seen = np.isfinite(x) * weight[rows, None]
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
    return row_blocks(*table.shape, numbers=_BLOCK, least=_ROWS)


def _each(X: Any) -> Iterator[Any]:
    return (X[name] for name in X.columns)


def _level_codes(column: Any) -> dict[Any, int] | None:
    """A code for each level, whatever the order of rows; None for a column of numbers."""
    if (
        str(column.dtype).lower() not in ("category", "categorical", "enum", "bool", "boolean")
        and _floats(column) is not None
    ):
        return None
    levels = {value for value in np.asarray(column, dtype=object).tolist() if not _missing(value)}
    return {level: code for code, level in enumerate(sorted(levels, key=lambda own: (type(own).__name__, str(own))))}


def _codes(column: Any, codes: dict[Any, int] | None) -> Array:
    if codes is None:
        found = _floats(column)
        if found is None:
            raise ValueError(f"column {column.name!r} held numbers when this was fitted, and now it does not")
        return found
    values = np.asarray(column, dtype=object).tolist()
    return np.array([np.nan if _missing(value) else codes.get(value, len(codes)) for value in values], np.float64)


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
