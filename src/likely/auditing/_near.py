"""Rows that are almost equal: far closer than chance brings any two rows of such a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from likely.auditing._columns import Columns, design, standardised

_CLOSER = 0.05  # of the distance at which rows usually have a neighbour
_DIRECTIONS = 6  # along which neighbours are looked for
_LEAST = 3  # columns of numbers; in fewer dimensions chance neighbours are as close
_AROUND = 20  # neighbours that tell how dense rows lie around one, and in how many dimensions
_CHANCE = 0.05  # pairs that chance may bring as close as those that are named, in the whole table
_ROUNDING = 1e-6  # distances below this, in standard units, are equal in single precision


def near_copies(columns: Columns, names: list[str], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pairs (earlier, later) of rows that are closer to each other than chance explains.

    Args:
        columns: The table.
        names: The columns to compare.
        rows: The rows to compare, none of which equals another.

    Returns:
        Row numbers, shape (pairs, 2).
    """
    nothing = np.zeros((0, 2), np.int64)
    X, owners = design(columns.typed[names].iloc[rows], {name: columns.kinds[name] for name in names})
    numbers = sum(columns.kinds[name] in ("number", "date") for name in set(owners))
    if numbers < _LEAST or len(rows) < 20:
        return nothing
    # Missing here and there is alike; missing and present are far apart.
    X = np.nan_to_num(standardised(X).astype(np.float32), nan=-9.0)
    random = np.random.RandomState(0).normal(size=(X.shape[1], min(_DIRECTIONS, X.shape[1])))
    shadow = X @ np.linalg.qr(random)[0].astype(np.float32)
    tree = cKDTree(shadow)
    some = np.random.RandomState(1).permutation(len(rows))[:2_000]
    usual = float(np.median(tree.query(shadow[some], k=2)[0][:, 1]))
    if usual == 0:
        return nothing
    distance, other = tree.query(shadow, k=2, distance_upper_bound=_CLOSER * usual, workers=-1)
    # The nearest of a row may be listed before itself.
    here = np.arange(len(rows))
    partner = np.where(other[:, 0] == here, other[:, 1], other[:, 0])
    found = np.flatnonzero(np.isfinite(distance[:, 1]) & (partner < len(rows)))
    pairs = np.unique(np.sort(np.column_stack([found, partner[found]]), axis=1), axis=0)
    if not len(pairs):
        return nothing
    # Close in a few directions is a hint; close in all columns is what counts.
    gap = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    pairs = pairs[gap < _CLOSER * usual * np.sqrt(X.shape[1] / shadow.shape[1])]
    return np.asarray(rows[pairs[by_chance(tree, shadow, pairs) < _CHANCE]])


def by_chance(tree: cKDTree, points: NDArray[np.floating], pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many pairs chance would bring as close as each of these, among all points.

    Of k points in a ball of radius r in d dimensions the nearest to the centre is within c r with a probability of
    about k c^d. Columns that are functions of each other leave few dimensions, in which close neighbours are common; d
    is read off the distances to further neighbours, for each point and for all that are asked about.

    >>> line, cloud = np.random.default_rng(0).normal(size=(2, 2000, 3))
    >>> line[:] = line[:, :1]
    >>> pair = np.array([[0, 1]])
    >>> for points in (line, cloud):
    ...     points[1] = points[0] + 1e-4
    ...     print(bool(by_chance(cKDTree(points), points, pair)[0] < 0.05))
    False
    True
    """
    if not len(pairs):
        return np.zeros(0)
    around = min(_AROUND, len(points) - 1)
    distance = tree.query(points[pairs[:, 0]], k=around + 1, workers=-1)[0][:, 1:]
    far = np.maximum(distance[:, -1], 1e-300)
    # The nearer half may be copies themselves.
    outer = np.maximum(distance[:, around // 2 : -1], 1e-12 * far[:, None])
    depth = np.log(far[:, None] / outer).sum(1)
    inner = around // 2
    # Order statistics of a uniform ball: the logarithms of outer / far have a mean that depends on ranks alone.
    ranks = np.arange(inner + 1, around)
    expected = float(sum(np.sum(1 / np.arange(rank, around)) for rank in ranks))
    dimensions = expected / np.maximum(depth, 1e-12)
    dimensions = np.minimum(dimensions, np.median(dimensions))
    gap = np.linalg.norm((points[pairs[:, 0]] - points[pairs[:, 1]]).astype(np.float64), axis=1)
    return np.asarray(len(points) * around * (np.maximum(gap, _ROUNDING) / far) ** dimensions)
