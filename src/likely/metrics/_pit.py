"""The histogram of the probability integral transform."""

import numpy as np
from torch.distributions import Distribution

from likely._rows.blocks import row_blocks
from likely.likelihoods._numeric import cdf, is_discrete
from likely.metrics._blocks import by_mean
from likely.metrics._input import Array, Input, as_weight, relative
from likely.metrics._predictive import predictive, univariate, with_target

__all__ = ["pit_histogram"]


@by_mean()
def pit_histogram(
    y_true: Input,
    distribution: Distribution | None = None,
    *,
    mean: Input | None = None,
    scale: Input | None = None,
    n_bins: int = 10,
    sample_weight: Input | None = None,
) -> Array:
    """The histogram of the probability integral transform (PIT): the share of targets per level of their forecast.

    It is flat if the forecasts are right; :func:`pit_values` explains other shapes. The value :math:`F_i(y_i)` of a
    count is spread evenly over :math:`[F_i(y_i - 1), F_i(y_i)]` (Czado, Gneiting & Held, 2009), so that nothing is
    drawn at random.

    Args:
        y_true: targets, shape (n,) or (n, k).
        distribution: torch distribution of that batch shape; None where ``mean`` and ``scale`` are given.
        mean: means of normal forecasts, shape (n,) or (n, k).
        scale: standard deviations of normal forecasts, of the shape of ``mean`` or one number.
        n_bins: number of bins of equal width, [lower, upper), the last including 1.
        sample_weight: weight per row, shape (n,); None for equal weights.

    Returns:
        Array of shape (n_bins,), the share of each bin; the shares sum to one.

    Example:
        >>> from likely.metrics import pit_histogram
        >>> pit_histogram([-2.0, -0.1, 0.1, 2.0], mean=[0.0] * 4, scale=[1.0] * 4, n_bins=4)
        array([0.25, 0.25, 0.25, 0.25])

    See Also:
        :func:`pit_values`, :class:`~likely.plots.PITDisplay`.
    """
    if isinstance(n_bins, bool) or not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise ValueError(f"n_bins must be an integer ≥ 1, got {n_bins!r}")
    y, forecast, _ = with_target(y_true, univariate(predictive(distribution, mean, scale)), None)
    weight = relative(as_weight(sample_weight, len(y)))
    weight = np.repeat(weight / weight.sum(), y.size // len(y)) / (y.size // len(y))
    upper = cdf(forecast, y).ravel()
    if not is_discrete(forecast):
        return np.bincount(np.minimum((upper * n_bins).astype(np.intp), n_bins - 1), weight, n_bins)
    lower, edges, below = cdf(forecast, y - 1).ravel(), np.arange(n_bins + 1) / n_bins, np.zeros(n_bins + 1)
    for rows in row_blocks(len(upper), n_bins):
        width = np.maximum(upper[rows] - lower[rows], 1e-300)
        below += weight[rows] @ ((edges - lower[rows, None]) / width[:, None]).clip(0, 1)
    below[-1] = 1.0  # includes rows whose whole interval is rounded to 1
    return np.diff(below)
