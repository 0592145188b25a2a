"""Which rows are there twice, or almost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from likely._typing import Array, Index, Mask
from likely.auditing.columns.kinds import Columns, design, standardised

ORDINARY = 0.3  # of the rows: if so many are copies, copies are ordinary
_CLOSER = 0.05  # of the distance at which rows usually have a neighbour
_DIRECTIONS = 6  # along which neighbours are looked for
_LEAST = 3  # columns of numbers; in fewer dimensions chance neighbours are as close
_AROUND = 20  # neighbours that tell how dense rows lie around one, and in how many dimensions
_CHANCE = 0.05  # pairs that chance may bring as close as those that are named, in the whole table
_DISCRETE, _LOOK = 20, 2_000  # values of a discrete column, at most, and rows in which they are counted
_ROUNDING = 1e-6  # distances below this, in standard units, are equal in single precision


@dataclass(frozen=True)
class Twins:
    """For each row the first row it repeats (-1: none), whether exactly, and whether the target differs."""

    of: Index
    exact: Mask
    disagree: Mask

    @property
    def first(self) -> Mask:
        """One row of every group of equal ones, unless copies are ordinary."""
        return ~self.exact | bool(self.exact.mean() > ORDINARY)

    @property
    def groups(self) -> Index:
        """The same number for rows that repeat each other: a model that has seen one has seen the other."""
        return np.where(self.of >= 0, self.of, np.arange(len(self.of)))


def find_twins(columns: Columns, target: str | None) -> Twins:
    """The row that each row repeats in all columns but the target and those that number the rows.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> table = pd.DataFrame({"a": [1, 2, 1], "b": [5.0, 6.0, 5.0], "y": ["p", "q", "q"]})
    >>> twins = find_twins(read_columns(table), "y")
    >>> twins.of, twins.disagree
    (array([-1, -1,  0]), array([False, False,  True]))
    """
    unread = ("identifier", "name", "empty")
    names = [name for name, kind in columns.kinds.items() if name != target and kind not in unread]
    table = columns.typed[names]
    n = len(table)
    of, exact, disagree = np.full(n, -1), np.zeros(n, bool), np.zeros(n, bool)
    if not names:
        return Twins(of, exact, disagree)
    code = pd.util.hash_pandas_object(table, index=False).to_numpy()
    _, leader, group = np.unique(code, return_index=True, return_inverse=True)
    copies = leader[group] != np.arange(n)
    of[copies], exact[copies] = leader[group][copies], True
    near = near_copies(columns, names, np.flatnonzero(~copies))
    of[near[:, 1]] = near[:, 0]
    if target is not None:
        targets = pd.factorize(columns.typed[target])[0]
        twin = of >= 0
        disagree[twin] = targets[twin] != targets[of[twin]]
        if columns.kinds[target] in ("number", "date"):  # near rows may have near targets
            disagree &= exact
    return Twins(of, exact, disagree)


def near_copies(columns: Columns, names: list[str], rows: Index) -> Index:
    """Pairs (earlier, later) of these rows, none of which equals another, that are closer than chance explains."""
    nothing = np.zeros((0, 2), np.int64)
    X, owners = design(columns.typed[names].iloc[rows], {name: columns.kinds[name] for name in names})
    numbers = sum(columns.kinds[name] in ("number", "date") for name in set(owners))
    if numbers < _LEAST or len(rows) < 20:
        return nothing
    # Missing here and there is alike; missing and present are far apart.
    X = np.nan_to_num(standardised(X).astype(np.float32), nan=-9.0)
    shadow = _shadow(X)
    tree = cKDTree(shadow)
    some = np.random.RandomState(1).permutation(len(rows))[:2_000]
    usual = float(np.median(tree.query(shadow[some], k=2)[0][:, 1]))
    if usual == 0:
        return nothing
    here = tree.indices  # rows beside each other in the tree look in the same branches: twice as fast
    distance, other = tree.query(shadow[here], k=2, distance_upper_bound=_CLOSER * usual, workers=-1)
    # The nearest of a row may be listed before itself.
    partner = np.where(other[:, 0] == here, other[:, 1], other[:, 0])
    close = np.isfinite(distance[:, 1]) & (partner < len(rows))
    pairs = np.unique(np.sort(np.column_stack([here[close], partner[close]]), axis=1), axis=0)
    if not len(pairs):
        return nothing
    # Close in a few directions is a hint; close in all columns is what counts.
    gap = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    pairs = pairs[gap < _CLOSER * usual * np.sqrt(X.shape[1] / shadow.shape[1])]
    pairs = pairs[by_chance(tree, shadow, pairs) < _CHANCE]
    return np.asarray(rows[pairs[_alike_by_chance(X, pairs) < _CHANCE]])


def _alike_by_chance(X: NDArray[np.float32], pairs: Index) -> Array:
    """How many pairs chance would make as alike, given that few values of discrete columns are shared by many rows.

    Among rows with the same categories and counts, others may vary in few dimensions, say along one amount: how close
    those come is told by all rows, and how many of these share the discrete values by their share.
    """
    some = X[:: max(1, len(X) // _LOOK)]
    discrete = np.array([len(np.unique(column)) <= _DISCRETE for column in some.T])
    if not len(pairs) or discrete.all() or not discrete.any():
        return np.zeros(len(pairs))
    points = _shadow(X[:, ~discrete])
    cells = pd.Series(pd.util.hash_pandas_object(pd.DataFrame(X[:, discrete]), index=False).to_numpy())
    share = cells.map(cells.value_counts(normalize=True)).to_numpy()[pairs[:, 0]]
    return share * by_chance(cKDTree(points), points, pairs)


def _shadow(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows in a few random directions."""
    random = np.random.RandomState(0).normal(size=(X.shape[1], min(_DIRECTIONS, X.shape[1])))
    return X @ np.linalg.qr(random)[0].astype(np.float32)


def by_chance(tree: cKDTree, points: NDArray[np.floating], pairs: Index) -> Array:
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
