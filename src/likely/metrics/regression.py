"""Calibration and width of predictive distributions and intervals, judged by the observed targets."""

import math
from typing import Any

import numpy as np
from torch.distributions import Distribution

from likely._rows.blocks import row_blocks
from likely.likelihoods._distribution import cdf, is_discrete
from likely.metrics._blocks import all_rows, by_mean, by_rows
from likely.metrics._input import Array, Input, as_array, as_weight, average, check_count, relative
from likely.metrics._predictive import central_interval, check_coverage, predictive, univariate, with_target

__all__ = [
    "interval_coverage",
    "interval_score",
    "interval_width",
    "miscalibration_area",
    "pit_histogram",
    "pit_values",
    "quantile_calibration_error",
    "sharpness",
]


@by_rows
def pit_values(
    y_true: Input,
    distribution: Distribution | None = None,
    *,
    mean: Input | None = None,
    scale: Input | None = None,
    random_state: int = 0,
) -> Array:
    """The probability integral transform (PIT): the predicted CDF :math:`F_i(y_i)` at each target.

    The values are uniform on [0, 1] if the forecasts are right; a hump in the middle means scales that are too wide, a
    U scales that are too narrow, a slope a bias. For counts the value is drawn uniformly from :math:`[F(y - 1), F(y)]`,
    which makes it uniform under the true model too.

    Args:
        y_true: targets, shape (n,) or (n, k).
        distribution: torch distribution of that batch shape; None where ``mean`` and ``scale`` are given.
        mean: means of normal forecasts, shape (n,) or (n, k).
        scale: standard deviations of normal forecasts, of the shape of ``mean`` or one number.
        random_state: seed of the draws for counts.

    Returns:
        Array of the shape of ``y_true`` with values in [0, 1].

    Raises:
        ValueError: there is neither a distribution nor a mean and a scale, or shapes do not match.

    Example:
        >>> import torch
        >>> from likely.metrics import pit_values
        >>> pit_values([0.0, 1.0, -3.0], torch.distributions.Normal(torch.zeros(3), torch.ones(3))).round(4)
        array([0.5   , 0.8413, 0.0013])

    See Also:
        :func:`pit_histogram`, without draws, and :class:`~likely.plots.PITDisplay`, which draws it.
    """
    y, forecast, _ = with_target(y_true, univariate(predictive(distribution, mean, scale)), None)
    upper = cdf(forecast, y)
    if not is_discrete(forecast):
        return upper
    lower = cdf(forecast, y - 1)
    return lower + (upper - lower) * np.random.default_rng(random_state).random(y.shape)


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
    check_count("n_bins", n_bins)
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


def _share_below(
    y_true: Input,
    distribution: Distribution | None = None,
    mean: Input | None = None,
    scale: Input | None = None,
    levels: Input | None = None,
    sample_weight: Input | None = None,
) -> Array:
    """Return the share of targets at or below each level."""
    p = _checked_levels(levels)
    level, weight = _levels(pit_values(y_true, distribution, mean=mean, scale=scale), sample_weight)
    return (weight[:, None] * (level[:, None] <= p)).sum(0)


def _checked_levels(levels: Input | None) -> Array:
    p = np.arange(11) / 10 if levels is None else as_array("levels", levels).astype(np.float64)
    if p.ndim != 1 or p.min() < 0 or p.max() > 1:
        raise ValueError("levels must be a vector of probabilities in [0, 1]")
    return p


def _share_below_of_block(y_true: Input, distribution: Distribution | None = None, **arguments: Any) -> Array:
    if distribution is not None and is_discrete(univariate(distribution)):
        raise TypeError("PIT values of counts are drawn at random over all rows at once: pit_histogram needs no draws")
    return _share_below(y_true, distribution, **arguments)


def _squared_gaps(reached: Array, levels: Input | None = None) -> float:
    return float(np.square(_checked_levels(levels) - reached).sum())


@by_mean(_share_below_of_block, _squared_gaps)
def quantile_calibration_error(
    y_true: Input,
    distribution: Distribution | None = None,
    *,
    mean: Input | None = None,
    scale: Input | None = None,
    levels: Input | None = None,
    sample_weight: Input | None = None,
) -> float:
    r"""The quantile calibration error (CAL): squared gaps between levels and the shares of targets below them, summed.

    .. math:: \mathrm{CAL} = \sum_j (p_j - \hat p_j)^2, \qquad \hat p_j = \frac1n \#\{i : F_i(y_i) \le p_j\}

    with unit weights (Kuleshov et al., 2018). It is .6 when all targets lie in the middle of far too wide forecasts.
    Uncertainty Toolbox reports the root of a mean over 100 levels of central intervals, which gives other numbers.

    Args:
        y_true: targets, shape (n,) or (n, k).
        distribution: torch distribution of that batch shape; None where ``mean`` and ``scale`` are given.
        mean: means of normal forecasts, shape (n,) or (n, k).
        scale: standard deviations of normal forecasts, of the shape of ``mean`` or one number.
        levels: probabilities in [0, 1], a vector; None for 0, .1, …, 1 as in the paper.
        sample_weight: weight per row, shape (n,); None for equal weights.

    Returns:
        The error; 0 is perfect.

    Example:
        >>> from likely.metrics import quantile_calibration_error
        >>> round(quantile_calibration_error([-0.01, 0.01], mean=[0, 0], scale=[1, 1]), 6)
        0.6

    See Also:
        :func:`miscalibration_area`, over all levels; :func:`pit_histogram`.
    """
    return _squared_gaps(_share_below(y_true, distribution, mean, scale, levels, sample_weight), levels)


@all_rows("it sorts their levels; quantile_calibration_error and pit_histogram take blocks")
def miscalibration_area(
    y_true: Input,
    distribution: Distribution | None = None,
    *,
    mean: Input | None = None,
    scale: Input | None = None,
    sample_weight: Input | None = None,
) -> float:
    r"""The area between nominal and observed coverage, :math:`\int_0^1 |\hat G(p) - p|\,dp`.

    :math:`\hat G(p)` is the share of targets inside the central interval of probability p. The integral is exact, a
    Wasserstein distance; Uncertainty Toolbox's function of this name sums 100 trapezoids and differs in the third
    digit.

    Args:
        y_true: targets, shape (n,) or (n, k).
        distribution: torch distribution of that batch shape; None where ``mean`` and ``scale`` are given.
        mean: means of normal forecasts, shape (n,) or (n, k).
        scale: standard deviations of normal forecasts, of the shape of ``mean`` or one number.
        sample_weight: weight per row, shape (n,); None for equal weights.

    Returns:
        The area, from 0 (calibrated) to ½.

    Example:
        >>> from likely.metrics import miscalibration_area
        >>> miscalibration_area([0.0, 0.0], mean=[0, 0], scale=[1, 1])    # always in the middle
        0.5

    See Also:
        :func:`quantile_calibration_error`, at a few levels, which also takes rows in blocks.
    """
    level, weight = _levels(pit_values(y_true, distribution, mean=mean, scale=scale), sample_weight)
    level = np.abs(2 * level - 1)
    order = np.argsort(level)
    steps = np.concatenate([[0.0], level[order], [1.0]])
    reached = np.concatenate([[0.0], np.cumsum(weight[order])])

    def below(x: Array) -> Array:
        """∫|t| dt from 0 to x."""
        return 0.5 * x * np.abs(x)

    return float((below(steps[1:] - reached) - below(steps[:-1] - reached)).sum())


def _levels(level: Array, sample_weight: Input | None) -> tuple[Array, Array]:
    """Return the level of every number, and weights that sum to one."""
    weight = relative(as_weight(sample_weight, len(level)))
    weight = np.repeat(weight, level.size // len(level))
    return level.ravel(), weight / weight.sum()


def _mean_variance(
    distribution: Distribution | None = None,
    mean: Input | None = None,
    scale: Input | None = None,
    sample_weight: Input | None = None,
) -> float:
    forecast = univariate(predictive(distribution, mean, scale))
    variance = np.atleast_1d(forecast.variance.detach().double().numpy(force=True))
    return float(average(variance, as_weight(sample_weight, len(variance)), "mean"))


@by_mean(_mean_variance, math.sqrt)
def sharpness(
    distribution: Distribution | None = None,
    *,
    mean: Input | None = None,
    scale: Input | None = None,
    sample_weight: Input | None = None,
) -> float:
    r"""The root mean predicted variance, :math:`(\frac1n \sum_i \mathrm{Var}_i)^{1/2}`: how narrow the forecasts are.

    It is in the units of y and uses no target: among calibrated forecasts the sharper are the better, but sharpness
    alone does not measure quality. It is infinite or NaN where a variance is; :func:`interval_width` is always finite.

    Args:
        distribution: torch distribution of batch shape (n,) or (n, k); None where ``mean`` and ``scale`` are given.
        mean: means of normal forecasts, shape (n,) or (n, k).
        scale: standard deviations of normal forecasts, of the shape of ``mean`` or one number.
        sample_weight: weight per row, shape (n,); None for equal weights.

    Returns:
        The sharpness; lower is narrower.

    Example:
        >>> from likely.metrics import sharpness
        >>> sharpness(mean=[0.0, 1.0], scale=[3.0, 4.0])
        3.5355339059327378

    See Also:
        :func:`crps` and :func:`interval_score`, which judge width and calibration together.
    """
    return math.sqrt(_mean_variance(distribution, mean, scale, sample_weight))


@by_mean()
def interval_coverage(
    y_true: Input,
    distribution: Distribution | None = None,
    *,
    coverage: float = 0.9,
    interval: tuple[Input, Input] | None = None,
    mean: Input | None = None,
    scale: Input | None = None,
    sample_weight: Input | None = None,
) -> float:
    r"""The share of targets inside their interval, :math:`\frac1n \#\{i : l_i \le y_i \le u_i\}`.

    It should be near the nominal ``coverage``; for counts, whose intervals end at whole numbers, it is above.

    Args:
        y_true: targets, shape (n,) or (n, k).
        distribution: torch distribution whose central interval is judged; None where another form is given.
        coverage: probability of the central interval, in (0, 1).
        interval: pair (lower, upper) of arrays of the shape of ``y_true``, from a conformal predictor for example, in
            place of a distribution.
        mean: means of normal forecasts, shape (n,) or (n, k).
        scale: standard deviations of normal forecasts, of the shape of ``mean`` or one number.
        sample_weight: weight per row, shape (n,); None for equal weights.

    Returns:
        The share, from 0 to 1.

    Example:
        >>> from likely.metrics import interval_coverage
        >>> interval_coverage([0.0, 1.0, 2.0], mean=[0, 0, 0], scale=[1, 1, 1], coverage=0.9)
        0.6666666666666666
        >>> interval_coverage([0.0, 1.0], interval=([-1, -1], [0.5, 2]))
        1.0

    See Also:
        :func:`interval_width`, :func:`interval_score`, and :class:`~likely.plots.IntervalDisplay`.
    """
    y, lower, upper = _about(y_true, *_ends(coverage, interval, distribution, mean, scale))
    return float(average((lower <= y) & (y <= upper), as_weight(sample_weight, len(y)), "mean"))


@by_mean()
def interval_width(
    distribution: Distribution | None = None,
    *,
    coverage: float = 0.9,
    interval: tuple[Input, Input] | None = None,
    mean: Input | None = None,
    scale: Input | None = None,
    sample_weight: Input | None = None,
    reduction: str = "mean",
) -> float | Array:
    """The mean width :math:`u_i - l_i` of prediction intervals, in the units of y.

    Args:
        distribution: torch distribution whose central interval is measured; None where another form is given.
        coverage: probability of the central interval, in (0, 1).
        interval: pair (lower, upper) of arrays of shape (n,) or (n, k), in place of a distribution.
        mean: means of normal forecasts, shape (n,) or (n, k).
        scale: standard deviations of normal forecasts, of the shape of ``mean`` or one number.
        sample_weight: weight per row, shape (n,); None for equal weights.
        reduction: ``"mean"``, or ``"none"`` for the width of every interval.

    Returns:
        The mean width; with ``reduction="none"`` an array of the intervals' shape.

    Example:
        >>> from likely.metrics import interval_width
        >>> round(interval_width(mean=[0.0, 0.0], scale=[1.0, 2.0], coverage=0.95), 4)
        5.8799

    See Also:
        :func:`interval_coverage`, :func:`interval_score`.
    """
    lower, upper = _ends(coverage, interval, distribution, mean, scale)
    return average(upper - lower, as_weight(sample_weight, len(lower)), reduction)


@by_mean()
def interval_score(
    y_true: Input,
    distribution: Distribution | None = None,
    *,
    coverage: float = 0.9,
    interval: tuple[Input, Input] | None = None,
    mean: Input | None = None,
    scale: Input | None = None,
    sample_weight: Input | None = None,
    reduction: str = "mean",
) -> float | Array:
    r"""The interval score: the width of an interval plus a penalty for missing the target (Gneiting & Raftery, 2007).

    .. math:: (u - l) + \frac{2}{\alpha} \left((l - y)_+ + (y - u)_+\right), \qquad \alpha = 1 - \text{coverage}

    It is a proper score of coverage and width together, lowest for the true central interval.

    Args:
        y_true: targets, shape (n,) or (n, k).
        distribution: torch distribution whose central interval is judged; None where another form is given.
        coverage: probability of the central interval, in (0, 1); it sets α for a given ``interval`` too.
        interval: pair (lower, upper) of arrays of the shape of ``y_true``, in place of a distribution.
        mean: means of normal forecasts, shape (n,) or (n, k).
        scale: standard deviations of normal forecasts, of the shape of ``mean`` or one number.
        sample_weight: weight per row, shape (n,); None for equal weights.
        reduction: ``"mean"``, or ``"none"`` for one value per target.

    Returns:
        The mean score, in the units of y, lower is better; with ``reduction="none"`` an array of the shape of
        ``y_true``.

    Example:
        >>> from likely.metrics import interval_score
        >>> round(interval_score([0.0, 3.0], interval=([-1, -1], [1, 1]), coverage=0.9), 6)
        22.0

    See Also:
        :func:`interval_coverage`, :func:`interval_width`, and :func:`crps`, the score of a whole distribution.
    """
    y, lower, upper = _about(y_true, *_ends(coverage, interval, distribution, mean, scale))
    missed = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return average(upper - lower + 2 / (1 - coverage) * missed, as_weight(sample_weight, len(y)), reduction)


def _about(y_true: Input, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
    """Return the targets, and the ends of an interval for each of them."""
    y = as_array("y_true", y_true).astype(np.float64)
    if lower.shape not in (y.shape, (1,)):
        raise ValueError(f"y_true has shape {y.shape}, the intervals {lower.shape}: reshape one to the other")
    return y, np.broadcast_to(lower, y.shape), np.broadcast_to(upper, y.shape)


def _ends(coverage: float, interval: tuple[Input, Input] | None, *forecast: Any) -> tuple[Array, Array]:
    """Return the given interval, or that of the forecast: a distribution, or a mean and a scale."""
    check_coverage(coverage)
    if interval is None:
        lower, upper = map(np.atleast_1d, central_interval(univariate(predictive(*forecast)), coverage))
        return lower, upper
    if any(part is not None for part in forecast):
        raise ValueError("give either interval= or a predictive distribution, not both")
    lower, upper = (
        as_array(name, end).astype(np.float64) for name, end in zip(("lower", "upper"), interval, strict=True)
    )
    if lower.shape != upper.shape or lower.ndim == 0:
        raise ValueError(
            f"interval has a lower end of shape {lower.shape}, an upper of {upper.shape}: give one of each per row"
        )
    if (lower > upper).any():
        raise ValueError("interval must have lower ≤ upper everywhere: swap or sort the ends")
    return lower, upper
