"""Bins of confidences: their edges, the rows in them, and their confidence and accuracy."""

from typing import NamedTuple

import numpy as np
import torch

from likely.metrics._input import Array, Judged, check_choice, relative

STRATEGIES = ("uniform", "quantile")


class Bins(NamedTuple):
    """The occupied bins: share of the weight, mean confidence, share of hits, effective number of rows."""

    mass: Array
    confidence: Array
    accuracy: Array
    size: Array
    lower: Array
    upper: Array
    of_row: Array  # the occupied bin of each row


def make_bins(data: Judged, n_bins: int, strategy: str) -> Bins:
    """Sort rows into the bins (lower, upper]; a confidence of 0 belongs to the first."""
    check_bins(n_bins, strategy)
    data = data._replace(weight=relative(data.weight))
    edges = uniform_edges(data.precision, n_bins) if strategy == "uniform" else _quantile(data, n_bins)
    index = bin_of(data.confidence, edges)
    occupied, index = np.unique(index, return_inverse=True)

    def total(values: Array) -> Array:
        return np.bincount(index, values)

    weight = total(data.weight)
    return Bins(
        mass=weight / weight.sum(),
        confidence=total(data.weight * data.confidence) / weight,
        accuracy=total(data.weight * data.hit) / weight,
        # Kish's size: the number of equally weighted rows that would be worth as much.
        size=weight**2 / total(data.weight**2),
        lower=np.concatenate([[0.0], edges])[occupied],
        upper=edges[occupied],
        of_row=index,
    )


def check_bins(n_bins: int, strategy: str) -> None:
    check_choice("strategy", strategy, STRATEGIES)
    if isinstance(n_bins, bool) or not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise ValueError(f"n_bins must be an integer ≥ 1, got {n_bins!r}")


def bin_of(confidence: Array, edges: Array) -> Array:
    """Return the bin of each confidence, given the upper edges."""
    return np.searchsorted(edges, confidence, side="left").clip(max=len(edges) - 1)


def uniform_edges(precision: torch.dtype, n_bins: int) -> Array:
    """Upper edges k/n, rounded as the confidences were: a float32 0.2 then *is* the edge 3/15."""
    edges = torch.arange(1, n_bins + 1, dtype=torch.float64) / n_bins
    return edges.to(precision).double().numpy()


def _quantile(data: Judged, n_bins: int) -> Array:
    """The smallest confidences with k/n of the weight at or below them. Ties share a bin, so bins may be fewer."""
    order = np.argsort(data.confidence)
    below = np.cumsum(data.weight[order])
    wanted = below[-1] * np.arange(1, n_bins + 1) / n_bins * (1 - 1e-12)  # a share reached but for rounding is reached
    return np.unique(data.confidence[order][np.searchsorted(below, wanted)])
