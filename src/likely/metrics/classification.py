"""Calibration errors in bins and the Brier score: how far predicted class probabilities are from observed labels."""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from likely._rows.blocks import row_blocks
from likely.metrics._bins import Bins, bins_of, spreads_of, sums_of_classes, sums_of_top
from likely.metrics._blocks import Recipe, Sums, by_mean, by_sums
from likely.metrics._input import Array, Input, average, check_choice, classified

__all__ = [
    "BrierDecomposition",
    "brier_decomposition",
    "brier_score",
    "classwise_calibration_error",
    "expected_calibration_error",
    "maximum_calibration_error",
]


def _expected(sums: Sums, norm: str = "l1", debiased: bool = False, **_: Any) -> float:
    return _binned_error(bins_of(sums)[0], norm, debiased)


@by_sums(Recipe(sums_of_top, _expected))
def expected_calibration_error(
    y_true: Input,
    y_prob: Input,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    debiased: bool = False,
    pos_label: int | None = None,
    sample_weight: Input | None = None,
) -> float:
    r"""The expected calibration error (ECE): the mean gap between confidence and accuracy over bins of confidence.

    .. math:: \mathrm{ECE} = \sum_b m_b\, |\bar y_b - \bar c_b|

    with the share of rows :math:`m_b`, the accuracy :math:`\bar y_b` and the mean confidence :math:`\bar c_b` of bin
    :math:`b`. The confidence is the probability of the top class (Guo et al., 2017), also when ``y_prob`` is a vector
    with the probability of class 1.

    Bins are :math:`(\text{lo}, \text{hi}]` as in Guo's code, with c = 0 in the first; edges are k/n rounded as the
    probabilities are, so that 0.2 is an edge in every precision. torchmetrics has [lo, hi) and a separate bin for c =
    1, netcal [lo, hi) with 1 in the last; both differ from Guo where a confidence lies on an edge.

    The plain ECE is biased upwards, since in a finite bin even perfect probabilities differ from the observed share.
    Weights enter the debiased forms through Kish's effective bin size, :math:`n_b = (\sum w)^2 / \sum w^2`.

    Args:
        y_true: class numbers 0 … C - 1, shape (n,).
        y_prob: class probabilities, shape (n, C), or (n,) with the probability of class 1.
        n_bins: number of bins.
        strategy: ``"uniform"`` for bins of equal width, ``"quantile"`` for bins of equal weight; equal confidences
            share a bin.
        norm: ``"l1"`` for the mean absolute gap, ``"l2"`` for :math:`(\sum_b m_b (\bar y_b - \bar c_b)^2)^{1/2}`.
        debiased: whether to remove the bias of finite bins, down to zero at most. With ``"l2"`` each squared gap loses
            :math:`\bar y_b (1 - \bar y_b) / (n_b - 1)` (Bröcker, 2012; Kumar et al., 2019; bins of one row count as
            zero), with ``"l1"`` the excess that normal noise of that variance adds (Kumar's resampling, in closed
            form).
        pos_label: class whose probability is compared with its observed share; None for the top class of each row. With
            two classes, 1 is the convention of scikit-learn, torchmetrics and netcal.
        sample_weight: weight per row, shape (n,); None for equal weights.

    Returns:
        The error, from 0 (calibrated) to 1.

    Raises:
        ValueError: shapes do not match, labels are not class numbers, probabilities lie outside [0, 1] or rows of them
            do not sum to one.

    Example:
        >>> from likely.metrics import expected_calibration_error
        >>> y, p = [1, 1, 0, 1], [0.9, 0.9, 0.6, 0.6]
        >>> round(expected_calibration_error(y, p), 6)    # two bins: |1 - .9| / 2 + |.5 - .6| / 2
        0.1
        >>> round(expected_calibration_error(y, p, norm="l2", debiased=True), 6)
        0.0

    See Also:
        :func:`maximum_calibration_error`, :func:`classwise_calibration_error`, :func:`smooth_calibration_error`, and
        :class:`~likely.plots.ReliabilityDisplay`, which draws the bins.
    """
    sums = sums_of_top(y_true, y_prob, sample_weight, pos_label, n_bins=n_bins, strategy=strategy)
    return _expected(sums, norm, debiased)


def _maximum(sums: Sums, **_: Any) -> float:
    bins = bins_of(sums)[0]
    return float(np.abs(bins.accuracy - bins.confidence).max())


@by_sums(Recipe(sums_of_top, _maximum))
def maximum_calibration_error(
    y_true: Input,
    y_prob: Input,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    pos_label: int | None = None,
    sample_weight: Input | None = None,
) -> float:
    r"""The maximum calibration error (MCE): the gap between confidence and accuracy in the worst bin.

    :math:`\max_b |\bar y_b - \bar c_b|`, over the bins of :func:`expected_calibration_error` that hold any row. A bin
    of few rows easily has the largest gap, so compare with ``strategy="quantile"``.

    Args:
        y_true: class numbers 0 … C - 1, shape (n,).
        y_prob: class probabilities, shape (n, C), or (n,) with the probability of class 1.
        n_bins: number of bins.
        strategy: ``"uniform"`` for bins of equal width, ``"quantile"`` for bins of equal weight.
        pos_label: class whose probability is compared with its observed share; None for the top class of each row.
        sample_weight: weight per row, shape (n,); None for equal weights.

    Returns:
        The largest gap, from 0 to 1.

    Example:
        >>> from likely.metrics import maximum_calibration_error
        >>> round(maximum_calibration_error([1, 1, 0, 1], [0.9, 0.9, 0.6, 0.7]), 6)
        0.6

    See Also:
        :func:`expected_calibration_error`, the mean over bins.
    """
    return _maximum(sums_of_top(y_true, y_prob, sample_weight, pos_label, n_bins=n_bins, strategy=strategy))


def _classwise(
    sums: Sums, norm: str = "l1", debiased: bool = False, average: str | None = "macro", **_: Any
) -> float | Array:
    if average not in ("macro", None):
        raise ValueError(f"average must be 'macro' or None, got {average!r}")
    errors = np.array([_binned_error(bins, norm, debiased) for bins in bins_of(sums)])
    return errors if average is None else float(errors.mean())


@by_sums(Recipe(sums_of_classes, _classwise))
def classwise_calibration_error(
    y_true: Input,
    y_prob: Input,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    debiased: bool = False,
    average: str | None = "macro",
    sample_weight: Input | None = None,
) -> float | Array:
    r"""The classwise ECE: the calibration error of every class's probability, averaged over classes.

    :math:`\frac1K \sum_k \mathrm{ECE}_k`, where :math:`\mathrm{ECE}_k` is :func:`expected_calibration_error` of the
    probability of class k against :math:`y = k` (Kull et al., 2019). With many classes most probabilities are near
    zero, and so is the mean: compare it at equal K only.

    Args:
        y_true: class numbers 0 … K - 1, shape (n,).
        y_prob: class probabilities, shape (n, K), or (n,) with the probability of class 1.
        n_bins: number of bins.
        strategy: ``"uniform"`` for bins of equal width, ``"quantile"`` for bins of equal weight.
        norm: ``"l1"`` for the mean absolute gap, ``"l2"`` for the root of the mean squared gap.
        debiased: whether to remove the bias of finite bins, as in :func:`expected_calibration_error`.
        average: ``"macro"`` for the mean over classes, None for one error per class.
        sample_weight: weight per row, shape (n,); None for equal weights.

    Returns:
        The mean error, or with ``average=None`` an array of shape (K,).

    Example:
        >>> from likely.metrics import classwise_calibration_error
        >>> y, p = [0, 1, 2, 2], [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7], [0.1, 0.1, 0.8]]
        >>> round(classwise_calibration_error(y, p), 6)
        0.183333
        >>> classwise_calibration_error(y, p, average=None).round(6)
        array([0.15, 0.2 , 0.2 ])

    See Also:
        :func:`expected_calibration_error`, of the top class only.
    """
    sums = sums_of_classes(y_true, y_prob, sample_weight, n_bins=n_bins, strategy=strategy)
    return _classwise(sums, norm, debiased, average)


def _binned_error(bins: Bins, norm: str, debiased: bool) -> float:
    check_choice("norm", norm, ("l1", "l2"))
    gap = np.abs(bins.accuracy - bins.confidence)
    noise = bins.accuracy * (1 - bins.accuracy)
    if norm == "l1":
        error = float(np.dot(bins.mass, gap))
        if debiased:
            error = max(0.0, 2 * error - float(np.dot(bins.mass, _mean_size(gap, np.sqrt(noise / bins.size)))))
        return error
    squares = gap**2
    if debiased:
        # Not exactly 1: the effective size of one weighted row is rounded.
        several = bins.size > 1 + 1e-9
        squares = np.where(several, squares - noise / np.where(several, bins.size - 1, 1), 0.0)
    return math.sqrt(max(0.0, float(np.dot(bins.mass, squares))))


def _mean_size(mean: Array, std: Array) -> Array:
    """E|X| of a normal X."""
    z = mean / np.where(std > 0, std, 1)
    folded = std * math.sqrt(2 / math.pi) * np.exp(-0.5 * z**2) + mean * special.erf(z / math.sqrt(2))
    return np.where(std > 0, folded, mean)


@by_mean()
def brier_score(
    y_true: Input,
    y_prob: Input,
    *,
    scale_by_half: bool | str = "auto",
    sample_weight: Input | None = None,
    reduction: str = "mean",
) -> float | Array:
    r"""The Brier score: the squared distance from the predicted probabilities to the one-hot label.

    :math:`\frac1n \sum_i \sum_k (p_{ik} - [y_i = k])^2`, halved for two classes, where it is the familiar :math:`(p_i -
    y_i)^2`. It is a proper score, which improves both with calibration and with sharpness.

    Args:
        y_true: class numbers 0 … C - 1, shape (n,).
        y_prob: class probabilities, shape (n, C), or (n,) with the probability of class 1.
        scale_by_half: whether to halve the sum; ``"auto"`` for two classes only, as in
            :func:`sklearn.metrics.brier_score_loss`. Most papers on many classes do not halve.
        sample_weight: weight per row, shape (n,); None for equal weights.
        reduction: ``"mean"``, or ``"none"`` for one value per row.

    Returns:
        The mean score, 0 for certain and right predictions; with ``reduction="none"`` an array of shape (n,).

    Example:
        >>> from likely.metrics import brier_score
        >>> round(brier_score([1, 0], [0.8, 0.3]), 6)
        0.065
        >>> round(brier_score([0, 2], [[0.8, 0.1, 0.1], [0.2, 0.2, 0.6]]), 6)
        0.15

    See Also:
        :func:`brier_decomposition` and :func:`calibration_refinement`, which split it into parts;
        :func:`negative_log_likelihood`.
    """
    data = classified(y_true, y_prob, sample_weight)
    rows, classes = data.probabilities.shape
    score = np.empty(rows)
    for block in row_blocks(rows, classes):
        gap = data.probabilities[block].astype(np.float64)
        gap[np.arange(len(gap)), data.labels[block]] -= 1
        score[block] = np.square(gap).sum(1)
    return average(score * _brier_factor(classes, scale_by_half), data.weight, reduction)


def _brier_factor(classes: int, scale_by_half: bool | str) -> float:
    if scale_by_half not in (True, False, "auto"):
        raise ValueError(f"scale_by_half must be True, False or 'auto', got {scale_by_half!r}")
    return 0.5 if (classes == 2 if scale_by_half == "auto" else scale_by_half) else 1.0


class BrierDecomposition(NamedTuple):
    """The parts of a Brier score that :func:`brier_decomposition` returns.

    Args:
        reliability: mean squared gap between confidence and observed share per bin, which recalibration can remove.
        resolution: variance of the observed share over bins; higher is better.
        uncertainty: variance of the labels, which no model changes.
        within_bin_variance: variance of the probabilities within bins.
        within_bin_covariance: covariance of labels and probabilities within bins.

    Example:
        >>> from likely.metrics import BrierDecomposition
        >>> BrierDecomposition(0.125, 0.25, 0.25, 0.0, 0.0).score
        0.125
    """

    reliability: float
    resolution: float
    uncertainty: float
    within_bin_variance: float
    within_bin_covariance: float

    @property
    def score(self) -> float:
        """The Brier score that the parts add up to."""
        between = self.reliability - self.resolution + self.uncertainty
        return between + self.within_bin_variance - 2 * self.within_bin_covariance


def _decomposed(sums: Sums, scale_by_half: bool | str = "auto", **_: Any) -> BrierDecomposition:
    classes, parts = len(sums.linear), np.zeros(5)
    for k, (bins, spread) in enumerate(zip(bins_of(sums), spreads_of(sums), strict=True)):
        if classes > 2 or k == 1:  # bins of 1 - p are closed on the other side: two classes take those of class 1
            base = np.dot(bins.mass, bins.accuracy)
            reliability = np.dot(bins.mass, (bins.confidence - bins.accuracy) ** 2)
            resolution = np.dot(bins.mass, (bins.accuracy - base) ** 2)
            parts += [reliability, resolution, base * (1 - base), *spread]
    parts *= _brier_factor(classes, scale_by_half) * (2 if classes == 2 else 1)
    return BrierDecomposition(*map(float, parts))


@by_sums(Recipe(sums_of_classes, _decomposed))
def brier_decomposition(
    y_true: Input,
    y_prob: Input,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    scale_by_half: bool | str = "auto",
    sample_weight: Input | None = None,
) -> BrierDecomposition:
    r"""Murphy's decomposition of the Brier score into reliability, resolution and uncertainty, exact for any bins.

    .. math:: \underbrace{\sum_b m_b (\bar p_b - \bar y_b)^2}_\text{reliability}
              - \underbrace{\sum_b m_b (\bar y_b - \bar y)^2}_\text{resolution}
              + \underbrace{\bar y (1 - \bar y)}_\text{uncertainty}
              + \underbrace{\overline{(p - \bar p_b)^2}}_\text{within-bin variance}
              - 2\, \underbrace{\overline{(y - \bar y_b)(p - \bar p_b)}}_\text{within-bin covariance}

    (Murphy, 1973; Stephenson, Coelho & Jolliffe, 2008), summed over classes. The two within-bin terms, which vanish
    when each bin holds one value, make the sum exact.

    Args:
        y_true: class numbers 0 … C - 1, shape (n,).
        y_prob: class probabilities, shape (n, C), or (n,) with the probability of class 1.
        n_bins: number of bins.
        strategy: ``"uniform"`` for bins of equal width, ``"quantile"`` for bins of equal weight.
        scale_by_half: whether to halve the score, as in :func:`brier_score`.
        sample_weight: weight per row, shape (n,); None for equal weights.

    Returns:
        A :class:`BrierDecomposition`, whose ``score`` equals :func:`brier_score`.

    Example:
        >>> from likely.metrics import brier_decomposition, brier_score
        >>> y, p = [1, 1, 0, 1], [0.9, 0.92, 0.61, 0.65]
        >>> parts = brier_decomposition(y, p)
        >>> round(parts.reliability, 6), round(parts.resolution, 6), round(parts.uncertainty, 6)
        (0.0125, 0.0625, 0.1875)
        >>> round(parts.score - brier_score(y, p), 12)
        0.0

    See Also:
        :func:`calibration_refinement`, a split without bins.
    """
    return _decomposed(sums_of_classes(y_true, y_prob, sample_weight, n_bins=n_bins, strategy=strategy), scale_by_half)
