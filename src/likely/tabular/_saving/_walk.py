"""Trees as plain arrays: every node has the indices of its two children, and a leaf has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely._typing import Array, Index

LEAF = -1
ROWS = 2048  # rows per chunk

GoesLeft = Callable[[Index, Index], NDArray[np.bool_]]


def check_nodes(roots: Index, left: Index, right: Index, *contents: NDArray[Any]) -> None:
    """Raise an error for arrays whose walk would leave them or never end: children come after their parents."""
    nodes = len(left)
    for part in (roots, left, right):
        if part.dtype.kind != "i" or part.ndim != 1:
            raise ValueError("the trees are damaged: indices of nodes are not whole numbers")
    if any(len(part) != nodes for part in (right, *contents)) or not len(roots):
        raise ValueError("the trees are damaged: their arrays differ in length")
    places, inner = np.arange(nodes), left != LEAF
    out_of_range = (roots < 0).any() or (roots >= nodes).any()
    for child in (left, right):
        out_of_range |= ((child <= places) & inner).any() or (child >= nodes).any()
    if out_of_range:
        raise ValueError("the trees are damaged: an index of a node is out of range")


def chunks(x: Array) -> Iterator[Array]:
    """Yield the rows in chunks."""
    for start in range(0, max(len(x), 1), ROWS):
        yield x[start : start + ROWS]


def leaves(roots: Index, left: Index, right: Index, rows: int, goes_left: GoesLeft) -> Index:
    """Return the leaf that every row reaches in every tree, of shape (trees, rows).

    ``goes_left(nodes, rows)`` returns whether each row goes left at its node.
    """
    current = np.repeat(roots.astype(np.intp), rows)
    row = np.tile(np.arange(rows), len(roots))
    walking = np.flatnonzero(left[current] != LEAF)
    while len(walking):
        nodes = current[walking]
        nodes = np.where(goes_left(nodes, row[walking]), left[nodes], right[nodes])
        current[walking] = nodes
        walking = walking[left[nodes] != LEAF]
    return current.reshape(len(roots), rows)


def joined(parts: list[NDArray[Any]], roots: Index, inner: list[NDArray[np.bool_]]) -> Index:
    """Return the children of several trees as indices into the nodes of all trees; those of leaves are ``LEAF``."""
    moved = [
        np.where(has_children, part + root, LEAF) for part, root, has_children in zip(parts, roots, inner, strict=True)
    ]
    return np.concatenate(moved).astype(np.int32)
