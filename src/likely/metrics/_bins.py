"""Confidences as sums over rows, which add up over blocks: in bins, and on the grid of the smooth calibration error."""

import functools
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import fft

from likely.metrics._blocks import Sums, by_mean, exponent_of
from likely.metrics._input import Array, Input, Judged, check_choice, check_count, classified, judged, relative

__all__ = ["smooth_calibration_error"]


class Bins(NamedTuple):
    """The occupied bins: share of the weight, mean confidence, share of hits, effective number of rows."""

    mass: Array
    confidence: Array
    accuracy: Array
    size: Array
    occupied: Array  # whether each bin, of all, is among them

    @classmethod
    def of(cls, linear: Array, square: Array) -> "Bins":
        """Return the bins of the sums of :func:`sums_in_bins`."""
        occupied = linear[0] > 0
        weight, confidence, hit = linear[:3, occupied]
        # Kish's size: the number of equally weighted rows that would be worth as much.
        size = weight**2 / square[occupied]
        return cls(weight / weight.sum(), confidence / weight, hit / weight, size, occupied)


def upper_edges(data: Judged, n_bins: int, strategy: str) -> Array:
    """Return the upper edges of the bins (lower, upper]; a confidence of 0 belongs to the first."""
    check_choice("strategy", strategy, ("uniform", "quantile"))
    check_count("n_bins", n_bins)
    return _uniform(data.precision, n_bins) if strategy == "uniform" else _quantile(data, n_bins)


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


GRID_CELLS = 1 << 16
SMALLEST_WIDTH = 1e-4


def _grid(
    y_true: Input, y_prob: Input, pos_label: int | None = None, sample_weight: Input | None = None, **_: Any
) -> Array:
    """wᵢ (yᵢ - cᵢ) on the grid, each residual split between its two neighbours there; a mean over rows."""
    data = judged(classified(y_true, y_prob, sample_weight), pos_label)
    weight = relative(data.weight)
    mass = weight / weight.sum() * (data.hit - data.confidence)
    place = data.confidence * GRID_CELLS
    left = np.minimum(place.astype(np.intp), GRID_CELLS - 1)
    right_share = place - left
    grid: Array = np.bincount(left, mass * (1 - right_share), GRID_CELLS + 1)
    grid += np.bincount(left + 1, mass * right_share, GRID_CELLS + 1)
    return grid


def _from_grid(grid: Array, bandwidth: float | None = None, **_: Any) -> float:
    coefficients = _cosines(grid)
    if bandwidth is not None:
        if not SMALLEST_WIDTH <= bandwidth < np.inf:
            raise ValueError(f"bandwidth must be ≥ {SMALLEST_WIDTH}, got {bandwidth}; or None for the fixed point")
        return _smoothed(coefficients, bandwidth)

    from scipy.optimize import brentq

    at_smallest = _smoothed(coefficients, SMALLEST_WIDTH)
    if at_smallest <= SMALLEST_WIDTH:
        return at_smallest
    # At most 1 at σ = 1, for no residual exceeds 1; rounding may lift it above.
    return float(brentq(lambda width: _smoothed(coefficients, width) - width, SMALLEST_WIDTH, 1 + 1e-6, xtol=1e-9))


@by_mean(_grid, _from_grid)
def smooth_calibration_error(
    y_true: Input,
    y_prob: Input,
    *,
    bandwidth: float | None = None,
    pos_label: int | None = None,
    sample_weight: Input | None = None,
) -> float:
    r"""The smooth ECE: the calibration error after kernel smoothing, without bins (Błasiok & Nakkiran, 2023).

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \left|\sum_i w_i (y_i - c_i) K_\sigma(t, c_i)\right|\,dt

    with the Gaussian kernel reflected at 0 and 1, whose width follows from the data: the integral falls as σ grows, and
    the smooth ECE is the one point where :math:`\mathrm{smECE}_\sigma = \sigma`. There are no bins to choose, and small
    changes of the probabilities change it little, unlike any binned ECE.

    Residuals are placed on a grid of 65,536 cells and smoothed by a cosine transform, in O(n) plus about 50 ms. The
    fixed point is exact to 1e-9 down to σ = 1e-4; if it lies below, the value at 1e-4 is returned. ``relplot``, the
    authors' package, stops its search at 1e-3 and agrees to that precision.

    Args:
        y_true: class numbers 0 … C - 1, shape (n,).
        y_prob: class probabilities, shape (n, C), or (n,) with the probability of class 1.
        bandwidth: width σ of the kernel, at least 1e-4; None for the fixed point.
        pos_label: class whose probability is compared with its observed share; None for the top class of each row.
        sample_weight: weight per row, shape (n,); None for equal weights.

    Returns:
        The error, from 0 (calibrated) to 1.

    Example:
        >>> from likely.metrics import smooth_calibration_error
        >>> y, p = [1, 1, 0, 1], [0.9, 0.9, 0.6, 0.6]
        >>> round(smooth_calibration_error(y, p), 4)
        0.0903
        >>> round(smooth_calibration_error(y, p, bandwidth=0.01), 4)
        0.1

    See Also:
        :func:`expected_calibration_error`, in bins.
    """
    return _from_grid(_grid(y_true, y_prob, pos_label, sample_weight), bandwidth)


def _cosines(grid: Array) -> Array:
    """Σ wᵢ (yᵢ - cᵢ) cos(πkcᵢ) for k = 0 … grid size."""
    halved = grid.copy()
    halved[1:-1] /= 2  # DCT-I counts inner points twice
    return fft.dct(halved, type=1)


def _smoothed(coefficients: Array, width: float) -> float:
    """∫|smoothed residuals|: a reflected Gaussian multiplies the k-th cosine by exp(-(πkσ)²/2)."""
    k = np.arange(len(coefficients))
    damped = coefficients * np.exp(-0.5 * (np.pi * width * k) ** 2)
    curve = np.abs(fft.dct(damped, type=1))
    return float((curve.sum() - 0.5 * (curve[0] + curve[-1])) / GRID_CELLS)
