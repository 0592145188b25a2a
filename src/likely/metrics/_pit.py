"""The histogram of the levels at which targets fell."""

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
    r"""The histogram of the probability integral transform: the share of targets at each level of their forecast.

    Flat if the forecasts are right, whatever they are; see :func:`pit_values` for what its shapes mean. The value
    :math:`F_i(y_i)` of a count is spread evenly over :math:`[F_i(y_i - 1), F_i(y_i)]` (Czado, Gneiting & Held, 2009),
    so that nothing is drawn at random.

    Args:
        y_true: targets, shape (n,) or (n, k).
        distribution: forecasts of that batch shape; None where ``mean`` and ``scale`` are given.
        mean: of normal forecasts.
        scale: of normal forecasts, their standard deviation.
        n_bins: number of bins of equal width, [lower, upper) but for the last, which has 1 too.
        sample_weight: weight of each row, shape (n,).

    Returns:
        Array of shape (n_bins,), the share of each bin; the shares add up to one.

    >>> from likely.metrics import pit_histogram
    >>> pit_histogram([-2.0, -0.1, 0.1, 2.0], mean=[0.0] * 4, scale=[1.0] * 4, n_bins=4)
    array([0.25, 0.25, 0.25, 0.25])
    """
    if isinstance(n_bins, bool) or not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise ValueError(f"n_bins must be an integer ≥ 1, got {n_bins!r}")
    y, found, _ = with_target(y_true, univariate(predictive(distribution, mean, scale)), None)
    weight = relative(as_weight(sample_weight, len(y)))
    weight = np.repeat(weight / weight.sum(), y.size // len(y)) / (y.size // len(y))
    upper = cdf(found, y).ravel()
    if not is_discrete(found):
        return np.bincount(np.minimum((upper * n_bins).astype(np.intp), n_bins - 1), weight, n_bins)
    lower, edges, below = cdf(found, y - 1).ravel(), np.arange(n_bins + 1) / n_bins, np.zeros(n_bins + 1)
    for rows in row_blocks(len(upper), n_bins):
        width = np.maximum(upper[rows] - lower[rows], 1e-300)
        below += weight[rows] @ ((edges - lower[rows, None]) / width[:, None]).clip(0, 1)
    below[-1] = 1.0  # those too whose whole interval is rounded to 1
    return np.diff(below)
