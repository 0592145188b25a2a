"""A number per row that follows from what the row holds: it tells equal rows, and orders rows whatever their place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from likely._rows.blocks import Blocks, Rows, row_blocks

Keys = NDArray[np.uint64]
_DROPPED = 29  # bits of a double's fraction that a single does not have


def contents(*tables: Blocks | None) -> Keys:
    """Return a number per row that follows from its values, whatever their order, layout and precision.

    Args:
        tables: columns of the same rows; None is passed over.

    Returns:
        Array of shape (rows,), uint64. Rows that hold the same numbers, to single precision, have the same one.
    """
    parts = [
        _joined(block.double().cpu().numpy() for _, block in table.read()) for table in tables if table is not None
    ]
    keys = parts[0]
    for part in parts[1:]:
        keys = mixed(keys) + part
    return keys


def row_keys(X: Any) -> Keys:
    """Return a number per row that follows from what it holds.

    Args:
        X: array, sparse matrix, data frame or list.

    Returns:
        Array of shape (rows,), uint64.
    """
    if sparse.issparse(X):
        table = sparse.csr_array(X)
        return _joined(table[rows].toarray() for rows in row_blocks(*table.shape))
    array = np.asarray(X)
    if array.dtype.kind in "fiub":
        return contents(Rows(array.reshape(len(array), -1).astype(np.float64)))
    return np.array([_digest(row) for row in array], dtype=np.uint64)


def frame_keys(frame: Any) -> Keys:
    """Return a number per row of a pandas data frame whose columns may hold anything."""
    import pandas as pd

    keys: Keys = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    return keys


def exact_keys(table: NDArray[np.floating]) -> tuple[Keys, Keys]:
    """Return two numbers per row: one that only equal rows share, and one that ignores the order of columns too.

    Args:
        table: array of shape (rows, columns); gaps are equal to one another.
    """
    odd = mixed(np.arange(table.shape[1], dtype=np.uint64)) | np.uint64(1)
    exact, symmetric = np.empty((2, len(table)), dtype=np.uint64)
    for rows in row_blocks(*table.shape):
        bits = mixed(_bits(table[rows]))
        exact[rows], symmetric[rows] = bits @ odd, bits.sum(1, dtype=np.uint64)
    return exact, symmetric


def mixed(numbers: Keys) -> Keys:
    """Return splitmix64 of each: numbers that are near to one another end far apart."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Keys = z ^ (z >> np.uint64(31))
    return mixed


def _joined(blocks: Iterator[NDArray[Any]]) -> Keys:
    return np.concatenate([mixed(_single(_bits(block))).sum(1, dtype=np.uint64) for block in blocks])


def _bits(table: NDArray[Any]) -> Keys:
    """The bits of doubles, with one zero and one NaN."""
    numbers = np.ascontiguousarray(table, dtype=np.float64) + 0.0
    return np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)


def _single(bits: Keys) -> Keys:
    """Doubles rounded to the precision, but not to the range, of a single: an array and its copy as singles agree."""
    odd = (bits >> np.uint64(_DROPPED)) & np.uint64(1)  # halves go to the even neighbour
    nearest = bits + np.uint64(2 ** (_DROPPED - 1) - 1) + odd
    return nearest & ~np.uint64(2**_DROPPED - 1)


def _digest(row: Any) -> int:
    told = repr(row.tolist() if isinstance(row, np.ndarray) else row).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little")
