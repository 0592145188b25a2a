"""Trees as plain arrays: every node has the places of its two children, and a leaf has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely._typing import Array, Index

LEAF = -1
ROWS = 2048  # that walk at a time

GoesLeft = Callable[[Index, Index], NDArray[np.bool_]]


def check_nodes(roots: Index, left: Index, right: Index, *others: NDArray[Any]) -> None:
    """Refuse arrays whose walk would leave them or never end: children come after their parents."""
    nodes = len(left)
    for part in (roots, left, right):
        if part.dtype.kind != "i" or part.ndim != 1:
            raise ValueError("the trees are damaged: places of nodes are not whole numbers")
    if any(len(part) != nodes for part in (right, *others)) or not len(roots):
        raise ValueError("the trees are damaged: their arrays differ in length")
    places, inner = np.arange(nodes), left != LEAF
    astray = (roots < 0).any() or (roots >= nodes).any()
    for child in (left, right):
        astray |= ((child <= places) & inner).any() or (child >= nodes).any()
    if astray:
        raise ValueError("the trees are damaged: a node leads astray")


def chunks(x: Array) -> Iterator[Array]:
    """Some rows after the other."""
    for start in range(0, max(len(x), 1), ROWS):
        yield x[start : start + ROWS]


def leaves(roots: Index, left: Index, right: Index, rows: int, goes_left: GoesLeft) -> Index:
    """The leaf that every row reaches in every tree, of shape (trees, rows).

    ``goes_left(nodes, rows)`` tells which way each pair of a node and a row takes.
    """
    at = np.repeat(roots.astype(np.intp), rows)
    row = np.tile(np.arange(rows), len(roots))
    walking = np.flatnonzero(left[at] != LEAF)
    while len(walking):
        nodes = at[walking]
        nodes = np.where(goes_left(nodes, row[walking]), left[nodes], right[nodes])
        at[walking] = nodes
        walking = walking[left[nodes] != LEAF]
    return at.reshape(len(roots), rows)


def joined(parts: list[NDArray[Any]], roots: Index, inner: list[NDArray[np.bool_]]) -> Index:
    """The children of several trees as places among the nodes of all; leaves have none."""
    moved = [np.where(own, part + root, LEAF) for part, root, own in zip(parts, roots, inner, strict=True)]
    return np.concatenate(moved).astype(np.int32)
