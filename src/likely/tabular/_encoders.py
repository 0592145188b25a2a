"""The inputs of smooth members: numbers in standard units without gaps, and categories as indicators or mean targets.

A category of many levels is encoded by the mean target of each level. To keep held-out targets out of the inputs, the
encoding of a row of fold j for the model of fold k uses the rows of all other folds only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from likely._rows.columns import mean_and_deviation
from likely._typing import Array, Index

MAX_INDICATORS = 12  # largest number of levels that have a column each
LEAST_PRIOR, MOST_PRIOR = 1.0, 100.0  # strength of the overall mean in the mean of a level, in rows
COMPRESSED_DEVIATIONS = 3.0  # deviations beyond which values are compressed


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
