"""How much one column tells about another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._typing import Array

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
    if not width:
        return np.zeros((0, 0))
    # Of shape (rows, columns, bins): levels of a category, or quantiles of numbers; gaps have a bin of their own.
    bins = np.column_stack([_bins(column, word) for column, word in zip(points, words, strict=True)])
    inside = (bins[:, :, None] == np.arange(_BINS + 2)).astype(np.float32)
    ranks = pd.DataFrame(points.T).rank() / rows
    ranks = ranks.fillna(ranks.mean()).fillna(0.0).to_numpy()
    parts = [inside[:, j, :-1] if word else ranks[:, [j]] for j, word in enumerate(words)]
    first_part = np.cumsum([0, *(part.shape[1] for part in parts)])[:-1]
    centred = np.concatenate(parts, axis=1)
    centred -= centred.mean(0)
    total = np.add.reduceat(np.square(centred).sum(0), first_part)
    count = inside.sum(0).reshape(-1, 1)
    sums = np.square(inside.reshape(rows, -1).T @ centred) / np.maximum(count, 1)
    between = np.add.reduceat(sums.reshape(width, -1, centred.shape[1]).sum(1), first_part, axis=1)
    chance = (np.count_nonzero(count.reshape(width, -1), axis=1) - 1) / max(rows - 1, 1)
    share = between.T / np.maximum(total, 1e-300)[:, None]
    return np.clip((share - chance) / np.maximum(1 - chance, 1e-12) - 2 * np.sqrt(2 * chance / rows), 0, 1)


def _bins(values: NDArray[np.float32], word: bool) -> Array:
    seen = values[~np.isnan(values)]
    inner = np.linspace(0, 1, _BINS + 1)[1:-1]
    edges = np.arange(1.0, _BINS + 1) if word or not len(seen) else np.unique(np.quantile(seen, inner))
    return np.where(np.isnan(values), _BINS + 1, np.searchsorted(edges, values, side="right"))
