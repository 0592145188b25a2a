"""Tables in blocks for linear models: targets and weights beside the rows, each block checked where it is stored."""

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
class Head:
    """The number of a table's columns, and their names if they have any."""

    columns: int
    names: tuple[str, ...] | None

    @classmethod
    def of(cls, checked: Any) -> Head:
        """Return the head of the table that an estimator has checked."""
        names = getattr(checked, "feature_names_in_", None)
        return cls(checked.n_features_in_, None if names is None else tuple(names))

    def name(self, estimator: Any) -> None:
        """Set the attributes that scikit-learn's estimators have after a fit to this table."""
        estimator.n_features_in_ = self.columns
        estimator.__dict__.pop("feature_names_in_", None)
        if self.names is not None:
            estimator.feature_names_in_ = np.asarray(self.names, dtype=object)


@dataclass(frozen=True)
class CheckedBlock:
    """Turn a block, with its targets and weights, into checked arrays."""

    estimator: Any
    counts: RowCounts | None
    target: bool = True

    def __call__(self, block: Any, *beside: Any) -> tuple[Head, Array, Array, Array | None]:
        """Return the head, the rows, their targets (n, k) and their weights; k is 0 where there is no target."""
        checker = clone(self.estimator)
        options: dict[str, Any] = {"dtype": np.float64, "ensure_min_samples": 0}
        if self.target and block.shape[0]:
            options |= {"y": beside[0], "multi_output": True, "y_numeric": True}
            x, y = validate_data(checker, block, **options)
            y = np.asarray(y, dtype=np.float64).reshape(len(x), -1)
        else:  # a Dask frame may have empty blocks, without targets to check
            x = validate_data(checker, block, **options)
            y = np.zeros((len(x), int(np.prod(beside[0].shape[1:])) if self.target else 0))
        weight = None if self.counts is None else self.counts(block_weight(beside[-1], x))
        return Head.of(checker), x, y, weight


@dataclass(frozen=True)
class Summary:
    """A table's head, its number of rows, and its factor."""

    head: Head
    rows: int
    factor: Factor

    def __add__(self, other: Summary) -> Summary:
        if self.head != other.head:
            raise ValueError(f"blocks have different columns: {self.head.names} and {other.head.names}")
        return Summary(self.head, self.rows + other.rows, self.factor + other.factor)


@dataclass(frozen=True)
class _Summarised:
    checked: CheckedBlock

    def __call__(self, block: Any, *beside: Any) -> Summary:
        head, x, y, weight = self.checked(block, *beside)
        return Summary(head, len(x), Factor.of(x, y, weight))


def with_targets(source: Source, y: Any, sample_weight: Any) -> tuple[Source, RowCounts | None]:
    """Return the table with targets and weights beside its rows, and the rule for the weights."""
    source = source if y is None else source.with_columns(y)
    if sample_weight is None:
        return source, None
    source = source.with_columns(sample_weight)
    return source, counts_of(source)


def summarised(estimator: Any, source: Source, y: Any, sample_weight: Any, least: int) -> Summary:
    """Return the sums over all rows that linear models are fitted on, in one pass, or two with weights.

    A missing target, fewer than ``least`` rows, or a block that is not of finite numbers raises a ``ValueError``.
    """
    if y is None:
        raise ValueError(f"{type(estimator).__name__} needs a target: pass y, an array or the name of a column")
    source, counts = with_targets(source, y, sample_weight)
    summary = source.total(_Summarised(CheckedBlock(clone(estimator), counts)))
    if summary.rows < least:
        raise ValueError(f"the table has {summary.rows} rows, and at least {least} are needed")
    return summary
