"""Checks of weights and of tables; and a decorator by which a failed fit changes nothing."""

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from sklearn.utils.validation import _num_samples, check_array, validate_data

from likely._rows.columns import is_frame
from likely._typing import Array

P = ParamSpec("P")
Fitted = TypeVar("Fitted")
Result = TypeVar("Result")


def check_sample_weight(sample_weight: Any, X: Any, *, counts: bool = True) -> Array | None:
    """Return the number of rows that each row of X counts for, or None where no weights are given."""
    if sample_weight is None:
        return None
    weight = block_weight(sample_weight, X)
    rule = RowCounts.of(weight).checked(warn=counts)
    return rule(weight) if counts else weight


def row_weights(sample_weight: Any, X: Any) -> Array:
    """Return the number of rows that each row of X counts for; ones where no weights are given."""
    weight = check_sample_weight(sample_weight, X)
    return np.ones(len(X)) if weight is None else weight


def block_weight(sample_weight: Any, X: Any) -> Array:
    """Check and return the weights of rows, which may all be zero."""
    n = _num_samples(X)
    array = sample_weight.detach().cpu() if hasattr(sample_weight, "detach") else sample_weight
    weight = np.asarray(array, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n, weight)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must hold one weight per row, shape ({n},); got {weight.shape}")
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise ValueError("sample_weight must be finite and ≥ 0 in every row")
    return weight


def check_table(estimator: Any, X: Any, *, reset: bool, accept_sparse: Any = False) -> Any:
    """Check a table; return a frame unchanged, anything else as an array of numbers, NaN where one is missing."""
    least = 2 if reset else 1
    if not is_frame(X):
        return validate_data(
            estimator,
            X,
            accept_sparse=accept_sparse,
            dtype=[np.float64, np.float32],  # of either width they are left where they are, on disk too
            ensure_all_finite="allow-nan",
            ensure_min_samples=least,
            reset=reset,
        )
    validate_data(estimator, X, skip_check_array=True, reset=reset)
    if len(X) < least or 0 in X.shape:
        check_array(np.zeros(X.shape), ensure_min_samples=least)
    return X


@dataclass(frozen=True)
class RowCounts:
    """How many rows each row counts for: the one rule for ``sample_weight`` in this package, by all weights together.

    Whole numbers are counts: a weight of 3 is the row three times, 0 leaves it out. Other weights cannot be counts, so
    they are relative: they are scaled to a mean of one over the rows of positive weight, and only their ratios matter.
    Where that changes them by more than a factor of ten, a warning is given, because weights that were meant as
    fractions of rows then stand for another amount of data. The statistics of blocks can be added up.

    >>> [RowCounts.of(weight)(weight).round(9).tolist() for weight in (np.array([3.0, 0, 1]), np.array([2.4, 0, 0.8]))]
    [[3.0, 0.0, 1.0], [1.5, 0.0, 0.5]]
    """

    rows: int
    positive: int  # number of rows of positive weight
    whole: bool  # whether all weights are whole numbers
    largest: float
    share: float  # sum of the weights over the largest

    @classmethod
    def of(cls, weight: Array) -> "RowCounts":
        """Return the statistics of the weights of a block, which are finite and ≥ 0."""
        largest = float(weight.max(initial=0.0))
        if not largest:
            return cls(len(weight), 0, True, 0.0, 0.0)
        whole = bool((np.abs(weight - np.rint(weight)) <= 1e-12 * weight).all())
        shares = weight / largest  # first, or a sum of weights of 1e308 would overflow
        positive = weight > 0
        return cls(len(weight), int(positive.sum()), whole, largest, float(shares[positive].sum()))

    def __add__(self, other: "RowCounts") -> "RowCounts":
        largest = max(self.largest, other.largest)
        parts = [counts.share * (counts.largest / largest) for counts in (self, other) if counts.positive]
        rows = self.rows + other.rows
        positive = self.positive + other.positive
        return RowCounts(rows, positive, self.whole and other.whole, largest, math.fsum(parts))

    @property
    def are_counts(self) -> bool:
        """Whether weights are numbers of rows, and not only relative."""
        # Beyond 2⁵³ every float is a whole number, and none is a count.
        return self.whole and self.largest * self.rows < 2.0**53

    def checked(self, warn: bool = True) -> "RowCounts":
        """Return these counts; warn of weights that are no counts and whose mean is far from one."""
        if not self.positive:
            raise ValueError("sample_weight is zero everywhere: it must contain at least one non-zero number")
        mean = self.largest * (self.share / self.positive)
        if warn and not self.are_counts and not 0.1 <= mean <= 10:
            warnings.warn(
                f"sample_weight has a mean of {mean:.3g} and is not made of counts (whole numbers), "
                "so only its ratios are used, scaled to a mean of one: pass sample_weight * n / sample_weight.sum(), "
                "n being the number of rows with a positive weight, for the same result without this warning",
                UserWarning,
                stacklevel=3,
            )
        return self

    def __call__(self, weight: Array) -> Array:
        """Return the number of rows that each row of a block counts for."""
        if self.are_counts:
            return np.rint(weight)
        return weight / self.largest / (self.share / self.positive)


def all_or_nothing(fit: Callable[Concatenate[Fitted, P], Result]) -> Callable[Concatenate[Fitted, P], Result]:
    """Decorate a ``fit`` so that one that fails leaves the object as it was: the earlier fit, or none.

    ``fit`` must rebind attributes of its object, not change them in place.
    """

    @functools.wraps(fit)
    def decorated(self: Fitted, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        before = dict(self.__dict__)
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return decorated
