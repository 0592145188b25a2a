"""Keys of rows, computed from their contents, that identify equal rows and order them; and folds by these keys.

The fold of a row depends on its values, not on its position: the order of rows does not matter, and two equal rows are
in the same fold, as a row of weight two is.
"""

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from likely._rows.blocks import Rows, row_blocks
from likely._typing import Index, Places, Values

Keys = NDArray[np.uint64]
Split = tuple[Index, Index]
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
