"""scikit-learn's forests of extremely randomised trees as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from likely._typing import Array, Index
from likely.tabular._saving._walk import LEAF, check_nodes, chunks, joined, leaves


@dataclass(frozen=True)
class PlainForest:
    """A mean of trees, with the same predictions as the forest that it was made from."""

    roots: Index  # (trees,)
    left: Index  # (nodes,)
    right: Index
    feature: Index
    threshold: Array
    value: Array  # (nodes, outputs)
    classes_: Index | None  # of a classifier

    def __post_init__(self) -> None:
        check_nodes(self.roots, self.left, self.right, self.feature, self.threshold, self.value)

    @classmethod
    def of(cls, forest: Any) -> Self:
        """Convert a fitted ExtraTreesRegressor or ExtraTreesClassifier of one target."""
        trees = [tree.tree_ for tree in forest.estimators_]
        roots = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
        inner = [tree.children_left != LEAF for tree in trees]
        return cls(
            roots,
            joined([tree.children_left for tree in trees], roots, inner),
            joined([tree.children_right for tree in trees], roots, inner),
            np.concatenate([tree.feature for tree in trees]).astype(np.int32),
            np.concatenate([tree.threshold for tree in trees]),
            np.concatenate([tree.value[:, 0] for tree in trees]),
            np.asarray(forest.classes_) if hasattr(forest, "classes_") else None,
        )

    def predict(self, x: Array) -> Array:
        """Predict the mean of the leaves, of shape (rows, outputs)."""
        return np.concatenate([self._predict_chunk(np.asarray(part, dtype=np.float32)) for part in chunks(x)])

    def predict_proba(self, x: Array) -> Array:
        """Predict the probability of each class, of shape (rows, classes)."""
        return self.predict(x)

    def _predict_chunk(self, x: Array) -> Array:
        reached = leaves(
            self.roots, self.left, self.right, len(x),
            lambda nodes, rows: x[rows, self.feature[nodes]] <= self.threshold[nodes],
        )  # fmt: skip
        return np.asarray(self.value[reached].mean(0))
