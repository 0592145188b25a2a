"""scikit-learn's histogram boosting as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from likely._typing import Array, Index
from likely.tabular._saving._walk import check_nodes, chunks, joined, leaves

BITS = 256  # codes of a category that a split may hold
INVERSES = {"squared_error": "identity", "poisson": "exp", "gamma": "exp", "log_loss": "classes"}


@dataclass(frozen=True)
class PlainBoosting:
    """A sum of trees, with the same predictions as the estimator that it was made from."""

    roots: Index  # (trees,): round by round
    left: Index  # (nodes,)
    right: Index
    feature: Index
    threshold: Array
    gaps_left: NDArray[np.bool_]  # (nodes,): where a missing value goes
    split: Index  # (nodes,): the row of ``holds`` for a split by category, −1 for one by number
    value: Array
    holds: NDArray[np.bool_]  # (splits, codes): whether a category goes left
    start: Array  # (outputs,)
    order: Index  # the column of each feature: categories come first
    levels: tuple[Array, ...]  # the values of each category, in the order of their codes
    inverse: str

    def __post_init__(self) -> None:
        check_nodes(
            self.roots, self.left, self.right, self.feature, self.threshold, self.gaps_left, self.split, self.value
        )

    @classmethod
    def of(cls, model: Any) -> Self:
        """Convert a fitted HistGradientBoostingRegressor or HistGradientBoostingClassifier.

        Raises AttributeError or another error if this version of scikit-learn stores its trees in another way.
        """
        trees = [tree for turn in model._predictors for tree in turn]
        nodes = [tree.nodes for tree in trees]
        roots = np.cumsum([0, *map(len, nodes)])[:-1]
        inner = [tree_nodes["is_leaf"] == 0 for tree_nodes in nodes]
        bits = [_unpacked(tree.raw_left_cat_bitsets) for tree in trees]
        splits = np.cumsum([0, *map(len, bits)])[:-1]
        split = [
            np.where(tree_nodes["is_categorical"] != 0, tree_nodes["bitset_idx"].astype(np.int64) + offset, -1)
            for tree_nodes, offset in zip(nodes, splits, strict=True)
        ]
        all_nodes = np.concatenate(nodes)
        categorical = getattr(model, "is_categorical_", None)
        order, levels = np.arange(model.n_features_in_), []
        if categorical is not None:
            order = np.concatenate([np.flatnonzero(categorical), np.flatnonzero(~categorical)])
            levels = [np.asarray(values) for values in model._preprocessor.named_transformers_["encoder"].categories_]
        return cls(
            roots,
            joined([tree_nodes["left"].astype(np.int64) for tree_nodes in nodes], roots, inner),
            joined([tree_nodes["right"].astype(np.int64) for tree_nodes in nodes], roots, inner),
            all_nodes["feature_idx"].astype(np.int32),
            all_nodes["num_threshold"].copy(),
            all_nodes["missing_go_to_left"] != 0,
            np.concatenate(split).astype(np.int32),
            all_nodes["value"].copy(),
            np.concatenate(bits),
            np.asarray(model._baseline_prediction).reshape(-1),
            order,
            tuple(levels),
            INVERSES[model.loss],
        )

    def predict(self, x: Array) -> Array:
        """Predict the mean of each row."""
        raw = self._raw(x)[:, 0]
        return raw if self.inverse == "identity" else np.exp(raw)

    def predict_proba(self, x: Array) -> Array:
        """Predict the probability of each class, of shape (rows, classes)."""
        raw = self._raw(x)
        if raw.shape[1] > 1:
            return np.asarray(softmax(raw, axis=1))
        share = np.asarray(expit(raw[:, 0]))
        return np.column_stack([1 - share, share])

    def _raw(self, x: Array) -> Array:
        return np.concatenate([self._predict_chunk(part) for part in chunks(self._encoded(x))])

    def _encoded(self, x: Array) -> Array:
        x = np.asarray(x, dtype=np.float64)[:, self.order]
        for place, levels in enumerate(self.levels):
            codes = np.searchsorted(levels, x[:, place]).clip(max=max(len(levels) - 1, 0))
            known = levels[codes] == x[:, place] if len(levels) else np.zeros(len(x), dtype=bool)
            x[:, place] = np.where(known, codes, np.nan)
        return x

    def _predict_chunk(self, x: Array) -> Array:
        def goes_left(nodes: Index, rows: Index) -> NDArray[np.bool_]:
            values, split = x[rows, self.feature[nodes]], self.split[nodes]
            left = values <= self.threshold[nodes]
            by_category = np.flatnonzero((split >= 0) & ~np.isnan(values))
            left[by_category] = self.holds[split[by_category], values[by_category].astype(np.intp)]
            return np.where(np.isnan(values), self.gaps_left[nodes], left)

        reached = leaves(self.roots, self.left, self.right, len(x), goes_left)
        steps = self.value[reached].reshape(-1, len(self.start), len(x))
        return np.asarray(self.start[:, None] + steps.sum(0)).T


def _unpacked(bitsets: Array) -> NDArray[np.bool_]:
    """Convert words of 32 bits, the lowest first, to one truth value per code."""
    words = np.asarray(bitsets, dtype="<u4").reshape(-1, BITS // 32)
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(bool)
