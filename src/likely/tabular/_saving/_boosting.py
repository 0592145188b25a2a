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
    """The sum of what trees say; it predicts as the estimator that it was made of."""

    roots: Index  # (trees,): those of a round one after the other
    left: Index  # (nodes,)
    right: Index
    feature: Index
    threshold: Array
    gaps_left: NDArray[np.bool_]  # (nodes,): where a missing value goes
    held: Index  # (nodes,): the place among ``holds`` of a split by category, −1 of one by number
    value: Array
    holds: NDArray[np.bool_]  # (splits, codes): what goes left
    start: Array  # (outputs,)
    order: Index  # the column that each feature is read from: categories come first
    levels: tuple[Array, ...]  # the values of each category, in the order of their codes
    inverse: str

    def __post_init__(self) -> None:
        check_nodes(
            self.roots, self.left, self.right, self.feature, self.threshold, self.gaps_left, self.held, self.value
        )

    @classmethod
    def of(cls, model: Any) -> Self:
        """From a fitted HistGradientBoostingRegressor or HistGradientBoostingClassifier.

        An AttributeError or another error is raised if this scikit-learn stores its trees in another way.
        """
        trees = [tree for turn in model._predictors for tree in turn]
        nodes = [tree.nodes for tree in trees]
        roots = np.cumsum([0, *map(len, nodes)])[:-1]
        inner = [own["is_leaf"] == 0 for own in nodes]
        bits = [_unpacked(tree.raw_left_cat_bitsets) for tree in trees]
        splits = np.cumsum([0, *map(len, bits)])[:-1]
        held = [
            np.where(own["is_categorical"] != 0, own["bitset_idx"].astype(np.int64) + first, -1)
            for own, first in zip(nodes, splits, strict=True)
        ]
        every = np.concatenate(nodes)
        categorical = getattr(model, "is_categorical_", None)
        order, levels = np.arange(model.n_features_in_), []
        if categorical is not None:
            order = np.concatenate([np.flatnonzero(categorical), np.flatnonzero(~categorical)])
            levels = [np.asarray(own) for own in model._preprocessor.named_transformers_["encoder"].categories_]
        return cls(
            roots,
            joined([own["left"].astype(np.int64) for own in nodes], roots, inner),
            joined([own["right"].astype(np.int64) for own in nodes], roots, inner),
            every["feature_idx"].astype(np.int32),
            every["num_threshold"].copy(),
            every["missing_go_to_left"] != 0,
            np.concatenate(held).astype(np.int32),
            every["value"].copy(),
            np.concatenate(bits),
            np.asarray(model._baseline_prediction).reshape(-1),
            order,
            tuple(levels),
            INVERSES[model.loss],
        )

    def predict(self, x: Array) -> Array:
        """The mean of each row."""
        raw = self._raw(x)[:, 0]
        return raw if self.inverse == "identity" else np.exp(raw)

    def predict_proba(self, x: Array) -> Array:
        """The probability of each class, of shape (rows, classes)."""
        raw = self._raw(x)
        if raw.shape[1] > 1:
            return np.asarray(softmax(raw, axis=1))
        share = np.asarray(expit(raw[:, 0]))
        return np.column_stack([1 - share, share])

    def _raw(self, x: Array) -> Array:
        return np.concatenate([self._some(part) for part in chunks(self._encoded(x))])

    def _encoded(self, x: Array) -> Array:
        x = np.asarray(x, dtype=np.float64)[:, self.order]
        for place, levels in enumerate(self.levels):
            codes = np.searchsorted(levels, x[:, place]).clip(max=max(len(levels) - 1, 0))
            known = levels[codes] == x[:, place] if len(levels) else np.zeros(len(x), dtype=bool)
            x[:, place] = np.where(known, codes, np.nan)
        return x

    def _some(self, x: Array) -> Array:
        def goes_left(nodes: Index, rows: Index) -> NDArray[np.bool_]:
            values, held = x[rows, self.feature[nodes]], self.held[nodes]
            left = values <= self.threshold[nodes]
            told = np.flatnonzero((held >= 0) & ~np.isnan(values))
            left[told] = self.holds[held[told], values[told].astype(np.intp)]
            return np.where(np.isnan(values), self.gaps_left[nodes], left)

        reached = leaves(self.roots, self.left, self.right, len(x), goes_left)
        said = self.value[reached].reshape(-1, len(self.start), len(x))
        return np.asarray(self.start[:, None] + said.sum(0)).T


def _unpacked(bitsets: Array) -> NDArray[np.bool_]:
    """Words of 32 bits, the lowest first, as one truth value per code."""
    words = np.asarray(bitsets, dtype="<u4").reshape(-1, BITS // 32)
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(bool)
