"""Bins of confidences as sums over rows, which add up over blocks: their edges, confidence and accuracy."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import torch

from likely.metrics._blocks import Sums, exponent_of
from likely.metrics._input import Array, Judged, check_choice, classified, judged, relative


class Bins(NamedTuple):
    """The occupied bins: share of the weight, mean confidence, share of hits, effective number of rows."""

    mass: Array
    confidence: Array
    accuracy: Array
    size: Array
    occupied: Array  # whether each bin, of all, is among them

    @classmethod
    def of(cls, linear: Array, square: Array) -> Bins:
        """Return the bins of the sums of :func:`sums_in_bins`."""
        occupied = linear[0] > 0
        weight, confidence, hit = linear[:3, occupied]
        # Kish's size: the number of equally weighted rows that would be worth as much.
        size = weight**2 / square[occupied]
        return cls(weight / weight.sum(), confidence / weight, hit / weight, size, occupied)


def upper_edges(data: Judged, n_bins: int, strategy: str) -> Array:
    """Return the upper edges of the bins (lower, upper]; a confidence of 0 belongs to the first."""
    check_choice("strategy", strategy, ("uniform", "quantile"))
    check_n_bins(n_bins)
    return _uniform(data.precision, n_bins) if strategy == "uniform" else _quantile(data, n_bins)


def check_n_bins(n_bins: int) -> None:
    """Raise an error for anything but a positive whole number."""
    if isinstance(n_bins, bool) or not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise ValueError(f"n_bins must be an integer ≥ 1, got {n_bins!r}")


def _uniform(precision: torch.dtype, n_bins: int) -> Array:
    """Upper edges k/n, rounded as the confidences were: a float32 0.2 then *is* the edge 3/15."""
    edges = torch.arange(1, n_bins + 1, dtype=torch.float64) / n_bins
    return edges.to(precision).double().numpy()


def _quantile(data: Judged, n_bins: int) -> Array:
    """The smallest confidences with k/n of the weight at or below them. Ties share a bin, so bins may be fewer."""
    order = np.argsort(data.confidence)
    below = np.cumsum(relative(data.weight)[order])
    wanted = below[-1] * np.arange(1, n_bins + 1) / n_bins * (1 - 1e-12)  # a share reached but for rounding is reached
    return np.unique(data.confidence[order][np.searchsorted(below, wanted)])


def sums_in_bins(data: Judged, edges: Array, n_bins: int) -> tuple[Array, Array]:
    """Return sums of 1, c, h, c² and ch per bin, with c the confidence and h the hit, and of squared weights."""
    index = np.searchsorted(edges, data.confidence, side="left").clip(max=len(edges) - 1)
    weight, c, h = relative(data.weight), data.confidence, data.hit
    linear = [np.bincount(index, weight * values, n_bins) for values in (np.ones(len(c)), c, h, c * c, c * h)]
    return np.array(linear), np.bincount(index, weight**2, n_bins)


def sums_of_top(
    y_true: Any,
    y_prob: Any,
    sample_weight: Any = None,
    pos_label: int | None = None,
    n_bins: int = 15,
    strategy: str = "uniform",
    every_class: bool = False,
    **_: Any,
) -> Sums:
    """Return the sums for the probability of the top class, of one class, or of every class."""
    data = classified(y_true, y_prob, sample_weight)
    each = [judged(data, k) for k in (range(data.probabilities.shape[1]) if every_class else [pos_label])]
    parts = [sums_in_bins(of_class, upper_edges(of_class, n_bins, strategy), n_bins) for of_class in each]
    linear, square = (np.array(part) for part in zip(*parts, strict=True))
    alike = (("precision", data.precision), ("classes", data.probabilities.shape[1]))
    return Sums(float(relative(each[0].weight).sum()), linear, exponent_of(data.weight), square, alike)


sums_of_classes = functools.partial(sums_of_top, every_class=True)


def bins_of(sums: Sums) -> list[Bins]:
    """Return the occupied bins of each class."""
    return [Bins.of(linear, square) for linear, square in zip(sums.linear, sums.square, strict=True)]


def spreads_of(sums: Sums) -> Array:
    """Return, for each class, the variance of the confidence within bins and its covariance with the hits."""
    weight, c, h, cc, ch = np.moveaxis(sums.linear, 1, 0)
    weight = np.where(weight > 0, weight, 1.0)
    return np.stack([(cc - c * c / weight).sum(1), (ch - c * h / weight).sum(1)], 1) / sums.weight
