"""Rows that repeat another: exactly, or almost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree
from sklearn.preprocessing import StandardScaler

from likely._rows.contents import Keys, frame_keys
from likely._rows.reading.table import counted, listed
from likely._typing import Array, Floats, Index, Mask
from likely.auditing.columns.kinds import ColumnReader, Columns
from likely.auditing.results.accepted import RowNames
from likely.auditing.results.finding import Explained, Finding, OfAll, Reason, number, worst_first

UNREAD = ("identifier", "name", "empty")  # kinds of columns in which copies may differ
ORDINARY = 0.3  # of the rows: if so many are copies, copies are ordinary
_CLOSER = 0.05  # of the distance at which rows usually have a neighbour
_DIRECTIONS = 6  # along which neighbours are looked for
_LEAST = 2  # columns of numbers; in one, chance neighbours are as close
_AROUND = 20  # neighbours that tell how dense rows lie around one, and in how many dimensions
_CHANCE = 0.05  # pairs that chance may bring as close as those that are named, in the whole table
_DISCRETE, _LOOK = 20, 2_000  # values of a discrete column, at most, and rows by which columns are judged
_ROUNDING = 1e-6  # distances below this, in standard units, are equal in single precision
_ALIKE, _NEARLY, _CONTRARY = 0.05, 0.1, 0.3  # how far off a copy is: exact, nearly, with another target


@dataclass(frozen=True)
class Twins:
    """For each row the first row it repeats (-1: none), whether exactly, and whether the target differs."""

    of: Index
    exact: Mask
    disagree: Mask

    @classmethod
    def of_rows(cls, of: Index, exact: Mask, target: pd.Series[Any] | None) -> Twins:
        """Compare the targets of rows that repeat each other."""
        codes = np.zeros(len(of)) if target is None else pd.factorize(target)[0]
        return cls(of, exact, (of >= 0) & (codes != codes[of]))

    @property
    def first(self) -> Mask:
        """One row of every group of equal ones, unless copies are ordinary."""
        return ~self.exact | bool(self.exact.mean() > ORDINARY)

    @property
    def groups(self) -> Index:
        """The same number for rows that repeat each other: a model that has seen one has seen the other."""
        return np.where(self.of >= 0, self.of, np.arange(len(self.of)))


def compared(columns: Columns, target: str | None) -> list[str]:
    """The columns in which copies are equal: all but the target and those that number the rows."""
    return [name for name, kind in columns.kinds.items() if name != target and kind not in UNREAD]


def first_copies(keys: Keys) -> Index:
    """For each row, by its key, the first that equals it; -1 if it is the first itself.

    >>> first_copies(np.array([5, 9, 5], np.uint64)).tolist()
    [-1, -1, 0]
    """
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    leader = first[group]
    return np.where(leader == np.arange(len(leader)), -1, leader)


def find_twins(columns: Columns, target: str | None) -> Twins:
    """The row that each row repeats in all columns but the target and those that number the rows.

    >>> from likely.auditing.columns.kinds import read_columns
    >>> table = pd.DataFrame({"a": [1, 2, 1], "b": [5.0, 6.0, 5.0], "y": ["p", "q", "q"]})
    >>> twins = find_twins(read_columns(table), "y")
    >>> twins.of, twins.disagree
    (array([-1, -1,  0]), array([False, False,  True]))
    """
    names = compared(columns, target)
    of = first_copies(frame_keys(columns.typed[names])) if names else np.full(len(columns.typed), -1)
    exact = of >= 0
    near = _near_copies(columns, names, np.flatnonzero(~exact))
    of[near[:, 1]] = near[:, 0]
    twins = Twins.of_rows(of, exact, None if target is None else columns.typed[target])
    if target is not None and columns.kinds[target] in ("number", "date"):  # near rows may have near targets
        twins.disagree[~exact] = False
    return twins


def _near_copies(columns: Columns, names: list[str], rows: Index) -> Index:
    """Pairs (earlier, later) of these rows, none of which equals another, that are closer than chance explains."""
    nothing = np.zeros((0, 2), np.int64)
    if sum(columns.kinds[name] in ("number", "date") for name in names) < _LEAST or len(rows) < 20:
        return nothing
    kinds = {name: columns.kinds[name] for name in names}
    distinct = Columns(kinds, columns.typed[names].iloc[rows], ())
    X = ColumnReader.of(distinct).design(distinct.typed)
    with np.errstate(invalid="ignore"):  # a column without any value has no mean
        X = StandardScaler().fit_transform(X.astype(np.float64)).astype(np.float32)
    X = np.nan_to_num(X, nan=-9.0)  # missing here and there is alike; missing and present are far apart
    shadow = _shadow(X)
    tree = cKDTree(shadow)
    some = np.random.RandomState(0).permutation(len(rows))[:_LOOK]
    usual = np.median(tree.query(shadow[some], k=2)[0][:, 1])
    if usual == 0:
        return nothing
    here = tree.indices  # rows beside each other in the tree look in the same branches: twice as fast
    distance, other = tree.query(shadow[here], k=2, distance_upper_bound=_CLOSER * usual, workers=-1)
    close = np.isfinite(distance[:, 1])
    # Of the two nearest, a row itself may be the first or the second.
    nearest = np.where(other[close, 0] == here[close], other[close, 1], other[close, 0])
    pairs = np.unique(np.sort(np.column_stack([here[close], nearest]), axis=1), axis=0)
    # Close in a few directions is a hint; close in all columns is what counts.
    gap = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    pairs = pairs[gap < _CLOSER * usual * np.sqrt(X.shape[1] / shadow.shape[1])]
    for name in distinct.named("text"):  # such as two people of whom nothing else is known
        texts = distinct.typed[name].to_numpy(str)
        pairs = pairs[texts[pairs[:, 0]] == texts[pairs[:, 1]]]
    # Few values of discrete columns are shared by many rows. Among these the other columns may vary in few dimensions,
    # say along one amount: how close rows come there is told by all, how many of them share the values by their share.
    discrete = np.array([len(np.unique(column)) <= _DISCRETE for column in X[some].T])
    share = np.ones(len(pairs))
    if discrete.any() and not discrete.all():
        cells = pd.Series(frame_keys(pd.DataFrame(X[:, discrete])))
        share = cells.map(cells.value_counts(normalize=True))[pairs[:, 0]].to_numpy()
        tree = cKDTree(_shadow(X[:, ~discrete]))
    return rows[pairs[share * by_chance(tree, pairs) < _CHANCE]]


def _shadow(X: Floats) -> Floats:
    """Rows in a few random directions."""
    random = np.random.RandomState(0).normal(size=(X.shape[1], min(_DIRECTIONS, X.shape[1])))
    return X @ np.linalg.qr(random)[0].astype(np.float32)


def by_chance(tree: cKDTree, pairs: Index) -> Array:
    """How many pairs chance would bring as close as each of these, among all points of a tree.

    Of k points in a ball of radius r in d dimensions the nearest to the centre is within c r with a probability of
    about k c^d. Columns that are functions of each other leave few dimensions, in which close neighbours are common; d
    is read off the distances to further neighbours, for each point and for all that are asked about.

    >>> line, cloud = np.random.default_rng(0).normal(size=(2, 2000, 3))
    >>> line[:] = line[:, :1]
    >>> pair = np.array([[0, 1]])
    >>> for points in (line, cloud):
    ...     points[1] = points[0] + 1e-4
    ...     print(bool(by_chance(cKDTree(points), pair)[0] < 0.05))
    False
    True
    """
    if not len(pairs):
        return np.zeros(0)
    points = tree.data
    around = min(_AROUND, len(points) - 1)
    distance = tree.query(points[pairs[:, 0]], k=around + 1, workers=-1)[0][:, 1:]
    far = np.maximum(distance[:, -1], 1e-300)
    # The nearer half may be copies themselves.
    outer = np.maximum(distance[:, around // 2 : -1], 1e-12 * far[:, None])
    depth = np.log(far[:, None] / outer).sum(1)
    # Order statistics of a uniform ball: the logarithms of outer / far have a mean that depends on ranks alone.
    expected = sum(np.sum(1 / np.arange(rank, around)) for rank in range(around // 2 + 1, around))
    gap = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
    dimensions = expected / np.maximum(depth, 1e-12)
    dimensions = np.minimum(dimensions, np.median(dimensions))
    return len(points) * around * (np.maximum(gap, _ROUNDING) / far) ** dimensions


def repeated_rows(columns: Columns, twins: Twins, target: str | None, of_all: OfAll = None) -> Finding | None:
    """Report the rows that repeat an earlier one."""
    suspicious = twins.of >= 0
    listed_rows = int(suspicious.sum())
    count, rows = of_all or (listed_rows, len(suspicious))
    if not count:
        return None
    if count > rows * ORDINARY:
        return Finding(
            "duplicates",
            "Duplicate rows",
            f"{count:,} rows repeat an earlier one: with so few columns or values, that is expected.",
            numbers={"rows": 0, "repeated": count},
        )
    near, disagree = int((suspicious & ~twins.exact).sum()), int(twins.disagree.sum())
    but = _but(columns.named("identifier"))

    def explain(top: Index) -> Iterator[Explained]:
        names = RowNames(columns.typed, next(iter(columns.named("name")), None))
        values = columns.typed[target].tolist() if target is not None else []
        for row in top.tolist():
            other, same = twins.of[row], twins.exact[row]
            nearly, which = "" if same else "almost ", names.called(columns.typed.index[other])
            reasons = [Reason("all columns" if same else "nearly all", f"as in {which}{but}", share=1.0)]
            headline, group = f"{nearly}equals {which}{but}", f"{nearly}equal to another row{but}"
            far = _ALIKE if same else _NEARLY
            if twins.disagree[row]:
                headline, far = f"{headline}, but has a different {target}", _CONTRARY
                group = f"{nearly}equal to another row{_but([*columns.named('identifier'), 'the target'])}"
                reasons.append(Reason(str(target), _shown(values[row]), f"{_shown(values[other])} in {which}", 1.0))
            yield Explained(headline, reasons, far, wrong=False, group=group)

    parts = [f"{counted(count, 'row repeats', 'rows repeat')} an earlier one{but}"]
    parts += [f"{listed_rows:,} are listed"] if of_all else []
    parts += [f"{near:,} of them almost"] if near else []
    parts += [f"{disagree:,} with a different {target}"] if disagree else []
    certainty = np.where(twins.disagree, 1.0, np.where(twins.exact, 0.99, 0.9)) * suspicious
    return Finding(
        "duplicates",
        "Duplicate rows",
        ", ".join(parts) + ".",
        scores={"repeats_row": twins.of},
        numbers={"rows": count, "near": near, "other_target": disagree},
        **worst_first("duplicates", certainty, suspicious, explain, most=None),
    )


def _but(names: list[str]) -> str:
    """The columns in which copies differ, such as those that hold another value in every row."""
    return f" but for {listed(names, most=3, last=' and ')}" if names else ""


def _shown(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)
