"""Checks of the metrics' arguments, which become NumPy arrays and weights.

Metrics run on the CPU and sum in float64. A mistake raises a one-line error that names the argument and the remedy.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from typing_extensions import TypeAliasType  # a dependency of torch; in typing from Python 3.12 on

from likely._typing import Values

# Named aliases, so that signatures in the documentation show Array instead of its definition.
Array = TypeAliasType("Array", Values)
Input = TypeAliasType("Input", ArrayLike | Tensor)


class Classified(NamedTuple):
    """Labels, probabilities (n, C) and weights of the rows."""

    labels: Array
    probabilities: Array
    weight: Array
    precision: torch.dtype


class Judged(NamedTuple):
    """One probability per row, whether its event occurred, and the weight of the row."""

    confidence: Array
    hit: Array
    weight: Array
    precision: torch.dtype


def as_array(name: str, value: Input) -> Array:
    """Return ``value`` as a NumPy array of numbers without NaN, in its own precision (bfloat16 as float32)."""
    if isinstance(value, Tensor):
        value = (value.float() if value.dtype == torch.bfloat16 else value).numpy(force=True)
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must hold numbers, got {array.dtype}: encode labels first, with LabelEncoder for example"
        )
    if array.size == 0:
        raise ValueError(f"{name} is empty: give at least one row")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name} holds NaN: drop or impute those rows")
    return array


def as_weight(sample_weight: Input | None, rows: int) -> Array:
    """Return the weights of the rows in float64, ones if None."""
    if sample_weight is None:
        return np.ones(rows)
    weight = as_array("sample_weight", sample_weight).astype(np.float64)
    if weight.shape != (rows,):
        raise ValueError(f"sample_weight has shape {weight.shape}, expected ({rows},): give one weight per row")
    if not (weight >= 0).all() or not np.isfinite(weight).all():
        raise ValueError(f"sample_weight must be finite and ≥ 0, got {weight.min():.6g} to {weight.max():.6g}: clip it")
    if not weight.any():
        raise ValueError("sample_weight is zero everywhere: give at least one row a positive weight")
    return weight


def classified(y_true: Input, y_prob: Input, sample_weight: Input | None) -> Classified:
    """Check labels against probabilities; a vector becomes the two columns 1 - p and p."""
    probabilities, precision = _as_probabilities(y_prob)
    labels = as_labels(y_true, *probabilities.shape)
    return Classified(labels, probabilities, as_weight(sample_weight, len(labels)), precision)


def judged(data: Classified, pos_label: int | None) -> Judged:
    """Return the top class of each row (``pos_label=None``) or one class for all rows, without rows of weight zero."""
    labels, probabilities, weight, precision = data
    if pos_label is None:
        chosen = probabilities.argmax(1)
        confidence = np.take_along_axis(probabilities, chosen[:, None], 1)[:, 0]
        hit = chosen == labels
    else:
        classes = probabilities.shape[1]
        if not 0 <= pos_label < classes:
            raise ValueError(f"pos_label must be a class from 0 to {classes - 1}, or None for the top; got {pos_label}")
        confidence, hit = probabilities[:, pos_label], labels == pos_label
    counted = weight > 0
    return Judged(confidence[counted].astype(np.float64), hit[counted].astype(np.float64), weight[counted], precision)


def _as_probabilities(y_prob: Input) -> tuple[Array, torch.dtype]:
    dtype = y_prob.dtype if isinstance(y_prob, Tensor) else None
    array = as_array("y_prob", y_prob)
    if array.dtype not in (np.float16, np.float32, np.float64):
        array, dtype = array.astype(np.float64), None
    precision = dtype or torch.from_numpy(np.empty(0, array.dtype)).dtype
    half = precision in (torch.float16, torch.bfloat16)
    slack, tolerance = (1e-2, 2e-2) if half else (1e-6, 1e-3)
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] < 2):
        raise ValueError(
            f"y_prob has shape {array.shape}: give (rows, classes), or (rows,) with the probability of class 1"
        )
    low, high = float(array.min()), float(array.max())
    if low < -slack or high > 1 + slack:
        raise ValueError(
            f"y_prob must lie in [0, 1], got {low:.6g} to {high:.6g}: convert logits to probabilities first"
        )
    if low < 0 or high > 1:
        array = array.clip(0, 1)
    if array.ndim == 1:
        return np.stack([1 - array, array], 1), precision
    sums = array.sum(1, dtype=np.float64)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > tolerance:
        raise ValueError(f"the rows of y_prob must sum to one, row {worst} sums to {sums[worst]:.6g}: normalise them")
    return array, precision


def as_labels(y_true: Input, rows: int, classes: int) -> Array:
    """Return the class numbers of ``rows`` rows."""
    labels = as_array("y_true", y_true)
    if labels.shape != (rows,):
        raise ValueError(
            f"y_true has shape {labels.shape}, expected ({rows},): give one class number per row of y_prob"
        )
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        raise ValueError("y_true must hold class numbers, got fractions: pass labels first, then probabilities")
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"y_true holds class {labels.min():.0f} to {labels.max():.0f}, but y_prob has classes 0 to {classes - 1}: "
            "number the classes by the columns of y_prob"
        )
    return labels.astype(np.intp)


def as_logits(logits: Input) -> Array:
    """Return logits (rows, classes), or (rows,) of class 1; -∞ excludes a class."""
    z = as_array("logits", logits)
    if z.ndim not in (1, 2) or (z.ndim == 2 and z.shape[1] < 2):
        raise ValueError(f"logits have shape {z.shape}: give (rows, classes), or (rows,) with the logit of class 1")
    if np.isposinf(z).any() or (z.ndim == 2 and np.isneginf(z).all(1).any()):
        raise ValueError("logits must be below +∞, and each row must have a finite one: clip them")
    return z


def relative(weight: Array) -> Array:
    """Return the weights divided by a power of two, so that the largest is near one.

    Only ratios count, sums or squares of 1e300 would overflow, and a power of two rounds nothing.
    """
    return np.ldexp(weight, -int(np.frexp(weight.max())[1]))


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def check_count(name: str, count: int) -> None:
    """Raise an error for anything but a positive whole number."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise ValueError(f"{name} must be an integer ≥ 1, got {count!r}")


def average(values: Array, weight: Array, reduction: str) -> float | Array:
    """Return the weighted mean over the rows (axis 0) and all other axes, or the values themselves."""
    check_choice("reduction", reduction, ("mean", "none"))
    if reduction == "none":
        return values
    counted, weight = weight > 0, relative(weight)  # 0 · ∞ would be NaN
    rows = values[counted].reshape(int(counted.sum()), -1).mean(1)
    return float(np.dot(rows, weight[counted]) / weight[counted].sum())
