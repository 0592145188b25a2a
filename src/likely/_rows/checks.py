"""Checks of weights and features; and a decorator by which a failed fit changes nothing."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples
from torch import Tensor

from likely._rows.blocks import Rows

P = ParamSpec("P")
Fitted = TypeVar("Fitted")
Result = TypeVar("Result")


def check_sample_weight(sample_weight: Any, X: Any, *, counts: bool = True) -> NDArray[np.float64] | None:
    """Return the number of rows that each row of X counts for, or None where no weights are given."""
    if sample_weight is None:
        return None
    n: int = _num_samples(X)
    array = sample_weight.detach().cpu() if isinstance(sample_weight, Tensor) else sample_weight
    weight: NDArray[np.float64] = np.asarray(array, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n, weight)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must hold one weight per row, shape ({n},); got {weight.shape}")
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise ValueError("sample_weight must be finite and ≥ 0 in every row")
    if not weight.any():
        raise ValueError("sample_weight must be not zero everywhere: it must contain at least one non-zero number")
    return row_counts(weight) if counts else weight


def check_features(features: Any, n: int) -> Rows | None:
    """Check every value of the features, block by block, and return them as rows."""
    if features is None:
        return None
    array = features if isinstance(features, Tensor) or hasattr(features, "dtype") else np.asarray(features)
    if not isinstance(array, Tensor) and array.dtype.kind != "f":
        array = np.asarray(array, dtype=np.float64)
    if array.ndim != 2 or len(array) != n:
        raise ValueError(f"features must have the shape ({n}, d), d numbers for each row; got {tuple(array.shape)}")
    rows = Rows(array)
    if not all(bool(block.isfinite().all()) for _, block in rows.read()):
        raise ValueError("features hold NaN or infinities: impute or clean them first")
    return rows


def row_counts(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn weights of any scale into numbers of rows: the one rule for ``sample_weight`` in this package.

    Whole numbers are counts: a weight of 3 is the row three times, 0 leaves it out. Other weights cannot be counts, so
    they are relative: they are scaled to a mean of one over the rows of positive weight, and only their ratios matter.
    Where that changes them by more than a factor of ten, a warning is given, because weights that were meant as
    fractions of rows then stand for another amount of data.

    >>> row_counts(np.array([3.0, 0.0, 1.0]))
    array([3., 0., 1.])
    >>> row_counts(np.array([1.5, 0.0, 0.5]))
    array([1.5, 0. , 0.5])
    >>> row_counts(np.array([2.4, 0.0, 0.8]))
    array([1.5, 0. , 0.5])
    """
    whole = np.rint(weight)
    # Beyond 2⁵³ every float is a whole number, and none is a count.
    if (np.abs(weight - whole) <= 1e-12 * weight).all() and whole.max() * len(whole) < 2.0**53:
        return whole
    share = weight / weight.max()  # first, or a sum of weights of 1e308 would overflow
    seen = share > 0
    mean = float(share[seen].mean())
    warn_of_scale(mean * float(weight.max()))
    return share / mean


def warn_of_scale(mean: float) -> None:
    """Warn of weights that are not counts and whose mean over the rows of positive weight is far from one."""
    if not 0.1 <= mean <= 10:
        warnings.warn(
            f"sample_weight has a mean of {mean:.3g} and is not made of counts (whole numbers), "
            "so only its ratios are used, scaled to a mean of one: pass sample_weight * n / sample_weight.sum(), "
            "n being the number of rows with a positive weight, to say the same without this warning",
            UserWarning,
            stacklevel=_outside(),
        )


def _outside() -> int:
    """Return the stack level, seen from the caller, of the first frame outside this package and scikit-learn."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("likely", "sklearn"):
        frame, level = frame.f_back, level + 1
    return level


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
