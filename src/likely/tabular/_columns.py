"""The rows and columns that models read: a sample of a long table, and its columns as numbers.

Categories are codes, dates are days and phases, gaps NaN. Smooth members read numbers in standard units without gaps,
and categories as indicators or mean targets. A category of many levels is encoded by the mean target of each level. To
keep held-out targets out of the inputs, the encoding of a row of fold j for the model of fold k uses the rows of all
other folds only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import _safe_indexing
from torch import Tensor

from likely._rows.columns import (
    are_dates,
    as_codes,
    as_numbers,
    each_column,
    is_frame,
    level_codes,
    mean_and_deviation,
)
from likely._rows.sources import source_of
from likely._typing import Array, Index

MAX_NUMBERS = 1 << 25  # largest number of values that a fit reads from a table that is not in memory
SAMPLE_ROWS = 500  # about the size of a sample for importances
PERIODS = (365.2425, 7.0, 1.0)  # days of a year, a week, a day
MAX_INDICATORS = 12  # largest number of levels that have a column each
LEAST_PRIOR, MOST_PRIOR = 1.0, 100.0  # strength of the overall mean in the mean of a level, in rows
COMPRESSED_DEVIATIONS = 3.0  # deviations beyond which values are compressed


def read_sample(X: Any, y: Any, *extras: Any) -> tuple[Any, Any, tuple[Any, ...], int | None]:
    """Return arguments in memory unchanged, and a sample of the rows of a table that is not; also its length.

    The length is None for arguments in memory.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    source = source_of(X)
    if source is None:
        return X, y, extras, None
    for argument in (y, *extras):
        source = source if argument is None else source.with_columns(argument)
    stride = max(1, -(-len(source) * source.width // MAX_NUMBERS))
    table, target, *columns = source.sample(stride)
    remaining = iter(columns)
    values = tuple(None if argument is None else next(remaining) for argument in extras)
    return table, target, values, len(source)


def sample_rows(X: Any, order: Index) -> Any:
    """Return a regular sample of about 500 rows."""
    return _safe_indexing(X, np.sort(order[:: -(-len(order) // SAMPLE_ROWS)]))


@dataclass(frozen=True)
class Numbers:
    """A column of numbers."""

    def read(self, column: Any) -> list[Array]:
        """Return the numbers."""
        return [as_numbers(column)]


@dataclass(frozen=True)
class Dates:
    """A column of times: days, and the phase of the year, the week and the day."""

    def read(self, column: Any) -> list[Array]:
        """Return the days, and sine and cosine of each phase."""
        if np.asarray(column).dtype.kind in "iu":  # a stored sample holds days, which are no whole numbers to NumPy
            raise ValueError(f"column {column.name!r} held dates in the fit and holds whole numbers now: keep its type")
        days = as_numbers(column, "dates")
        turns = [days * (2 * np.pi / period) for period in PERIODS]
        return [days, *(wave(turn) for turn in turns for wave in (np.sin, np.cos))]


@dataclass(frozen=True)
class LevelCodes:
    """A column of categories."""

    codes: dict[Any, int]
    ordered: bool

    def read(self, column: Any) -> list[Array]:
        """Return the code of each row's level, NaN where it is missing or was not in the training rows."""
        codes = as_codes(column, self.codes)
        return [np.where(codes < len(self.codes), codes, np.nan)]


@dataclass(frozen=True)
class TableColumns:
    """How each column of a table is read."""

    kinds: tuple[Numbers | Dates | LevelCodes, ...]

    @classmethod
    def learn(cls, X: Any, weight: Array) -> Self:
        """Learn the kind of each column from training rows."""
        return cls(tuple(_kind(column, weight) if is_frame(X) else Numbers() for column in each_column(X)))

    @property
    def sources(self) -> tuple[int, ...]:
        """The column that each number of a row is read from."""
        widths = [1 + 2 * len(PERIODS) if isinstance(kind, Dates) else 1 for kind in self.kinds]
        return tuple(np.repeat(np.arange(len(widths)), widths).tolist())

    @property
    def categories(self) -> tuple[int, ...]:
        """The positions, among the numbers of a row, of codes without an order."""
        unordered = [isinstance(kind, LevelCodes) and not kind.ordered for kind in self.kinds]
        return tuple(position for position, source in enumerate(self.sources) if unordered[source])

    def __call__(self, X: Any) -> Array:
        """Convert a table to numbers, of shape (rows, numbers)."""
        read = [part for kind, column in zip(self.kinds, each_column(X), strict=True) for part in kind.read(column)]
        return np.column_stack(read).astype(np.float64, copy=False)


def _kind(column: Any, weight: Array) -> Numbers | Dates | LevelCodes:
    if are_dates(column):
        return Dates()
    level_code = level_codes(column)
    if level_code is None:
        return Numbers()
    if getattr(column.dtype, "ordered", False):
        return LevelCodes({level: position for position, level in enumerate(column.dtype.categories)}, ordered=True)
    codes = as_codes(column, level_code)
    present = np.isfinite(codes)
    mass = np.bincount(codes[present].astype(np.intp), weight[present], minlength=len(level_code))
    rank = np.empty(len(level_code), dtype=np.intp)
    # The most frequent level has the lowest code.
    rank[np.argsort(-mass, kind="stable")] = np.arange(len(level_code))
    return LevelCodes({level: int(rank[code]) for level, code in level_code.items()}, ordered=False)


@dataclass(frozen=True)
class Number:
    """A column of numbers in standard units."""

    centre: float
    spread: float
    gaps: bool  # whether values were missing

    @classmethod
    def learn(cls, values: Array, weight: Array) -> Self:
        """Learn median and quartiles of a column, or the deviation where the quartiles are equal."""
        counted = np.isfinite(values) & (weight > 0)
        if not counted.any():
            return cls(0.0, 1.0, gaps=True)
        finite, mass = values[counted], weight[counted]
        size = max(float(np.abs(finite).max()), np.finfo(np.float64).tiny)  # squares may overflow
        finite = finite / size
        order = np.argsort(finite, kind="stable")
        total = np.cumsum(mass[order])
        low, middle, high = finite[order[np.searchsorted(total, np.array([0.25, 0.5, 0.75]) * total[-1])]]
        spread = (high - low) / 1.349
        if not spread > 1e-9 * abs(middle):
            spread = float(np.sqrt(np.average(np.square(finite - middle), weights=mass)))
        if not spread > 1e-12 * abs(middle):
            spread = 1.0
        return cls(float(middle) * size, max(float(spread) * size, 1e-300), not counted.all())

    def __call__(self, values: Array, fold: int, row_folds: Index | None) -> list[Array]:
        """Return values in standard units, with large ones compressed; and an indicator of missing values."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = np.clip((values - self.centre) / self.spread, -1e9, 1e9)
        gap = ~np.isfinite(values)
        z = np.where(gap, 0.0, z / np.sqrt(1 + np.square(z / COMPRESSED_DEVIATIONS)))
        return [z, gap.astype(np.float64)] if self.gaps else [z]


@dataclass(frozen=True)
class Indicator:
    """A category of few levels: one column per level."""

    levels: int

    def __call__(self, codes: Array, fold: int, row_folds: Index | None) -> list[Array]:
        """Return one where a row has the level, else zero; two levels need one column."""
        shown = range(self.levels) if self.levels != 2 else range(1)
        return [(codes == level).astype(np.float64) for level in shown]


@dataclass(frozen=True)
class MeanEncoding:
    """A category of many levels: the mean target of each level, and its frequency."""

    sums: Array  # (folds, levels + 1, outputs)
    counts: Array  # (folds, levels + 1)
    prior: float  # strength of the overall mean, in rows

    @classmethod
    def learn(cls, codes: Array, levels: int, target: Array, weight: Array, folds: Index) -> Self:
        """Learn sums and counts from the codes of a column, and the prior from the variances in and between levels."""
        code = np.where(np.isfinite(codes), codes, levels).astype(np.intp)
        sums, counts = np.zeros((folds.max() + 1, levels + 1, target.shape[1])), np.zeros((folds.max() + 1, levels + 1))
        np.add.at(sums, (folds, code), target * weight[:, None])
        np.add.at(counts, (folds, code), weight)
        total, rows = sums.sum(0), counts.sum(0)
        means, n, present = total / np.maximum(rows, 1e-12)[:, None], rows.sum(), np.count_nonzero(rows)
        squares = np.square(target - means[code]).sum(1) @ weight
        within = squares / max(n - present, 1.0)
        spread = rows @ np.square(means - total.sum(0) / n).sum(1) - (present - 1) * within
        between = spread / max(n - rows @ rows / n, 1e-12)
        return cls(sums, counts, float(np.clip(within / max(between, 1e-300), LEAST_PRIOR, MOST_PRIOR)))

    def __call__(self, codes: Array, fold: int, row_folds: Index | None) -> list[Array]:
        """Return the encoding from rows outside ``fold`` and outside each row's own fold."""
        code = np.where(np.isfinite(codes), codes, self.counts.shape[1] - 1).astype(np.intp)
        sums, counts = self.sums.sum(0) - self.sums[fold], self.counts.sum(0) - self.counts[fold]
        rate = sums.sum(0) / max(counts.sum(), 1e-12)
        sums, counts = sums[code], counts[code]
        if row_folds is not None:
            differs = row_folds != fold
            sums = sums - np.where(differs[:, None], self.sums[row_folds, code], 0.0)
            counts = counts - np.where(differs, self.counts[row_folds, code], 0.0)
        counts = np.maximum(counts, 0.0)  # differences of sums may round below
        means = (sums + self.prior * rate) / (counts + self.prior)[:, None]
        return [*means.T, np.log1p(counts)]


@dataclass(frozen=True)
class Encoders:
    """How each number of a row is encoded for smooth members."""

    columns: tuple[Number | Indicator | MeanEncoding, ...]
    units: tuple[tuple[Array, Array], ...]  # mean and deviation of the inputs of each fold
    n_folds: int

    @classmethod
    def learn(
        cls, plain: Array, categories: tuple[int, ...], target: Array, weight: Array, folds: Index, device: str
    ) -> tuple[Self, list[Tensor]]:
        """Learn the encoding of training rows (rows, numbers); also return them encoded for the model of each fold."""
        columns: list[Number | Indicator | MeanEncoding] = []
        for position, values in enumerate(plain.T):
            levels = int(np.nanmax(values, initial=-1.0)) + 1 if position in categories else None
            if levels is None:
                columns.append(Number.learn(values, weight))
            elif levels <= MAX_INDICATORS:
                columns.append(Indicator(levels))
            else:
                columns.append(MeanEncoding.learn(values, levels, target, weight, folds))
        start = cls(tuple(columns), (), int(folds.max()) + 1)
        inputs = list(start._inputs(plain, folds))
        units = tuple(mean_and_deviation(part, weight) for part in inputs)
        encoders = cls(start.columns, units, start.n_folds)
        return encoders, encoders._shared(inputs, device)

    @property
    def effects(self) -> Index:
        """The inputs that are mean targets or frequencies of levels."""
        widths = [len(column(np.zeros(1), 0, None)) for column in self.columns]
        return np.flatnonzero(np.repeat([isinstance(column, MeanEncoding) for column in self.columns], widths))

    def __call__(self, plain: Array, device: str) -> list[Tensor]:
        """Encode rows, which may be new, for the model of each fold."""
        return self._shared(self._inputs(plain, None), device)

    def _inputs(self, plain: Array, row_folds: Index | None) -> Iterator[Array]:
        """Yield the inputs once per fold; once for all folds where no column is encoded by the target."""
        encoded = any(isinstance(column, MeanEncoding) for column in self.columns)
        for fold in range(self.n_folds if encoded else 1):
            columns = zip(self.columns, plain.T, strict=True)
            parts = [part for encode, values in columns for part in encode(values, fold, row_folds)]
            yield np.column_stack(parts) if parts else np.zeros((len(plain), 0))

    def _shared(self, inputs: Iterator[Array] | list[Array], device: str) -> list[Tensor]:
        smooth = [
            torch.from_numpy(((part - mean) / deviation).astype(np.float32)).to(device)
            for part, (mean, deviation) in zip(inputs, self.units, strict=True)
        ]
        return smooth * self.n_folds if len(smooth) == 1 else smooth
