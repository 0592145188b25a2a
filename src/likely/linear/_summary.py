"""Tables in blocks, reduced to the sums over rows that self-tuning linear models are fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from likely._rows.checks import RowCounts, block_weight, counts_of
from likely._rows.sources import Source
from likely._solvers.factor import Factor
from likely._typing import Array


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


@dataclass(frozen=True)
class _BlockSummary:
    """Check a block with its targets and weights, and summarise it."""

    estimator: Any
    counts: RowCounts | None

    def __call__(self, block: Any, *beside: Any) -> Summary:
        checker = clone(self.estimator)
        x, y = _checked(checker, block, beside[0])
        weight = None if self.counts is None else self.counts(block_weight(beside[-1], x))
        names = getattr(checker, "feature_names_in_", None)
        names = None if names is None else tuple(names)
        return Summary(checker.n_features_in_, names, len(x), Factor.of(x, y, weight))


def _checked(checker: Any, block: Any, target: Any) -> tuple[Array, Array]:
    """Return the rows and their targets, shape (n, k)."""
    options: dict[str, Any] = {"dtype": np.float64, "ensure_min_samples": 0}
    if not block.shape[0]:  # a Dask frame may have empty blocks, without targets to check
        return validate_data(checker, block, **options), np.zeros((0, int(np.prod(target.shape[1:]))))
    x, y = validate_data(checker, block, target, multi_output=True, y_numeric=True, **options)
    return x, np.asarray(y, dtype=np.float64).reshape(len(x), -1)


def summarised(estimator: Any, source: Source, y: Any, sample_weight: Any, least: int) -> Summary:
    """Return the summary of all rows, in one pass, or two with weights.

    A missing target, fewer than ``least`` rows, or a block that is not of finite numbers raises a ``ValueError``.
    """
    if y is None:
        raise ValueError(f"{type(estimator).__name__} needs a target: pass y, an array or the name of a column")
    source, counts = source.with_columns(y), None
    if sample_weight is not None:
        source = source.with_columns(sample_weight)
        counts = counts_of(source)
    summary = source.total(_BlockSummary(clone(estimator), counts))
    if summary.rows < least:
        raise ValueError(f"the table has {summary.rows} rows, and at least {least} are needed")
    return summary
