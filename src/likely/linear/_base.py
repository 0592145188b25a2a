"""Base classes of linear models: checks, and predictions with their uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import check_scalar
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch.distributions import Distribution, Normal

from likely._rows.checks import RowCounts, all_or_nothing, block_weight, check_sample_weight
from likely._rows.sources import Source, by_blocks, is_source, source_of
from likely._solvers.canonical import DistinctRows, canonical
from likely._solvers.design import Design, Posterior, standardized
from likely._solvers.factor import Factor
from likely._typing import Array
from likely._validation import refuse_dates


class LinearModel(BaseEstimator):
    """Base of all linear models. Subclasses write ``_fit``."""

    _least = 1  # minimum number of rows
    _accept_sparse: Any = False  # the formats of a sparse X
    _fit: Callable[[Any, Any, Any], None]  # to X, y and weights
    coef_: Array

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the coefficients, and the parameters of the likelihood and of the prior.

        Args:
            X: table of shape (n, d). Regressions that learn their prior also take tables in blocks, which are never
                loaded as a whole: a Dask array or frame, or a path, glob or URL of Parquet, Feather or CSV.
            y: target or label of each row, shape (n,). With a table in blocks, y can be the name of a column, which is
                then no feature.
            sample_weight: weight of each row, shape (n,), or the name of a column of a table in blocks; None for equal
                weights. Whole numbers count rows: a weight of two is the row twice. Other weights are scaled to a mean
                of one, so that only their ratios matter.

        Returns:
            The fitted estimator itself.

        Raises:
            ValueError: X or y has the wrong shape or holds NaN or ∞, or a parameter of the estimator is out of range.
            TypeError: X is a table in blocks, and the estimator is fitted to rows in memory.
        """
        for name, kind, least in (("max_iter", Integral, 1), ("tol", Real, 0)):
            check_scalar(getattr(self, name, least), name, kind, min_val=least)
        self._fit(X, y, sample_weight)
        return self

    def _checked_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse=self._accept_sparse, dtype=np.float64, reset=False)


class LinearRegressor(RegressorMixin, LinearModel):
    """Base of linear regressions. Subclasses write ``_learn``, which sets line and intercept, and ``_deviation``."""

    _learn: Callable[[Any, Array, Array | None], None]  # from X, y and weights
    _deviation: Callable[[Any], Array]  # of each row's prediction
    intercept_: float

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        require_rows_in_memory(self, X)
        refuse_dates(y)
        options = {"accept_sparse": self._accept_sparse, "accept_large_sparse": False, "y_numeric": True}
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=self._least, **options)
        self._learn(X, np.asarray(y, dtype=np.float64), check_sample_weight(sample_weight, X))

    @by_blocks(arrays=lambda return_std: 1 + return_std)
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predicted mean of the target for each row.

        Args:
            X: table of shape (n, d), in memory or in blocks.
            return_std: whether to return the predicted standard deviation of each row too.

        Returns:
            Array of shape (n,); with ``return_std`` a pair of such arrays. For Dask tables these are Dask arrays, not
            computed yet.
        """
        X = self._checked_rows(X)
        mean = X @ self.coef_ + self.intercept_
        return (mean, self._deviation(X)) if return_std else mean

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(self._accept_sparse)
        return tags


class DynamicLinearModel(LinearRegressor):
    """Base of linear regressions that learn their prior. Subclasses write ``_solve``, which sets what is learned.

    Results do not depend on the units of X or y, nor on the order of rows or columns. Columns that are multiples of one
    another share their weight evenly.
    """

    _power = 1.0  # a penalty weight p multiplies the penalty, so it divides the prior's scale by p to this power
    fit_intercept: bool
    penalty_weights: Any
    sigma_: float
    _posterior: Posterior
    _solve: Callable[[Design], Array]  # the weights

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        source = source_of(X)
        if source is None:
            super()._fit(X, y, sample_weight)
            return
        summary = summarised(self, source, y, sample_weight, self._least)
        summary.name_features(self)
        self._learn_design(summary.factor.design(self.fit_intercept, self._check_penalty_weights(summary.columns)))

    def _learn(self, X: Any, y: Array, weight: Array | None) -> None:
        penalty = self._check_penalty_weights(X.shape[1])
        self._learn_design(standardized(canonical(X, y, weight), self.fit_intercept, penalty))

    def _learn_design(self, design: Design) -> None:
        self.coef_, self.intercept_ = design.restored(self._solve(design))
        # Stored are the units of the fit, for new rows; the table itself is released.
        self._design = replace(design, x=np.zeros((0, design.shape[1])), y=np.zeros(0), offset=None, weight=None)

    def _deviation(self, X: Any) -> Array:
        """Return the standard deviation from the noise and the weights' uncertainty together."""
        return np.sqrt(self._posterior.noise + self._posterior.variance(self._design.prepared(X)))

    def predict_dist(self, X: Any) -> Distribution:
        """Return the predictive distribution of each row: normal, with the noise and the weights' uncertainty.

        With nearly as many columns as rows, or more, the noise of new rows cannot be read off the best fit. Then it is
        larger than ``sigma_``: the mean over all strengths of the prior, in the width of Student's t with the degrees
        of freedom that are left.

        Args:
            X: table of shape (n, d), in memory.

        Returns:
            A :class:`torch.distributions.Normal` of batch shape (n,), in float64.

        Raises:
            TypeError: X is a Dask table; ``predict(X, return_std=True)`` returns the parameters block by block.

        Example:
            >>> import numpy as np, torch
            >>> from likely.linear import DynamicRidge
            >>> X = np.arange(6.0)[:, None]
            >>> model = DynamicRidge().fit(X, [0.1, 0.9, 2.1, 2.9, 4.1, 4.9])
            >>> model.predict_dist(X[:2]).icdf(torch.tensor(0.5)).round()
            tensor([0., 1.], dtype=torch.float64)
        """
        mean, std = (in_memory(part) for part in self.predict(X, return_std=True))
        tiny = np.finfo(np.float64).tiny  # for a constant target, whose noise is zero
        return Normal(torch.from_numpy(mean), torch.from_numpy(np.maximum(std, tiny)))

    def _check_penalty_weights(self, columns: int) -> Array | None:
        if self.penalty_weights is None:
            return None
        weights = np.asarray(self.penalty_weights, dtype=np.float64)
        if weights.shape != (columns,) or not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(f"penalty_weights must hold a finite weight ≥ 0 for each of the {columns} columns of X")
        return weights**self._power


def require_rows_in_memory(estimator: Any, X: Any) -> None:
    """Raise an error for a table in blocks, for estimators whose fit needs all rows at once."""
    if is_source(X):
        raise TypeError(
            f"{type(estimator).__name__} is fitted to rows in memory: pass a sample (its predictions take tables in "
            "blocks), or use a regression that is fitted in one pass over blocks, such as DynamicRidge"
        )


def in_memory(prediction: Any) -> Array:
    """Return the parameters of a torch distribution; raise an error for a Dask table's, which are not computed yet."""
    if not isinstance(prediction, np.ndarray):
        raise TypeError("a torch distribution is held in memory: use predict(X, return_std=True) for a table in blocks")
    return prediction


def classes_of(model: Any) -> int:
    """Return the number of a fitted classifier's classes."""
    check_is_fitted(model)
    return len(model.classes_)


def _labels_of(model: Any) -> Any:
    """Return the type of a fitted classifier's labels."""
    check_is_fitted(model)
    return model.classes_.dtype


class LinearClassifier(ClassifierMixin, LinearModel):
    """Base of linear classifiers, whose lines are log odds or logits. Subclasses write ``_learn``, which sets both."""

    classes_: Any
    intercept_: Array
    _learn: Callable[[Array, DistinctRows], None]  # from X, and its canonical form with the numbers of the labels

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        require_rows_in_memory(self, X)
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=self._least)
        check_classification_targets(y)
        weight = check_sample_weight(sample_weight, X)
        seen = slice(None) if weight is None else weight > 0
        self.classes_, labels = np.unique(y[seen], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"the rows hold one class only, {self.classes_[0]}: at least 2 classes are needed")
        self._learn(X, canonical(X[seen], labels.astype(np.float64), None if weight is None else weight[seen]))

    @by_blocks(width=lambda model: None if classes_of(model) == 2 else classes_of(model))
    def decision_function(self, X: Any) -> Any:
        """Return the logits of each row; for two classes, that of the second.

        Args:
            X: table of shape (n, d).

        Returns:
            Array of shape (n,) for two classes, else (n, C).
        """
        logits = self._logits(X)
        return logits[:, 0] if len(self.classes_) == 2 else logits

    @by_blocks(dtype=_labels_of)
    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row.

        Args:
            X: table of shape (n, d).

        Returns:
            Array of shape (n,) with labels of ``classes_``.
        """
        logits = self.decision_function(X)
        return self.classes_[(logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(1)]

    def _logits(self, X: Any) -> Array:
        return self._checked_rows(X) @ self.coef_.T + self.intercept_


@dataclass(frozen=True)
class Summary:
    """A table's columns, their names if they have any, its number of rows, and its factor."""

    columns: int
    names: tuple[str, ...] | None
    rows: int
    factor: Factor

    def __add__(self, other: Summary) -> Summary:
        if (self.columns, self.names) != (other.columns, other.names):
            raise ValueError(f"blocks have different columns: {self.names} and {other.names}")
        return Summary(self.columns, self.names, self.rows + other.rows, self.factor + other.factor)

    def name_features(self, estimator: Any) -> None:
        """Set the attributes that scikit-learn's estimators have after a fit to this table."""
        estimator.n_features_in_ = self.columns
        estimator.__dict__.pop("feature_names_in_", None)
        if self.names is not None:
            estimator.feature_names_in_ = np.asarray(self.names, dtype=object)


def _summary_of_block(estimator: Any, counts: RowCounts | None, block: Any, *beside: Any) -> Summary:
    """Check a block with its targets and weights, and summarise it."""
    checker = clone(estimator)
    x, y = _checked(checker, block, beside[0])
    weight = None if counts is None else counts(block_weight(beside[-1], x))
    names = getattr(checker, "feature_names_in_", None)
    names = None if names is None else tuple(names)
    return Summary(checker.n_features_in_, names, len(x), Factor.of(x, y, weight))


def _checked(checker: Any, block: Any, target: Any) -> tuple[Array, Array]:
    options: dict[str, Any] = {"dtype": np.float64, "ensure_min_samples": 0}
    if not block.shape[0]:  # a Dask frame may have empty blocks, without targets to check
        return validate_data(checker, block, **options), np.zeros(0)
    x, y = validate_data(checker, block, target, y_numeric=True, **options)
    return x, np.asarray(y, dtype=np.float64)


def summarised(estimator: Any, source: Source, y: Any, sample_weight: Any, least: int) -> Summary:
    """Return the summary of all rows, in one pass, or two with weights.

    A missing target, fewer than ``least`` rows, or a block that is not of finite numbers raises a ``ValueError``.
    """
    if y is None:
        raise ValueError(f"{type(estimator).__name__} needs a target: pass y, an array or the name of a column")
    source, counts = source.with_columns(y), None
    if sample_weight is not None:
        source = source.with_columns(sample_weight)
        counts = source.total(_row_counts).checked()
    summary = source.total(partial(_summary_of_block, clone(estimator), counts))
    if summary.rows < least:
        raise ValueError(f"the table has {summary.rows} rows, and at least {least} are needed")
    return summary


def _row_counts(block: Any, *beside: Any) -> RowCounts:
    """The statistics of a block's weights, which come last."""
    return RowCounts.of(block_weight(beside[-1], block))
