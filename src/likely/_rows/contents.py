"""Rows by their contents: keys that identify equal rows, folds by these keys, and tables as the set of their rows.

The fold of a row depends on its values, not on its position: the order of rows does not matter, and two equal rows are
in the same fold, as a row of weight two is.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from likely._rows.blocks import Rows, row_blocks
from likely._typing import Array, Index, Mask, Places, Values

Keys = NDArray[np.uint64]
Split = tuple[Index, Index]
_LARGEST = 1e75  # products of squares of larger numbers, or of smaller ones than its inverse, exceed float64
MIN_HASHED_ROWS = 100  # distinct rows per fold from which folds of hashed rows have about equal size


def contents(*tables: Rows | None) -> Keys:
    """Return a key per row that depends on its values only, not on their order, layout or precision.

    Values are taken in units of a power of two near the largest of their table, so that its unit does not matter.
    """
    keys, *parts = [_keys_of(table) for table in tables if table is not None]
    for part in parts:
        keys = mixed(keys) + part
    return keys


def row_keys(X: Any) -> Keys:
    """Return a key per row of an array, sparse matrix, data frame or list."""
    if sparse.issparse(X):
        table = sparse.csr_array(X)
        unit = _unit(float(np.abs(table.data).max(initial=0.0)))
        return np.concatenate([_sums(table[rows].toarray() * unit) for rows in row_blocks(*table.shape)])
    array = np.asarray(X)
    if array.dtype.kind in "fiub":
        return contents(Rows(array.reshape(len(array), -1).astype(np.float64)))
    return np.array([_digest(row) for row in array], dtype=np.uint64)


def frame_keys(frame: Any) -> Keys:
    """Return a key per row of a pandas data frame with columns of any type."""
    import pandas as pd

    return pd.util.hash_pandas_object(frame, index=False).to_numpy()


def rank_keys(table: Values) -> tuple[Keys, Keys]:
    """Return two keys per row: one that only equal rows share, and one that ignores the order of columns too.

    They are those of the ranks of its values in their columns, which no unit and no last digit changes.
    """
    ranks = np.column_stack([np.unique(column, return_inverse=True)[1] for column in table.T]).astype(np.uint64)
    draw = np.random.RandomState(0).randint(0, 2**63, size=table.shape[1], dtype=np.uint64)
    exact, symmetric = np.empty((2, len(table)), dtype=np.uint64)
    for rows in row_blocks(*table.shape):
        keys = mixed(ranks[rows])
        exact[rows], symmetric[rows] = keys @ (2 * draw + 1), keys.sum(1, dtype=np.uint64)
    return exact, symmetric


def mixed(numbers: Keys) -> Keys:
    """Return splitmix64 of each number: similar numbers become very different ones."""
    z: Any = numbers + 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    keys: Keys = z ^ (z >> 31)
    return keys


def _keys_of(table: Rows) -> Keys:
    sizes = (block.nan_to_num(0.0, 0.0, 0.0).abs().max() for _, block in table.read() if block.numel())
    unit = _unit(float(max(sizes, default=0.0)))
    return np.concatenate([_sums((block.double() * unit).cpu().numpy()) for _, block in table.read()])


def _unit(largest: float) -> float:
    return float(2.0 ** -max(min(math.frexp(largest)[1], 1020), -1020))


def _sums(table: Values) -> Keys:
    """Return keys of rows of numbers up to one, in single precision, so that copies in either precision agree."""
    bits: Any = np.ascontiguousarray(table.astype(np.float32) + np.float32(0)).view(np.uint32)  # -0 is 0
    bits = (bits + 0x80) & 0xFFFFFF00  # to the nearest of those whose last eight bits are zero
    return mixed(bits.astype(np.uint64)).sum(1, dtype=np.uint64)


def _digest(row: Any) -> int:
    text = repr(row.tolist() if isinstance(row, np.ndarray) else row).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def fold_numbers(
    keys: Keys, cv: int, *, random_state: int = 0, ties: Values | None = None, strata: Values | None = None
) -> Index:
    """Return the fold of every row: equal rows share one, unless there are fewer than two distinct rows per fold.

    Without ``strata`` classes are not spread evenly. With equal shares of every class, held-out rows would repeat the
    class frequencies of the rows fitted, and biases that follow chance frequencies would look good.
    """
    shuffled = mixed(keys ^ mixed(np.full(1, random_state % 2**63, dtype=np.uint64)))
    ties = np.zeros(len(keys)) if ties is None else ties
    if strata is None:
        return _places(shuffled, 2 * cv, cv, ties) % cv
    number, start = np.empty(len(keys), dtype=np.intp), 0
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        place = _places(shuffled[rows], cv, cv, ties[rows])
        number[rows] = (start + place) % cv
        start = (start + int(place.max()) + 1) % cv
    return number


def _places(keys: Keys, kinds_needed: int, cv: int, ties: Values) -> Index:
    """Return numbers whose remainders are the folds; equal rows share one if there are enough distinct rows."""
    kinds, kind = np.unique(keys, return_inverse=True)
    if len(kinds) >= MIN_HASHED_ROWS * cv:
        # By the key itself, so that a change of one row does not move others; folds are not exactly equal in size.
        return (keys >> 2).astype(np.intp)
    if len(kinds) >= kinds_needed:
        return kind.reshape(-1)
    place = np.empty(len(keys), dtype=np.intp)
    place[np.lexsort((ties, keys))] = np.arange(len(keys))
    return place


def splits_of(number: Index) -> list[Split]:
    """Return the rows outside and inside each fold that has any."""
    return [(np.flatnonzero(number != fold), np.flatnonzero(number == fold)) for fold in np.unique(number)]


def deal(n: int, cv: int, random: np.random.RandomState) -> list[Places]:
    """Return random folds of row numbers, for rows of which only the number is known."""
    dealt = random.permutation(n)
    return [dealt[k::cv] for k in range(min(cv, n))]


@dataclass(frozen=True)
class DistinctRows:
    """Distinct rows of positive weight, in the order of their targets."""

    x: Any
    y: Array
    weight: Array  # how many rows of X each row stands for


def canonical(X: Any, y: Array, weight: Array | None) -> DistinctRows:
    """Return a table as the set of its rows, so that a fit does not depend on the order of its rows and columns.

    Sums of rounded numbers depend on their order, and where an optimum is flat, or a step is decided by a comparison,
    the last digit can change the result. So equal rows become one row that counts for all of them (not those of a
    sparse table), and rows and columns are sorted by their contents. Then a weight of two gives the same fit as the row
    twice, to the last digit, and so does any permutation.
    """
    weight = np.ones(len(y)) if weight is None else weight
    if not weight.all():
        weighted = weight > 0
        X, y, weight = X[weighted], y[weighted], weight[weighted]
    peak = abs(X).max(axis=0)
    check_sizes(np.append(peak.toarray() if sparse.issparse(X) else peak, np.abs(y).max()))
    y = y + 0.0  # without negative zeros
    rows = np.argsort(y)
    if sparse.issparse(X) or _is_new(y[rows]).all():
        return DistinctRows(X[rows], y[rows], weight[rows])
    x = X + 0.0
    # Rows are sorted by the columns most correlated with the target, whatever the order of the columns.
    order = column_order(x, y, weight)
    rows, first = _sorted_rows(x[:, order], y)
    if len(first) == len(rows):
        return DistinctRows(x[rows], y[rows], weight[rows])
    return DistinctRows(x[rows[first]], y[rows[first]], np.add.reduceat(weight[rows], first))


def check_sizes(peak: Array) -> None:
    """Raise an error for columns, the target last, whose squares exceed float64 by these largest sizes."""
    for column in np.flatnonzero((peak > _LARGEST) | ((peak > 0) & (peak < 1 / _LARGEST))):
        name = "y" if column == len(peak) - 1 else f"column {column} of X"
        raise ValueError(
            f"{name} is as large as {peak[column]:.0e}, and its squares exceed float64: give {name} in other units"
        )


def column_order(x: Array, y: Array, weight: Array) -> Index:
    """Return the columns by the size of their correlation with the target, largest first, and then by their mean."""
    share = weight / weight.sum()
    pull = y - share @ y
    pull = share * (pull / (np.abs(pull).max() or 1.0))
    mean = share @ x
    centred = x - mean
    deviation = np.sqrt(share @ centred**2)
    correlation = np.abs(pull @ centred) / np.where(deviation > 1e-10 * np.abs(mean), deviation, np.inf)
    return np.lexsort([mean, -correlation.round(10)])  # rounded, so that the last digit does not order equal columns


def _sorted_rows(x: Array, y: Array) -> tuple[Index, Index]:
    """Return the rows sorted by target, then by their columns, and the positions of the first of equal rows."""
    # A few columns order most rows; a key of the whole row, which takes longer, orders the others.
    keys: list[Values] = [*x.T[:3][::-1], y]
    rows, new = _sorted(keys)
    if not new.all() and x.shape[1] > 3:
        rows, new = _sorted([rank_keys(x)[0], *keys])
    return rows, np.flatnonzero(new)


def _sorted(keys: list[Values]) -> tuple[Index, Mask]:
    """Return the rows sorted by keys, the last one first, and whether each differs from the one before."""
    rows = np.lexsort(keys)
    return rows, np.any([_is_new(key[rows]) for key in keys], axis=0)


def _is_new(values: Values) -> Mask:
    """Return whether each value differs from the one before."""
    return np.append(True, values[1:] != values[:-1])
