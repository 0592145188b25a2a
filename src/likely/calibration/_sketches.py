"""Histograms fine enough to stand for the rows: they add up over blocks, wherever blocks begin."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely._rows.blocks import Rows
from likely._typing import Array

# A bin of odds is 3e-4 wide near zero and 3e-4 of the odds beyond one, wider for more than 32 classes: no row moves by
# more than that, since its bin's mean stands for it. A bin of residuals is 1e-4 of the residual wide, and sums of
# functions smooth in them are exact to about 1e-9.
_ODDS, _ODDS_BINS, _CELLS = 1e4, 2**16, 2**21
_SIZES, _SIZE_BINS = (1e-6, 1e6), 2**18


def odds_sketch(log_odds: Rows, y: Any, weight: Any) -> list[tuple[Array, NDArray[np.bool_], Array]]:
    """Return for every class a few rows that stand for all: log odds, whether the row is of the class, and weights."""
    classes = log_odds.shape[1]
    bins = min(_ODDS_BINS, max(16, _CELLS // classes))
    top = float(np.arcsinh(_ODDS))

    def histogram(rows: Any) -> Array:
        odds = log_odds[rows].double().cpu().numpy()
        positive = np.asarray(y[rows])[:, None] == np.arange(classes)
        place = np.clip((np.arcsinh(odds) + top) * (bins / (2 * top)), 0, bins - 1).astype(np.int64)
        cell = (np.arange(classes) * bins + place).ravel()
        weights = np.repeat(np.asarray(weight[rows]), classes)
        terms = weights, weights * positive.ravel(), weights * odds.ravel()
        sums: Array = np.stack([np.bincount(cell, term, classes * bins).astype(np.float64) for term in terms])
        return sums.reshape(3, classes, bins)

    # Few large blocks: the sum of a block has the same size however few its rows are.
    sketches = []
    for mass, positive, total in log_odds.total(histogram, numbers=2**22).transpose(1, 0, 2):
        seen = mass > 0
        mean, masses = (total[seen] / mass[seen]), np.concatenate([positive[seen], mass[seen] - positive[seen]])
        of_class, counted = np.repeat([True, False], len(mean)), masses > 0
        sketches.append((np.tile(mean, 2)[counted], of_class[counted], masses[counted]))
    return sketches


def size_sketch(z: Rows, weight: Any) -> tuple[Array, Array]:
    """Return sizes |z| > 0 and weights of a few rows that stand for all: a bin is represented by its mean square."""
    low, high = np.log(_SIZES)

    def histogram(rows: Any) -> Array:
        squares, weights = z[rows].double().square().cpu().numpy(), np.asarray(weight[rows])
        logs = 0.5 * np.log(np.maximum(squares, 1e-300))
        place = np.clip((logs - low) * (_SIZE_BINS / (high - low)), 0, _SIZE_BINS - 1).astype(np.int64)
        return np.stack([np.bincount(place, term, _SIZE_BINS) for term in (weights, weights * squares)])

    mass, squares = z.total(histogram, numbers=2**22)
    seen = mass > 0
    return np.sqrt(squares[seen] / mass[seen]), mass[seen]
