"""Bins of equal width as sums over rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from likely.metrics._bins import Bins, bin_of, check_bins, uniform_edges
from likely.metrics._input import Array, Classified, classified, judged, relative
from likely.metrics._sums import Sums, exponent_of


def check_fixed(strategy: str) -> None:
    """Raise an error for bins whose edges depend on all rows."""
    if strategy == "quantile":
        raise ValueError("bins of equal weight need all rows at once: pass strategy='uniform', or rows in memory")


def sums_of_top(y_true: Any, y_prob: Any, sample_weight: Any = None, pos_label: int | None = None, **bins: Any) -> Sums:
    """Return the sums for one class's probability, or for that of the top class."""
    return _sums(classified(y_true, y_prob, sample_weight), [pos_label], **bins)


def sums_of_classes(y_true: Any, y_prob: Any, sample_weight: Any = None, **bins: Any) -> Sums:
    """Return the sums for every class's probability."""
    data = classified(y_true, y_prob, sample_weight)
    return _sums(data, range(data.probabilities.shape[1]), **bins)


def _sums(
    data: Classified,
    classes: Iterable[int | None],
    n_bins: int = 15,
    strategy: str = "uniform",
    **_: Any,
) -> Sums:
    check_bins(n_bins, strategy)
    check_fixed(strategy)
    linear, square, weight = [], [], relative(data.weight[data.weight > 0])
    for k in classes:
        of_class = judged(data, k)
        index = bin_of(of_class.confidence, uniform_edges(of_class.precision, n_bins))
        c, h = of_class.confidence, of_class.hit
        linear.append([np.bincount(index, weight * values, n_bins) for values in (np.ones(len(c)), c, h, c * c, c * h)])
        square.append(np.bincount(index, weight**2, n_bins))
    alike = (("precision", data.precision), ("classes", data.probabilities.shape[1]))
    return Sums(float(weight.sum()), np.array(linear), exponent_of(data.weight), np.array(square), alike)


def bins_of(sums: Sums) -> list[Bins]:
    """Return the occupied bins of each class, without the bin of each row."""
    n_bins = sums.square.shape[1]
    edges = uniform_edges(sums.alike[0][1], n_bins)
    lower = np.concatenate([[0.0], edges[:-1]])
    per_class = []
    for linear, square in zip(sums.linear, sums.square, strict=True):
        occupied = linear[0] > 0
        weight, confidence, hit = linear[:3, occupied]
        size, rows = weight**2 / square[occupied], np.zeros(0, dtype=np.intp)
        per_class.append(
            Bins(weight / weight.sum(), confidence / weight, hit / weight, size, lower[occupied], edges[occupied], rows)
        )
    return per_class


def spreads_of(sums: Sums) -> Array:
    """Return, for each class, the variance of the confidence within bins and its covariance with the hits."""
    weight, c, h, cc, ch = np.moveaxis(sums.linear, 1, 0)
    weight = np.where(weight > 0, weight, 1.0)
    return np.stack([(cc - c * c / weight).sum(1), (ch - c * h / weight).sum(1)], 1) / sums.weight
