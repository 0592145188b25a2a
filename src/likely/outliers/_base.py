"""What detectors share: scikit-learn's conventions, a threshold, and tables of any kind."""

import math
from collections.abc import Callable
from copy import copy
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from likely._rows.blocks import drawn
from likely._rows.checks import check_sample_weight, check_table
from likely._rows.sources import by_blocks, source_of
from likely._typing import Array
from likely.outliers._columns import FeatureUnits, RowGroups
from likely.outliers._left_out import FOLDS, left_out, weights_without
from likely.outliers.threshold import Contamination, quantiles, threshold

_MIN_SAMPLE = 1 << 15  # rows that say what the others are like, at least
_MIN_ROWS, _MIN_ROWS_PER_COLUMN = 40, 2  # fewer leave fits open
_HELD_OUT = 200  # rows that are held out at least
number_per_row = by_blocks()
number_per_feature = by_blocks(width=lambda detector: detector.n_features_in_)


class OutlierDetector(OutlierMixin, BaseEstimator):
    """The base of all detectors. Subclasses write ``_learn(table, rows)``, ``_scores(table)`` and ``_contributions``.

    Tables may be arrays, frames, paths of Parquet, Feather or CSV files (a folder or a glob too), or Dask's arrays and
    frames, which are read by blocks; for Dask's tables results are Dask's too.

    Signs are scikit-learn's: ``predict`` is 1 for inliers and -1 for outliers, ``score_samples`` and
    ``decision_function`` are lower for outliers. ``outlier_score`` is the other way round: higher is worse.
    """

    columns_: FeatureUnits
    offset_: float
    n_features_in_: int
    # Returns the scores of the rows it learns from, and those they would have if each had been left out.
    _learn: Callable[[Array, RowGroups], tuple[Array, Array]]
    _scores: Callable[[Array], Array]
    _contributions: Callable[[Array], Array]
    _exceptions = False  # whether values in a column of which most are the same count by how rare they are
    _long_tails = False  # whether scores of ordinary rows may have a long upper tail
    _first_scores: Array | None = None  # by which training rows are judged, if not by those of rows left out

    def __init__(self, *, contamination: Contamination = "auto") -> None:
        self.contamination = contamination

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the distribution of the rows, and the threshold of ``predict``.

        From 65,536 rows on one of every two rows is drawn, from 98,304 on one of three, and so on.

        Args:
            X: the table, shape (rows, features): an array, a frame, the path of a file, a folder or a glob, or a Dask
                table. Missing values are allowed.
            y: ignored; pipelines pass it.
            sample_weight: one weight ≥ 0 per row; a weight of two counts a row twice. By default all are one.

        Returns:
            The fitted detector itself.
        """
        fitted, unseen, weight = self._fit(X, sample_weight)
        self._set_offset(fitted, unseen, weight)
        return self

    def _fit(self, X: Any, sample_weight: Any) -> tuple[Array, Array, Array]:
        """Learn; the scores of the rows read, those they would have if they had been left out, and their weights."""
        X, weight = self._sample(X, sample_weight)
        fitted, unseen, rows = self._learn_rows(X, weight)
        usual = fitted
        if len(rows.first) < max(_MIN_ROWS, _MIN_ROWS_PER_COLUMN * X.shape[1]) and not self._long_tails:
            # Formulas for leaving a row out hold where the rows determine the fit.
            out = left_out(rows, math.ceil(FOLDS * _HELD_OUT / len(rows.first)), np.random.RandomState(0))
            usual = unseen = np.full_like(fitted, np.nan)
            middle = quantiles(fitted, rows.weight, 0.5)
            for rows_out, without in zip(out, weights_without(rows, out), strict=True):
                scores = copy(self)._learn_rows(X, without, (without.sum() + rows.weight.sum()) / 2)[0]
                # One fewer row is one fewer principal direction: each fit has a middle of its own.
                unseen[rows_out] = scores[rows_out] + middle - quantiles(scores, without, 0.5)
        return *self._in_units(fitted, unseen, usual, rows.weight), rows.weight

    def _learn_rows(self, X: Any, weight: Array | None, total: float | None = None) -> tuple[Array, Array, RowGroups]:
        """Learn from rows that weigh so much; their scores, those if each were left out, and what they are.

        A fit that leaves rows out shrinks by a ``total`` weight halfway to that of all: by its own it would shrink so
        much more that its rows seem less odd than new ones are, by that of all so much less that they seem odder.
        """
        self.columns_, table, rows = FeatureUnits.learn(X, weight, self._exceptions)
        self._total = float(rows.weight.sum()) if total is None else total
        return *self._learn(table, rows), rows

    def _in_units(self, fitted: Array, unseen: Array, usual: Array, weight: Array) -> tuple[Array, Array]:
        """Scores of what ``_learn`` returns, in units of the ``usual`` of these."""
        return fitted, unseen

    def _set_offset(self, fitted: Array, unseen: Array, weight: Array) -> None:
        scores = fitted, unseen, weight
        self.offset_ = -threshold(*scores, self.contamination, self._long_tails, self._first_scores)

    def _sample(self, X: Any, sample_weight: Any) -> tuple[Any, Array | None]:
        """The rows that are read, and their weights."""
        self._check_parameters()
        source = source_of(X)
        if source is not None:
            source = source if sample_weight is None else source.with_columns(sample_weight)
            X, *weights = source.sample(max(1, len(source) // _MIN_SAMPLE))
            sample_weight = weights[0] if weights else None
        X = check_table(self, X, reset=True)
        weight = check_sample_weight(sample_weight, X, counts=False)
        stride = max(1, len(X) // _MIN_SAMPLE)
        rows = drawn(0, len(X), stride)
        if stride == 1 or (weight is not None and not weight[rows].any()):
            return X, weight
        return _safe_indexing(X, rows), None if weight is None else weight[rows]

    @number_per_row
    def outlier_score(self, X: Any) -> Any:
        """Return how badly each row fits: higher is worse.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Scores, one per row, of shape (rows,) and of the kind of table given (a series for a frame, Dask for Dask).
        """
        return self._scores(self._table(X))

    def score_samples(self, X: Any) -> Any:
        """Return minus the outlier score, as scikit-learn's detectors do: lower is worse.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Scores, one per row, of shape (rows,).
        """
        return -self.outlier_score(X)

    def decision_function(self, X: Any) -> Any:
        """Return ``score_samples`` less ``offset_``: negative for outliers.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Distances from the threshold, one per row, of shape (rows,).
        """
        return self.score_samples(X) - self.offset_

    @by_blocks(dtype=lambda _: np.int64)
    def predict(self, X: Any) -> Any:
        """Return -1 for outliers and 1 for all other rows.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Whole numbers, one per row, of shape (rows,).
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def explain(self, X: Any) -> Any:
        """Return how much each feature adds to the outlyingness of each row.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Squared deviations of shape (rows, features), as a frame with the names of the columns for a frame; one is
            usual, a hundred is ten standard deviations.
        """
        parts = self._explain(X)
        if not hasattr(X, "columns"):
            return parts
        names = getattr(self, "feature_names_in_", X.columns)
        if hasattr(parts, "columns"):  # of Dask, whose blocks are arrays
            return parts.rename(columns=dict(zip(parts.columns, names, strict=True)))
        return type(X)(parts, index=X.index, columns=names) if hasattr(X, "index") else type(X)(parts, list(names))

    @number_per_feature
    def _explain(self, X: Any) -> Any:
        return self._contributions(self._table(X))

    def _check_parameters(self) -> None:
        share = self.contamination
        if share != "auto" and not (isinstance(share, Real) and 0 < share <= 0.5):
            raise ValueError(f"contamination must be 'auto' or a share of rows in (0, 0.5], got {share!r}")

    def _table(self, X: Any) -> Array:
        check_is_fitted(self)
        return self.columns_.numbers(check_table(self, X, reset=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
