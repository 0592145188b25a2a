"""What smooth members read: numbers in standard units without gaps, and categories as what the target is like there.

Categories of many levels become the mean target of a level, and no row's own target, nor that of any row which judges
it, enters what is said of the row: a row of fold j is told to the model of fold k by rows of neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from likely._rows.units import mean_and_deviation
from likely._typing import Array, Index

FEW = 12  # levels up to which each has a column of its own
PRIOR = 10.0  # rows of the mean target that stand behind a level's
FAR = 3.0  # deviations from which a number hardly counts for more


@dataclass(frozen=True)
class Number:
    """A column of numbers in standard units."""

    centre: float
    spread: float
    gaps: bool  # whether some rows had no number

    @classmethod
    def learn(cls, values: Array, weight: Array) -> Self:
        """From the numbers of a column: median and quartiles, or the deviation where quartiles are equal."""
        seen = np.isfinite(values) & (weight > 0)
        if not seen.any():
            return cls(0.0, 1.0, gaps=True)
        own, mass = values[seen], weight[seen]
        size = max(float(np.abs(own).max()), np.finfo(np.float64).tiny)  # squares may overflow
        own = own / size
        order = np.argsort(own, kind="stable")
        total = np.cumsum(mass[order])
        low, middle, high = own[order[np.searchsorted(total, np.array([0.25, 0.5, 0.75]) * total[-1])]]
        spread = (high - low) / 1.349
        if not spread > 1e-9 * abs(middle):
            spread = float(np.sqrt(np.average(np.square(own - middle), weights=mass)))
        if not spread > 1e-12 * abs(middle):
            spread = 1.0
        return cls(float(middle) * size, max(float(spread) * size, 1e-300), not seen.all())

    def __call__(self, values: Array, fold: int, own: Index | None) -> list[Array]:
        """Standard units that far values do not stretch; and whether there is a value at all."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = np.clip((values - self.centre) / self.spread, -1e9, 1e9)
        gap = ~np.isfinite(values)
        z = np.where(gap, 0.0, z / np.sqrt(1 + np.square(z / FAR)))
        return [z, gap.astype(np.float64)] if self.gaps else [z]


@dataclass(frozen=True)
class Indicator:
    """A category of few levels: a column for each."""

    levels: int

    def __call__(self, codes: Array, fold: int, own: Index | None) -> list[Array]:
        """One where a row has the level; two levels need one column."""
        shown = range(self.levels) if self.levels != 2 else range(1)
        return [(codes == level).astype(np.float64) for level in shown]


@dataclass(frozen=True)
class Encoding:
    """A category of many levels: the mean target of each, and how often it is met."""

    sums: Array  # (folds, levels + 1, outputs)
    counts: Array  # (folds, levels + 1)

    @classmethod
    def learn(cls, codes: Array, levels: int, target: Array, weight: Array, folds: Index) -> Self:
        """From the codes of a column."""
        place = np.where(np.isfinite(codes), codes, levels).astype(np.intp)
        sums, counts = np.zeros((folds.max() + 1, levels + 1, target.shape[1])), np.zeros((folds.max() + 1, levels + 1))
        np.add.at(sums, (folds, place), target * weight[:, None])
        np.add.at(counts, (folds, place), weight)
        return cls(sums, counts)

    def __call__(self, codes: Array, fold: int, own: Index | None) -> list[Array]:
        """By rows that neither ``fold`` nor a row's own fold has."""
        place = np.where(np.isfinite(codes), codes, self.counts.shape[1] - 1).astype(np.intp)
        sums, counts = self.sums.sum(0) - self.sums[fold], self.counts.sum(0) - self.counts[fold]
        rate = sums.sum(0) / max(counts.sum(), 1e-12)
        sums, counts = sums[place], counts[place]
        if own is not None:
            apart = own != fold
            sums = sums - np.where(apart[:, None], self.sums[own, place], 0.0)
            counts = counts - np.where(apart, self.counts[own, place], 0.0)
        counts = np.maximum(counts, 0.0)  # differences of sums may round below
        means = (sums + PRIOR * rate) / (counts + PRIOR)[:, None]
        return [*means.T, np.log1p(counts)]


@dataclass(frozen=True)
class Views:
    """How every number of a row is shown to smooth members."""

    columns: tuple[Number | Indicator | Encoding, ...]
    units: tuple[tuple[Array, Array], ...]  # mean and deviation of the inputs of each fold
    n_folds: int
    device: str

    @classmethod
    def learn(
        cls, plain: Array, categories: tuple[int, ...], target: Array | None, weight: Array, folds: Index, device: str
    ) -> tuple[Self, list[Tensor]]:
        """From rows (rows, numbers); and what these rows are to the model of each fold.

        Without a target the commonest levels of a category have columns, and the others none.
        """
        columns: list[Number | Indicator | Encoding] = []
        for place, values in enumerate(plain.T):
            levels = int(np.nanmax(values, initial=-1.0)) + 1 if place in categories else None
            if levels is None:
                columns.append(Number.learn(values, weight))
            elif levels <= FEW or target is None:
                columns.append(Indicator(min(levels, FEW)))
            else:
                columns.append(Encoding.learn(values, levels, target, weight, folds))
        start = cls(tuple(columns), (), int(folds.max()) + 1, device)
        inputs = list(start._inputs(plain, folds))
        units = tuple(mean_and_deviation(part, weight) for part in inputs)
        found = cls(start.columns, units, start.n_folds, device)
        return found, found._shared(inputs)

    def __call__(self, plain: Array) -> list[Tensor]:
        """Rows that may be new, as the model of each fold reads them."""
        return self._shared(self._inputs(plain, None))

    def _inputs(self, plain: Array, own: Index | None) -> Iterator[Array]:
        """Once for each fold; once for all where no column tells of the target."""
        told = any(isinstance(column, Encoding) for column in self.columns)
        for fold in range(self.n_folds if told else 1):
            parts = [part for how, x in zip(self.columns, plain.T, strict=True) for part in how(x, fold, own)]
            yield np.column_stack(parts) if parts else np.zeros((len(plain), 0))

    def _shared(self, inputs: Iterator[Array] | list[Array]) -> list[Tensor]:
        smooth = [
            torch.from_numpy(((part - mean) / deviation).astype(np.float32)).to(self.device)
            for part, (mean, deviation) in zip(inputs, self.units, strict=True)
        ]
        return smooth * self.n_folds if len(smooth) == 1 else smooth
