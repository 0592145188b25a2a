"""A number per row that follows from what the row holds: it tells equal rows, and orders rows whatever their place."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from likely._rows.blocks import Rows

Keys = NDArray[np.uint64]


def contents(*tables: Rows | None) -> Keys:
    """Return a number per row that follows from its values, whatever their order, layout and precision.

    Args:
        tables: columns of the same rows; None is passed over.

    Returns:
        Array of shape (rows,), uint64. Rows that hold the same numbers have the same one.
    """
    parts = [_sums(table) for table in tables if table is not None]
    keys = parts[0]
    for part in parts[1:]:
        keys = mixed(keys) + part
    return keys


def _sums(table: Rows) -> Keys:
    largest = 0.0
    for part in table.blocks():
        block = table[part]
        largest = max(largest, float(block.masked_fill(~block.isfinite(), 0).abs().max()) if block.numel() else 0.0)
    # In single precision, so that an array and its copy in single precision agree; by a power of two, so that all fit.
    unit = 2.0 ** -max(min(math.frexp(largest)[1], 1020), -1020)
    sums = []
    for part in table.blocks():
        single = (table[part].double() * unit).float().cpu().numpy() + np.float32(0)  # -0 is 0
        bits = np.ascontiguousarray(single).view(np.uint32).astype(np.uint64)
        sums.append(mixed(bits.reshape(len(bits), -1)).sum(1, dtype=np.uint64))
    return np.concatenate(sums)


def mixed(numbers: Keys) -> Keys:
    """splitmix64: numbers that are near to one another end far apart."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Keys = z ^ (z >> np.uint64(31))
    return mixed


def row_keys(X: Any) -> Keys:
    """Return a number per row that follows from what it holds.

    Args:
        X: array, sparse matrix, data frame or list.

    Returns:
        Array of shape (rows,), uint64.
    """
    if sparse.issparse(X):
        table = sparse.csr_array(X)
        step = max(1, 2**20 // max(1, table.shape[1]))
        parts = [table[k : k + step].toarray() for k in range(0, table.shape[0], step)]
        # All blocks in the same units, those of the largest number.
        largest = float(np.abs(table.data).max(initial=0.0))
        return np.concatenate([contents(Rows(_with(part, largest)))[:-1] for part in parts])
    array = np.asarray(X)
    if array.dtype.kind in "fiub":
        return contents(Rows(array.reshape(len(array), -1).astype(np.float64)))
    return np.array([_digest(row) for row in array], dtype=np.uint64)


def _with(part: NDArray[Any], largest: float) -> NDArray[np.float64]:
    return np.vstack([part.astype(np.float64), np.full((1, part.shape[1]), largest)])


def _digest(row: Any) -> int:
    told = repr(row.tolist() if isinstance(row, np.ndarray) else row).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little")
