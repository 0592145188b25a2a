"""Tables as numbers, a block of rows at a time, and their different rows: categories, missing values, odd units."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_array

from likely._rows.blocks import row_blocks
from likely._rows.columns import as_codes, as_numbers, each_column, is_frame, level_codes
from likely._rows.contents import rank_keys
from likely._typing import Array, Index
from likely.outliers.threshold import quantiles

_BLOCK_NUMBERS = 1 << 16  # few enough to stay in the cache
_MIN_BLOCK_ROWS = 512
# Up to so many columns, products of a block have few enough multiplications for BLAS to use one thread: several only
# wait for each other, for long where other processes keep the cores busy.
_NARROW, _NARROW_PRODUCTS = 16, 1 << 18
_CLIP_DEVIATIONS = 1e50  # further off is not told apart, so that squares stay finite
_MIN_COMMON = 0.9  # share of rows with the same value from which others are exceptions
_MIN_ROWS = 20  # rows that any table amounts to
_SINGLE = 2.0**-24  # relative, the largest rounding of single precision
_SAME_DISTANCE = 1e-6  # relative difference of distances that are equal, rounded


@dataclass(frozen=True)
class RowGroups:
    """The different rows of a table and how much each weighs.

    Two rows of weight one are one row of weight two, and weights may be of any scale. So a unit of weight is a
    property of the different rows: the median of what they weigh, or a twentieth of all if that is less.
    """

    weight: Array  # of every row of the table, in such units
    first: Index  # where each different row is first met; sorted by a key of its values
    mass: Array  # of each of these
    place: Index  # of every row of the table, which of these it is; -1 if it has no weight

    @property
    def left_out(self) -> Array:
        """What is left out of a fit that leaves a row out: the usual weight, or all that rows equal to it have."""
        return np.where(self.place >= 0, np.minimum(self.mass[self.place], quantiles(self.mass, None, 0.5)), 0.0)

    @classmethod
    def learn(cls, table: Array, weight: Array | None) -> Self:
        """Group equal rows; rows of no weight are left out."""
        scaled_weight = np.ones(len(table)) if weight is None else weight / 2.0 ** np.frexp(weight.max())[1]  # exactly
        there = np.flatnonzero(scaled_weight > 0)
        exact, symmetric = rank_keys(table[there])
        _, first, group = np.unique(exact, return_index=True, return_inverse=True)
        mass = np.bincount(group, scaled_weight[there])
        order = np.lexsort((exact[first], symmetric[first]))
        unit = min(quantiles(mass, None, 0.5), mass.sum() / _MIN_ROWS)
        place = np.full(len(table), -1)
        place[there] = np.argsort(order)[group]
        return cls(scaled_weight / unit, there[first[order]], mass[order] / unit, place)


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

    def surprise(self, column: Array, unseen: bool) -> Array:
        """Nats of each code; as if its row had been left out, if ``unseen``."""
        codes = np.nan_to_num(column).astype(np.intp)
        return np.where(np.isnan(column), np.nan, (self.unseen if unseen else self.nats)[codes])


@dataclass(frozen=True)
class Exceptions:
    """The surprise of a value, in nats, where nine rows of ten have the same one: a deviation has no usual size there.

    A value is as surprising as the share of rows that are as far from the common value: minus the log of that share,
    with half a row added to it.
    """

    common: float
    distance: Array  # of the exceptions from the common value, in order
    beyond: Array  # weight of the rows at least as far away as each, and last of none
    total: float
    usual: float

    @classmethod
    def learn(cls, column: Array, weight: Array) -> Self | None:
        """From a column, NaN where a value is missing; None if its values are not nearly all the same, or all are."""
        seen = ~np.isnan(column) & (weight > 0)
        values, mass = column[seen].astype(np.float64), weight[seen]
        if not len(values):
            return None
        common = float(quantiles(values, mass, 0.5))  # the weighted median: the common value, if there is one
        least_off = _least_off(values, common)
        other = least_off > 0
        if not other.any() or mass[other].sum() > (1 - _MIN_COMMON) * mass.sum():
            return None
        order = np.argsort(least_off[other])
        beyond = np.append(np.cumsum(mass[other][order][::-1])[::-1], 0.0)
        plain = cls(common, least_off[other][order], beyond, float(mass.sum()), 0.0)
        return replace(plain, usual=float(mass @ plain.surprise(values, unseen=False)) / plain.total)

    def surprise(self, column: Array, unseen: bool) -> Array:
        """Nats of each value; as if its row had been left out, if ``unseen``."""
        off = _least_off(column.astype(np.float64), self.common)
        further = self.beyond[np.searchsorted(self.distance, off * (1 - _SAME_DISTANCE), "left")]
        further = np.where(off > 0, np.maximum(further - unseen, 0.0), self.total)
        return np.where(np.isnan(off), np.nan, -np.log((further + 0.5) / (self.total + 0.5)))


def _least_off(values: Array, common: float) -> Array:
    """How far values are from the common one, at least, if both were rounded to single precision."""
    with np.errstate(over="ignore"):
        return np.maximum(np.abs(values - common) - _SINGLE * np.abs(values) - _SINGLE * abs(common), 0.0)


@dataclass(frozen=True)
class FeatureUnits:
    """How each feature becomes one number: in standard units, or the surprise of its level. NaN where it is missing."""

    levels: tuple[Levels | Exceptions | None, ...]  # of each feature; None for a number
    unit: Array  # a power of two by which numbers become at most one, about; of categories without a meaning
    centre: Array  # in these units
    inverse: Array  # of the spread

    @classmethod
    def learn(cls, X: Any, weight: Array | None, exceptions: bool = False) -> tuple[Self, Array, RowGroups]:
        """Units and levels, the table as numbers, and its different rows.

        With ``exceptions``, a column of numbers of which most are one value is a category of its own kind.
        """
        codes = [level_codes(column) for column in each_column(X)] if is_frame(X) else [None] * X.shape[1]
        table = _numbers(X, codes)
        rows = RowGroups.learn(table, weight)
        levels = tuple(
            Levels.learn(column_codes, column, rows.weight)
            if column_codes is not None
            else (Exceptions.learn(column, rows.weight) if exceptions else None)
            for column_codes, column in zip(codes, table.T, strict=True)
        )
        units = [_column_units(column.astype(np.float64), rows.weight) for column in table.T]
        return cls(levels, *np.array(units).reshape(-1, 3).T), table, rows

    @property
    def categories(self) -> Index:
        """The features that are categories, or numbers of which most are one value."""
        return np.flatnonzero([level is not None for level in self.levels])

    @property
    def measured(self) -> Any:
        """The features that are numbers, as an index."""
        categories = self.categories
        return np.setdiff1d(np.arange(len(self.levels)), categories) if len(categories) else slice(None)

    @property
    def usual(self) -> Array:
        """The mean surprise of each category."""
        return np.array([level.usual for level in self.levels if level is not None])

    def numbers(self, X: Any) -> Array:
        """The features as numbers, a category as the code of its level."""
        return _numbers(X, [level.codes if isinstance(level, Levels) else None for level in self.levels])

    def blocks(self, table: Array, unseen: bool = False) -> Iterator[tuple[slice, Array]]:
        """Rows as :meth:`standard` has them, a block at a time."""
        for rows in slices(table):
            yield rows, self.standard(table[rows], unseen)

    def standard(self, rows: Array, unseen: bool = False) -> Array:
        """Numbers in standard units and levels as nats; as if each row had been left out, if ``unseen``."""
        rows = rows.astype(np.float64, order="C")
        with np.errstate(over="ignore"):
            z: Array = np.clip((rows * self.unit - self.centre) * self.inverse, -_CLIP_DEVIATIONS, _CLIP_DEVIATIONS)
        z[:, self.categories] = self.surprise(rows, unseen)
        return z

    def surprise(self, rows: Array, unseen: bool = False) -> Array:
        """The nats of the categories, rows × categories; as if each row had been left out, if ``unseen``."""
        nats = np.empty((len(rows), len(self.categories)))
        for j, feature in enumerate(self.categories):
            level = self.levels[feature]
            assert level is not None
            nats[:, j] = level.surprise(rows[:, feature], unseen)
        return nats


def _numbers(X: Any, codes: Sequence[dict[Any, int] | None]) -> Array:
    if not is_frame(X):
        return X
    if all(kind in (np.float32, np.float64) for kind in X.dtypes):  # floats of either width are left as they are
        return check_array(X.to_numpy(), ensure_all_finite="allow-nan")
    columns = [
        as_numbers(column) if column_codes is None else as_codes(column, column_codes)
        for column, column_codes in zip(each_column(X), codes, strict=True)
    ]
    return check_array(np.column_stack(columns), ensure_all_finite="allow-nan")


def _column_units(column: Array, weight: Array) -> tuple[float, float, float]:
    """A power of two, and the mean and one over the deviation of the column times that."""
    seen = np.isfinite(column) & (weight > 0)
    if not seen.any():
        return 1.0, 0.0, 1.0
    x, mass = column[seen], weight[seen]
    unit = math.ldexp(1.0, -min(max(math.frexp(np.abs(x).max())[1], -1000), 1000))  # rounds nothing; no overflow
    x *= unit
    # A constant less its mean is exactly zero.
    mean = float(np.average(x, weights=mass)) if np.ptp(x) else float(x[0])
    spread = math.sqrt(np.average(np.square(x - mean), weights=mass))
    # The unit of a constant is its size, or a new value there would be no news at all.
    return unit, mean, 1 / (spread if spread > 1e-12 * abs(mean) else abs(mean) or 1.0)


def slices(table: Array) -> Iterator[slice]:
    """Rows of a table, few enough at a time to stay in the cache."""
    width = max(1, table.shape[1])
    numbers = _NARROW_PRODUCTS // width if width <= _NARROW else _BLOCK_NUMBERS
    return row_blocks(len(table), width, numbers=numbers, least=_MIN_BLOCK_ROWS)
