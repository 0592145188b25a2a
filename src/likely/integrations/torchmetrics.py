"""The metrics of :mod:`likely.metrics` as torchmetrics: batch by batch, over processes, in collections.

Their order is torchmetrics', ``(preds, target)``. Predictions of classes are probabilities, (rows, classes) or (rows,)
of class 1; predictions of numbers are a torch ``Distribution`` or a pair ``(mean, scale)`` of normals. Every ``update``
takes ``sample_weight``. Means keep two numbers; the others keep a number or two a row. Options are those of the
functions, and any further ones go to ``torchmetrics.Metric``.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.distributions import Distribution, Uniform

from likely import metrics
from likely.integrations._torchmetrics import JudgedRows, LevelRows, Mean, Stateful, predictive
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


class BrierScore(Mean):
    """:func:`likely.metrics.brier_score`, batch by batch.

    >>> import torch
    >>> from likely.integrations.torchmetrics import BrierScore
    >>> BrierScore()(torch.tensor([0.8, 0.3]), torch.tensor([1, 0]))
    tensor(0.0650, dtype=torch.float64)
    """

    def __init__(self, *, scale_by_half: bool | str = "auto", **options: Any) -> None:
        super().__init__(scale_by_half, **options)
        self.scale_by_half = scale_by_half

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        return metrics.brier_score(target, preds, scale_by_half=self.scale_by_half, sample_weight=sample_weight)


class NegativeLogLikelihood(Mean):
    """:func:`likely.metrics.negative_log_likelihood`, batch by batch, of classes or of numbers.

    With ``logits=True`` predictions of classes are logits.

    >>> import torch
    >>> from likely.integrations.torchmetrics import NegativeLogLikelihood
    >>> metric = NegativeLogLikelihood()
    >>> metric.update(torch.distributions.Normal(torch.zeros(2), torch.ones(2)), torch.tensor([0.5, 2.0]))
    >>> metric.compute()
    tensor(1.9814, dtype=torch.float64)
    """

    def __init__(self, *, logits: bool = False, **options: Any) -> None:
        super().__init__(logits, **options)
        self.logits = logits

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        if isinstance(preds, Distribution | tuple):
            given = predictive(preds, name="y_pred")
        else:
            given = {"logits" if self.logits else "y_pred": preds}
        return metrics.negative_log_likelihood(target, **given, sample_weight=sample_weight)


class CRPS(Mean):
    """:func:`likely.metrics.crps`, batch by batch.

    >>> import torch
    >>> from likely.integrations.torchmetrics import CRPS
    >>> CRPS()((torch.zeros(2), torch.ones(2)), torch.tensor([0.0, 1.0]))
    tensor(0.4181, dtype=torch.float64)
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        return metrics.crps(target, **predictive(preds), sample_weight=sample_weight)


class IntervalCoverage(Mean):
    """:func:`likely.metrics.interval_coverage`, batch by batch.

    >>> import torch
    >>> from likely.integrations.torchmetrics import IntervalCoverage
    >>> IntervalCoverage(coverage=0.9)((torch.zeros(2), torch.ones(2)), torch.tensor([0.0, 3.0]))
    tensor(0.5000, dtype=torch.float64)
    """

    higher_is_better: bool | None = None

    def __init__(self, *, coverage: float = 0.9, **options: Any) -> None:
        super().__init__(coverage, **options)
        self.coverage = coverage

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        return metrics.interval_coverage(
            target, **predictive(preds), coverage=self.coverage, sample_weight=sample_weight
        )


class IntervalScore(IntervalCoverage):
    """:func:`likely.metrics.interval_score`, batch by batch.

    >>> import torch
    >>> from likely.integrations.torchmetrics import IntervalScore
    >>> IntervalScore(coverage=0.9)((torch.zeros(1), torch.ones(1)), torch.tensor([0.0]))
    tensor(3.2897, dtype=torch.float64)
    """

    higher_is_better = False

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        return metrics.interval_score(target, **predictive(preds), coverage=self.coverage, sample_weight=sample_weight)


class IntervalWidth(IntervalCoverage):
    """:func:`likely.metrics.interval_width`, batch by batch; targets only count rows.

    >>> import torch
    >>> from likely.integrations.torchmetrics import IntervalWidth
    >>> IntervalWidth(coverage=0.95)((torch.zeros(2), torch.tensor([1.0, 2.0])), torch.zeros(2))
    tensor(5.8799, dtype=torch.float64)
    """

    higher_is_better = False

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        return metrics.interval_width(**predictive(preds), coverage=self.coverage, sample_weight=sample_weight)


class Sharpness(Mean):
    """:func:`likely.metrics.sharpness`, batch by batch; targets only count rows.

    >>> import torch
    >>> from likely.integrations.torchmetrics import Sharpness
    >>> Sharpness()((torch.zeros(2), torch.tensor([3.0, 4.0])), torch.zeros(2))
    tensor(3.5355, dtype=torch.float64)
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        return metrics.sharpness(**predictive(preds), sample_weight=sample_weight) ** 2

    def compute(self) -> Tensor:
        """The value over all batches."""
        return super().compute().sqrt()


class ExpectedCalibrationError(JudgedRows):
    """:func:`likely.metrics.expected_calibration_error` of all batches together.

    >>> import torch
    >>> from likely.integrations.torchmetrics import ExpectedCalibrationError
    >>> metric = ExpectedCalibrationError(n_bins=15)
    >>> metric.update(torch.tensor([0.9, 0.9]), torch.tensor([1, 1]))
    >>> metric.update(torch.tensor([0.6, 0.6]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.1000, dtype=torch.float64)
    """

    def __init__(
        self,
        *,
        n_bins: int = 15,
        strategy: str = "uniform",
        norm: str = "l1",
        debiased: bool = False,
        pos_label: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(pos_label, **options)
        self.n_bins, self.strategy, self.norm, self.debiased = n_bins, strategy, norm, debiased

    def _whole(self, hit: Tensor, confidence: Tensor, weight: Tensor) -> float:
        return metrics.expected_calibration_error(
            hit,
            confidence,
            n_bins=self.n_bins,
            strategy=self.strategy,
            norm=self.norm,
            debiased=self.debiased,
            pos_label=1,
            sample_weight=weight,
        )


class MaximumCalibrationError(JudgedRows):
    """:func:`likely.metrics.maximum_calibration_error` of all batches together.

    >>> import torch
    >>> from likely.integrations.torchmetrics import MaximumCalibrationError
    >>> MaximumCalibrationError()(torch.tensor([0.9, 0.6]), torch.tensor([1, 0]))
    tensor(0.6000, dtype=torch.float64)
    """

    def __init__(
        self, *, n_bins: int = 15, strategy: str = "uniform", pos_label: int | None = None, **options: Any
    ) -> None:
        super().__init__(pos_label, **options)
        self.n_bins, self.strategy = n_bins, strategy

    def _whole(self, hit: Tensor, confidence: Tensor, weight: Tensor) -> float:
        return metrics.maximum_calibration_error(
            hit, confidence, n_bins=self.n_bins, strategy=self.strategy, pos_label=1, sample_weight=weight
        )


class SmoothCalibrationError(JudgedRows):
    """:func:`likely.metrics.smooth_calibration_error` of all batches together.

    >>> import torch
    >>> from likely.integrations.torchmetrics import SmoothCalibrationError
    >>> SmoothCalibrationError()(torch.tensor([0.9, 0.9, 0.6, 0.6]), torch.tensor([1, 1, 0, 1]))
    tensor(0.0903, dtype=torch.float64)
    """

    def __init__(self, *, bandwidth: float | None = None, pos_label: int | None = None, **options: Any) -> None:
        super().__init__(pos_label, **options)
        self.bandwidth = bandwidth

    def _whole(self, hit: Tensor, confidence: Tensor, weight: Tensor) -> float:
        return metrics.smooth_calibration_error(
            hit, confidence, bandwidth=self.bandwidth, pos_label=1, sample_weight=weight
        )


class ClasswiseCalibrationError(Stateful):
    """:func:`likely.metrics.classwise_calibration_error` of all batches together; it keeps all probabilities.

    >>> import torch
    >>> from likely.integrations.torchmetrics import ClasswiseCalibrationError
    >>> p = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7], [0.1, 0.1, 0.8]])
    >>> ClasswiseCalibrationError()(p, torch.tensor([0, 1, 2, 2]))
    tensor(0.1833, dtype=torch.float64)
    """

    def __init__(
        self,
        *,
        n_bins: int = 15,
        strategy: str = "uniform",
        norm: str = "l1",
        debiased: bool = False,
        average: str | None = "macro",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.how = {"n_bins": n_bins, "strategy": strategy, "norm": norm, "debiased": debiased, "average": average}
        self._probabilities, self._labels, self._weight = map(self._rows, ("probabilities", "labels", "weight"))

    def update(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Take a batch in."""
        classified(target, preds, sample_weight)  # mistakes are named here, not at the end
        self._keep(self._probabilities, preds.detach())
        self._keep(self._labels, target)
        self._keep(self._weight, as_weight(sample_weight, len(target)))

    def compute(self) -> Tensor:
        """The value over all batches."""
        labels, probabilities, weight = map(self._kept, (self._labels, self._probabilities, self._weight))
        how: Any = self.how
        return self._answer(metrics.classwise_calibration_error(labels, probabilities, **how, sample_weight=weight))


class QuantileCalibrationError(LevelRows):
    """CAL, :func:`likely.metrics.quantile_calibration_error`, of all batches together.

    >>> import torch
    >>> from likely.integrations.torchmetrics import QuantileCalibrationError
    >>> QuantileCalibrationError()((torch.zeros(4), torch.ones(4)), torch.zeros(4))
    tensor(0.8500, dtype=torch.float64)
    """

    def __init__(self, *, levels: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.levels = levels

    def _whole(self, level: Tensor, uniform: Uniform, weight: Tensor) -> float:
        return metrics.quantile_calibration_error(level, uniform, levels=self.levels, sample_weight=weight)


class MiscalibrationArea(LevelRows):
    """:func:`likely.metrics.miscalibration_area` of all batches together.

    >>> import torch
    >>> from likely.integrations.torchmetrics import MiscalibrationArea
    >>> MiscalibrationArea()((torch.zeros(4), torch.ones(4)), torch.zeros(4))
    tensor(0.5000, dtype=torch.float64)
    """

    def __init__(self, *, kind: str = "interval", **options: Any) -> None:
        super().__init__(**options)
        self.kind = kind

    def _whole(self, level: Tensor, uniform: Uniform, weight: Tensor) -> float:
        return metrics.miscalibration_area(level, uniform, kind=self.kind, sample_weight=weight)
