"""How much one column tells about another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._typing import Array, Places

_BINS = 12


def related(points: NDArray[np.float32], words: Sequence[bool]) -> Array:
    """How much each column (second axis) tells about each other: the share of the variance of ranks between bins.

    What bins explain by chance is taken off; of a category, the variance of its levels' indicators is explained.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> related(np.array([x, x**2, rng.normal(size=2000)], np.float32), [False] * 3).round(1).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    width, rows = points.shape
    parts = [_parts(column, word) for column, word in zip(points, words, strict=True)]
    owner = np.repeat(np.arange(width), [column.shape[1] for column in parts])
    centred = np.concatenate(parts, axis=1) if parts else np.zeros((rows, 0))
    centred = centred - centred.mean(0)
    total = np.bincount(owner, np.square(centred).sum(0), minlength=width)
    shares = np.zeros((width, width))
    for k, (column, word) in enumerate(zip(points, words, strict=True)):
        bins = _bins(column, word)
        count = np.bincount(bins, minlength=1)
        sums = np.zeros((len(count), centred.shape[1]))
        np.add.at(sums, bins, centred)
        between = np.bincount(owner, (np.square(sums) / np.maximum(count, 1)[:, None]).sum(0), minlength=width)
        chance = (np.count_nonzero(count) - 1) / max(rows - 1, 1)
        share = between / np.maximum(total, 1e-300)
        shares[:, k] = np.clip((share - chance) / max(1 - chance, 1e-12) - 2 * np.sqrt(2 * chance / max(rows, 1)), 0, 1)
    return shares


def _bins(values: NDArray[np.float32], word: bool) -> Places:
    """The bin of each value: levels of a category, quantiles of numbers; missing values have one of their own."""
    missing = np.isnan(values)
    if word:
        bins = np.minimum(np.nan_to_num(values), _BINS).astype(np.int64)
    else:
        seen = values[~missing] if not missing.all() else np.zeros(1, np.float32)
        edges = np.unique(np.quantile(seen, np.linspace(0, 1, _BINS + 1)[1:-1]))
        bins = np.searchsorted(edges, values, side="right")
    return np.where(missing, _BINS + 1, bins)


def _parts(values: NDArray[np.float32], word: bool) -> Array:
    """What is to be explained of a column: ranks of numbers, indicators of levels."""
    missing = np.isnan(values)
    if word:
        levels = np.minimum(np.nan_to_num(values), _BINS)
        return np.asarray((levels[:, None] == np.arange(_BINS + 1)) & ~missing[:, None], dtype=np.float64)
    ranks = pd.Series(values).rank().to_numpy(np.float64) / max(len(values), 1)
    return np.where(missing, np.nanmean(ranks) if not missing.all() else 0.0, ranks)[:, None]
