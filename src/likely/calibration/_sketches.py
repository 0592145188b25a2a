"""Histograms fine enough to stand for the rows: they add up over blocks, and do not depend on where blocks begin."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely._rows.blocks import Rows
from likely._typing import Array

# Of odds a bin is 3e-4 wide near zero and 3e-4 of them beyond one, wider for more than 32 classes: no row is moved by
# more than that, since its bin's mean stands for it. Of residuals it is 1e-4 of them, and sums of what is smooth in
# them are right to about 1e-9.
_ODDS, _ODDS_BINS, _CELLS = 1e4, 2**16, 2**21
_SIZES, _SIZE_BINS = (1e-6, 1e6), 2**18


def odds_sketch(log_odds: Rows, y: Any, weight: Any) -> list[tuple[Array, NDArray[np.bool_], Array]]:
    """Return for every class a few rows that stand for all: log odds, whether the row is of the class, and weights.

    Args:
        log_odds: of shape (rows, classes), within ±1e4.
        y: class numbers.
        weight: how many rows each row counts for.

    Returns:
        Per class two rows per bin, at the mean log odds of all rows in it. Bins are even in the inverse hyperbolic sine
        of the log odds: 65,536 of them, or 2²¹ / classes where there are more than 32 classes.
    """
    classes = log_odds.shape[1]
    bins = min(_ODDS_BINS, max(16, _CELLS // classes))
    top = float(np.arcsinh(_ODDS))

    def histogram(rows: Any) -> Array:
        odds = log_odds[rows].double().cpu().numpy()
        own = np.asarray(y[rows])[:, None] == np.arange(classes)
        place = np.clip((np.arcsinh(odds) + top) * (bins / (2 * top)), 0, bins - 1).astype(np.int64)
        cell = (np.arange(classes) * bins + place).ravel()
        weights = np.repeat(np.asarray(weight[rows]), classes)
        terms = weights, weights * own.ravel(), weights * odds.ravel()
        sums: Array = np.stack([np.bincount(cell, term, classes * bins).astype(np.float64) for term in terms])
        return sums.reshape(3, classes, bins)

    # Few large blocks: a block's sum has as many numbers however few its rows are.
    found = []
    for mass, positive, total in log_odds.total(histogram, numbers=2**22).transpose(1, 0, 2):
        seen = mass > 0
        mean, masses = (total[seen] / mass[seen]), np.concatenate([positive[seen], mass[seen] - positive[seen]])
        own, counted = np.repeat([True, False], len(mean)), masses > 0
        found.append((np.tile(mean, 2)[counted], own[counted], masses[counted]))
    return found


def size_sketch(z: Rows, weight: Any) -> tuple[Array, Array]:
    """Return sizes |z| > 0 and weights of a few rows that stand for all: those of a bin have their mean square."""
    low, high = np.log(_SIZES)

    def histogram(rows: Any) -> Array:
        squares, own = z[rows].double().square().cpu().numpy(), np.asarray(weight[rows])
        logs = 0.5 * np.log(np.maximum(squares, 1e-300))
        place = np.clip((logs - low) * (_SIZE_BINS / (high - low)), 0, _SIZE_BINS - 1).astype(np.int64)
        return np.stack([np.bincount(place, term, _SIZE_BINS) for term in (own, own * squares)])

    mass, squares = z.total(histogram, numbers=2**22)
    seen = mass > 0
    return np.sqrt(squares[seen] / mass[seen]), mass[seen]
