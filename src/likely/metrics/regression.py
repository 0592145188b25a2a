"""How far predictive distributions are from what happens: levels, intervals, widths."""

from typing import Any

import numpy as np
from torch.distributions import Distribution

from likely.likelihoods._numeric import cdf, is_discrete, quantile
from likely.metrics._blocks import all_rows, by_mean, by_rows
from likely.metrics._input import Array, Input, as_array, as_weight, average, check_choice, relative
from likely.metrics._predictive import predictive, univariate, with_target

__all__ = [
    "interval_coverage",
    "interval_score",
    "interval_width",
    "miscalibration_area",
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
    r"""The probability integral transform :math:`F_i(y_i)`: at which level of its own forecast each target fell.

    Uniform on [0, 1] if the forecasts are right; a hump in the middle means scales too wide, a U scales too
    narrow, a slope a bias. For counts the value is drawn from :math:`[F(y - 1), F(y)]`, which is uniform for the
    true model too; ``random_state`` fixes the draw.

    >>> import torch
    >>> from likely.metrics import pit_values
    >>> pit_values([0.0, 1.0, -3.0], torch.distributions.Normal(torch.zeros(3), torch.ones(3))).round(4)
    array([0.5   , 0.8413, 0.0013])
    """
    y, found, _ = with_target(y_true, univariate(predictive(distribution, mean, scale)), None)
    upper = cdf(found, y)
    if not is_discrete(found):
        return upper
    lower = cdf(found, y - 1)
    return lower + (upper - lower) * np.random.default_rng(random_state).random(y.shape)


def _reached(
    y_true: Input,
    distribution: Distribution | None = None,
    mean: Input | None = None,
    scale: Input | None = None,
    levels: Input | None = None,
    sample_weight: Input | None = None,
) -> Array:
    """The share of targets at or below each level."""
    p = _promised(levels)
    level, weight = _levels(pit_values(y_true, distribution, mean=mean, scale=scale), sample_weight)
    return (weight[:, None] * (level[:, None] <= p)).sum(0)


def _promised(levels: Input | None) -> Array:
    p = np.arange(11) / 10 if levels is None else as_array("levels", levels).astype(np.float64)
    if p.ndim != 1 or p.min() < 0 or p.max() > 1:
        raise ValueError("levels must be a vector of probabilities in [0, 1]")
    return p


def _reached_by_block(y_true: Input, distribution: Distribution | None = None, **arguments: Any) -> Array:
    if distribution is not None and is_discrete(univariate(distribution)):
        raise TypeError("levels of counts are drawn at random over all rows at once: pit_histogram needs no draws")
    return _reached(y_true, distribution, **arguments)


def _squared_gaps(reached: Array, levels: Input | None = None) -> float:
    return float(np.square(_promised(levels) - reached).sum())


@by_mean(_reached_by_block, _squared_gaps)
def quantile_calibration_error(
    y_true: Input,
    distribution: Distribution | None = None,
    *,
    mean: Input | None = None,
    scale: Input | None = None,
    levels: Input | None = None,
    sample_weight: Input | None = None,
) -> float:
    r"""CAL, the calibration error of Kuleshov et al. (2018): how far the levels are from what they promise.

    .. math:: \mathrm{CAL} = \sum_j (p_j - \hat p_j)^2, \qquad \hat p_j = \frac1n \#\{i : F_i(y_i) \le p_j\}

    a sum with unit weights over ``levels``, by default 0, .1, …, 1 as in the paper. 0 is perfect; when all
    targets sit in the middle of far too wide forecasts it is .6. Uncertainty Toolbox takes the mean over 100
    levels of central intervals, and its root: other numbers.

    >>> from likely.metrics import quantile_calibration_error
    >>> round(quantile_calibration_error([-0.01, 0.01], mean=[0, 0], scale=[1, 1]), 6)
    0.6
    """
    return _squared_gaps(_reached(y_true, distribution, mean, scale, levels, sample_weight), levels)


@all_rows("it sorts their levels; quantile_calibration_error and pit_histogram take blocks")
def miscalibration_area(
    y_true: Input,
    distribution: Distribution | None = None,
    *,
    mean: Input | None = None,
    scale: Input | None = None,
    kind: str = "interval",
    sample_weight: Input | None = None,
) -> float:
    r"""The area between promised and observed coverage, :math:`\int_0^1 |\hat G(p) - p|\,dp`.

    :math:`\hat G(p)` is the share of targets inside the central interval of probability p
    (``kind="interval"``), or below the p-quantile (``"quantile"``, which a bias moves too). The integral is exact:
    it is the Wasserstein distance of the levels to uniform. Uncertainty Toolbox's function of this name sums 100
    trapezoids, and differs in the third digit. Between 0 and ½.

    >>> from likely.metrics import miscalibration_area
    >>> miscalibration_area([0.0, 0.0], mean=[0, 0], scale=[1, 1])    # always dead centre
    0.5
    """
    check_choice("kind", kind, ("interval", "quantile"))
    level, weight = _levels(pit_values(y_true, distribution, mean=mean, scale=scale), sample_weight)
    if kind == "interval":
        level = np.abs(2 * level - 1)
    order = np.argsort(level)
    steps = np.concatenate([[0.0], level[order], [1.0]])
    reached = np.concatenate([[0.0], np.cumsum(weight[order])])

    def below(x: Array) -> Array:
        """∫|t| dt from 0 to x."""
        return 0.5 * x * np.abs(x)

    return float((below(steps[1:] - reached) - below(steps[:-1] - reached)).sum())


def _levels(level: Array, sample_weight: Input | None) -> tuple[Array, Array]:
    """The level of every number, and weights that sum to one."""
    weight = relative(as_weight(sample_weight, len(level)))
    weight = np.repeat(weight, level.size // len(level))
    return level.ravel(), weight / weight.sum()


def _mean_variance(
    distribution: Distribution | None = None,
    mean: Input | None = None,
    scale: Input | None = None,
    sample_weight: Input | None = None,
) -> float:
    found = univariate(predictive(distribution, mean, scale))
    variance = np.atleast_1d(found.variance.detach().double().numpy(force=True))
    return float(average(variance, as_weight(sample_weight, len(variance)), "mean"))


def _root(mean: float) -> float:
    return float(np.sqrt(mean))


@by_mean(_mean_variance, _root)
def sharpness(
    distribution: Distribution | None = None,
    *,
    mean: Input | None = None,
    scale: Input | None = None,
    sample_weight: Input | None = None,
) -> float:
    r"""How narrow the forecasts are: :math:`(\frac1n \sum_i \mathrm{Var}_i)^{1/2}`, in the units of y.

    It looks at no target: among calibrated forecasts the sharper is the better, but sharpness alone says nothing.
    Not finite where a variance is not; :func:`interval_width` always is.

    >>> from likely.metrics import sharpness
    >>> sharpness(mean=[0.0, 1.0], scale=[3.0, 4.0])
    3.5355339059327378
    """
    return _root(_mean_variance(distribution, mean, scale, sample_weight))


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

    The interval is the central one of probability ``coverage``, or ``interval=(lower, upper)``, from a conformal
    predictor say. It should come out near ``coverage``; for counts, whose intervals cannot be cut to size, above.

    >>> from likely.metrics import interval_coverage
    >>> interval_coverage([0.0, 1.0, 2.0], mean=[0, 0, 0], scale=[1, 1, 1], coverage=0.9)
    0.6666666666666666
    >>> interval_coverage([0.0, 1.0], interval=([-1, -1], [0.5, 2]))
    1.0
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
    r"""The mean width :math:`u_i - l_i` of the intervals of :func:`interval_coverage`, in the units of y.

    >>> from likely.metrics import interval_width
    >>> round(interval_width(mean=[0.0, 0.0], scale=[1.0, 2.0], coverage=0.95), 4)
    5.8799
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
    r"""The interval score: width, plus a fine for missing (Gneiting & Raftery, 2007).

    .. math:: (u - l) + \frac{2}{\alpha} \left((l - y)_+ + (y - u)_+\right), \qquad \alpha = 1 - \text{coverage}

    A proper score: coverage and width in one number, least for the true central interval. Intervals as in
    :func:`interval_coverage`.

    >>> from likely.metrics import interval_score
    >>> round(interval_score([0.0, 3.0], interval=([-1, -1], [1, 1]), coverage=0.9), 6)
    22.0
    """
    y, lower, upper = _about(y_true, *_ends(coverage, interval, distribution, mean, scale))
    missed = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return average(upper - lower + 2 / (1 - coverage) * missed, as_weight(sample_weight, len(y)), reduction)


def _about(y_true: Input, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
    """The targets, and the ends of an interval for each of them."""
    y = as_array("y_true", y_true).astype(np.float64)
    if lower.shape not in (y.shape, (1,)):
        raise ValueError(f"y_true has shape {y.shape}, the intervals {lower.shape}: reshape one to the other")
    return y, np.broadcast_to(lower, y.shape), np.broadcast_to(upper, y.shape)


def _ends(coverage: float, interval: tuple[Input, Input] | None, *forecast: Any) -> tuple[Array, Array]:
    """The interval given, or that of the forecast: a distribution, or a mean and a scale."""
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie strictly between 0 and 1, got {coverage}")
    if interval is None:
        found = univariate(predictive(*forecast))
        return np.atleast_1d(quantile(found, (1 - coverage) / 2)), np.atleast_1d(quantile(found, (1 + coverage) / 2))
    if any(part is not None for part in forecast):
        raise ValueError("give either interval= or a predictive distribution, not both")
    lower, upper = (
        as_array(name, end).astype(np.float64) for name, end in zip(("lower", "upper"), interval, strict=True)
    )
    if lower.shape != upper.shape or lower.ndim == 0:
        raise ValueError(
            f"interval has a lower end of shape {lower.shape}, an upper of {upper.shape}: give one each a row"
        )
    if (lower > upper).any():
        raise ValueError("interval must have lower ≤ upper everywhere: swap or sort the ends")
    return lower, upper
