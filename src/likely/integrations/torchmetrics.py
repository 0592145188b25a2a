"""The metrics of :mod:`likely.metrics` as torchmetrics: batch by batch, across processes, in collections.

Arguments are in torchmetrics' order, ``(preds, target)``. Predictions of classes are probabilities of shape
(rows, classes), or (rows,) for class 1; predictions of numbers are a torch ``Distribution`` or a pair ``(mean, scale)``
of a normal. Every ``update`` takes ``sample_weight``. Metrics that are means store two numbers, the others one or two
numbers per row.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.distributions import Distribution

from likely import metrics
from likely.integrations._torchmetrics import JudgedRowsMetric, LevelRowsMetric, RowMeanMetric, RowsMetric
from likely.metrics._input import as_weight, classified

__all__ = [
    "CRPS",
    "BrierScore",
    "ClasswiseCalibrationError",
    "ExpectedCalibrationError",
    "IntervalCoverage",
    "IntervalScore",
    "IntervalWidth",
    "MaximumCalibrationError",
    "MiscalibrationArea",
    "NegativeLogLikelihood",
    "QuantileCalibrationError",
    "Sharpness",
    "SmoothCalibrationError",
]


class BrierScore(RowMeanMetric, function=metrics.brier_score):
    """Brier score, the mean squared distance from the probabilities to the one-hot label.

    See :func:`likely.metrics.brier_score`, the function.

    Args:
        scale_by_half: whether to halve the score, so that two classes give :math:`(p - y)^2`; ``"auto"`` halves for two
            classes.
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import BrierScore
    >>> BrierScore()(torch.tensor([0.8, 0.3]), torch.tensor([1, 0]))
    tensor(0.0650, dtype=torch.float64)
    """


class NegativeLogLikelihood(RowMeanMetric, function=metrics.negative_log_likelihood):
    """Mean negative log-likelihood (NLL) of class predictions or of distributions.

    See :func:`likely.metrics.negative_log_likelihood`, the function.

    Args:
        logits: whether predictions of classes are logits instead of probabilities.
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import NegativeLogLikelihood
    >>> metric = NegativeLogLikelihood()
    >>> metric.update(torch.distributions.Normal(torch.zeros(2), torch.ones(2)), torch.tensor([0.5, 2.0]))
    >>> metric.compute()
    tensor(1.9814, dtype=torch.float64)
    """

    def __init__(self, *, logits: bool = False, **kwargs: Any) -> None:
        super().__init__(logits=logits, **kwargs)

    def _forecast(self, preds: Any) -> dict[str, Any]:
        if isinstance(preds, Distribution | tuple):
            return super()._forecast(preds)
        return {"logits" if self.options["logits"] else "y_pred": preds}

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        return metrics.negative_log_likelihood(target, **self._forecast(preds), sample_weight=sample_weight)


class CRPS(RowMeanMetric, function=metrics.crps):
    """Continuous ranked probability score (CRPS), the mean over rows.

    See :func:`likely.metrics.crps`, the function.

    Args:
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import CRPS
    >>> CRPS()((torch.zeros(2), torch.ones(2)), torch.tensor([0.0, 1.0]))
    tensor(0.4181, dtype=torch.float64)
    """


class IntervalCoverage(RowMeanMetric, function=metrics.interval_coverage):
    """Share of targets inside the central interval.

    See :func:`likely.metrics.interval_coverage`, the function.

    Args:
        coverage: probability that the central intervals hold, in (0, 1).
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import IntervalCoverage
    >>> IntervalCoverage(coverage=0.9)((torch.zeros(2), torch.ones(2)), torch.tensor([0.0, 3.0]))
    tensor(0.5000, dtype=torch.float64)
    """

    higher_is_better: bool | None = None


class IntervalScore(RowMeanMetric, function=metrics.interval_score):
    """Interval score: the width of the central interval, plus a penalty for targets outside it.

    See :func:`likely.metrics.interval_score`, the function.

    Args:
        coverage: probability that the central intervals hold, in (0, 1).
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import IntervalScore
    >>> IntervalScore(coverage=0.9)((torch.zeros(1), torch.ones(1)), torch.tensor([0.0]))
    tensor(3.2897, dtype=torch.float64)
    """


class IntervalWidth(RowMeanMetric, function=metrics.interval_width):
    """Mean width of the central interval; of the targets only their number matters.

    See :func:`likely.metrics.interval_width`, the function.

    Args:
        coverage: probability that the central intervals hold, in (0, 1).
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import IntervalWidth
    >>> IntervalWidth(coverage=0.95)((torch.zeros(2), torch.tensor([1.0, 2.0])), torch.zeros(2))
    tensor(5.8799, dtype=torch.float64)
    """


class Sharpness(RowMeanMetric, function=metrics.sharpness):
    """Sharpness, the root mean square predicted standard deviation; of the targets only their number matters.

    See :func:`likely.metrics.sharpness`, the function.

    Args:
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import Sharpness
    >>> Sharpness()((torch.zeros(2), torch.tensor([3.0, 4.0])), torch.zeros(2))
    tensor(3.5355, dtype=torch.float64)
    """

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        return super()._batch(preds, target, sample_weight) ** 2

    def compute(self) -> Tensor:
        """Compute the metric over all batches.

        Returns:
            The value, a scalar in float64.
        """
        return super().compute().sqrt()


class ExpectedCalibrationError(JudgedRowsMetric, function=metrics.expected_calibration_error):
    """Expected calibration error (ECE): mean gap between confidence and accuracy over bins.

    See :func:`likely.metrics.expected_calibration_error`, the function.

    Args:
        n_bins: number of bins of confidence.
        strategy: ``"uniform"``: bins of equal width; ``"quantile"``: bins of equal weight.
        norm: ``"l1"``: mean absolute gap; ``"l2"``: root mean square gap.
        debiased: whether to subtract the error that a perfect forecast would have by chance in finite bins.
        pos_label: class whose probability is the confidence; None takes the class with the highest probability.
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import ExpectedCalibrationError
    >>> metric = ExpectedCalibrationError(n_bins=15)
    >>> metric.update(torch.tensor([0.9, 0.9]), torch.tensor([1, 1]))
    >>> metric.update(torch.tensor([0.6, 0.6]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.1000, dtype=torch.float64)
    """


class MaximumCalibrationError(JudgedRowsMetric, function=metrics.maximum_calibration_error):
    """Maximum calibration error (MCE): largest gap between confidence and accuracy of a bin.

    See :func:`likely.metrics.maximum_calibration_error`, the function.

    Args:
        n_bins: number of bins of confidence.
        strategy: ``"uniform"``: bins of equal width; ``"quantile"``: bins of equal weight.
        pos_label: class whose probability is the confidence; None takes the class with the highest probability.
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import MaximumCalibrationError
    >>> MaximumCalibrationError()(torch.tensor([0.9, 0.6]), torch.tensor([1, 0]))
    tensor(0.6000, dtype=torch.float64)
    """


class SmoothCalibrationError(JudgedRowsMetric, function=metrics.smooth_calibration_error):
    """Smooth calibration error (smECE): the ECE with a kernel instead of bins.

    See :func:`likely.metrics.smooth_calibration_error`, the function.

    Args:
        bandwidth: width of the kernel; None chooses the width at which it equals the error.
        pos_label: class whose probability is the confidence; None takes the class with the highest probability.
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import SmoothCalibrationError
    >>> SmoothCalibrationError()(torch.tensor([0.9, 0.9, 0.6, 0.6]), torch.tensor([1, 1, 0, 1]))
    tensor(0.0903, dtype=torch.float64)
    """


class ClasswiseCalibrationError(RowsMetric, function=metrics.classwise_calibration_error):
    """Classwise calibration error: the ECE of the probability of each class; it stores all probabilities.

    See :func:`likely.metrics.classwise_calibration_error`, the function.

    Args:
        n_bins: number of bins of confidence.
        strategy: ``"uniform"``: bins of equal width; ``"quantile"``: bins of equal weight.
        norm: ``"l1"``: mean absolute gap; ``"l2"``: root mean square gap.
        debiased: whether to subtract the error that a perfect forecast would have by chance in finite bins.
        average: ``"macro"``: mean over classes; None: one error per class.
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import ClasswiseCalibrationError
    >>> p = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7], [0.1, 0.1, 0.8]])
    >>> ClasswiseCalibrationError()(p, torch.tensor([0, 1, 2, 2]))
    tensor(0.1833, dtype=torch.float64)
    """

    columns = ("labels", "probabilities", "weight")

    def _batch(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        classified(target, preds, sample_weight)  # errors are raised here, not at the end
        return target, preds.detach(), as_weight(sample_weight, len(target))


class QuantileCalibrationError(LevelRowsMetric, function=metrics.quantile_calibration_error):
    """Quantile calibration error (CAL): squared gaps between quantile levels and observed shares.

    See :func:`likely.metrics.quantile_calibration_error`, the function.

    Args:
        levels: quantile levels to compare at; None is 0, .1, …, 1, as in the paper.
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import QuantileCalibrationError
    >>> QuantileCalibrationError()((torch.zeros(4), torch.ones(4)), torch.zeros(4))
    tensor(0.8500, dtype=torch.float64)
    """


class MiscalibrationArea(LevelRowsMetric, function=metrics.miscalibration_area):
    """Miscalibration area: the area between nominal and observed coverage.

    See :func:`likely.metrics.miscalibration_area`, the function.

    Args:
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import MiscalibrationArea
    >>> MiscalibrationArea()((torch.zeros(4), torch.ones(4)), torch.zeros(4))
    tensor(0.5000, dtype=torch.float64)
    """
