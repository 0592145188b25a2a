"""The metrics of :mod:`likely.metrics` as torchmetrics: batch by batch, across processes, in collections.

Arguments are in torchmetrics' order, ``(preds, target)``. Predictions of classes are probabilities of shape
(rows, classes), or (rows,) for class 1; predictions of numbers are a torch ``Distribution`` or a pair ``(mean, scale)``
of a normal. Every ``update`` takes ``sample_weight``. Metrics that are means store two numbers, the others one or two
numbers per row.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, Uniform
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from likely import metrics
from likely.metrics._input import as_weight, classified, judged

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

_PER_UPDATE = ("interval", "mean", "reduction", "sample_weight", "scale")  # arguments that are not options


class _Metric(Metric):
    """A function of :mod:`likely.metrics` as a metric; the function's keywords are the metric's options.

    The names of states include the options that an update depends on, because a MetricCollection merges metrics whose
    states are equal after the first update.
    """

    is_differentiable = False
    higher_is_better: bool | None = False
    full_state_update = False
    function: ClassVar[Callable[..., Any]]
    places: ClassVar[list[str]]  # the function's positional arguments: the target, if it has one, and the prediction
    defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, *, function: Callable[..., Any] | None = None) -> None:
        super().__init_subclass__()
        shown = list(inspect.signature(cls.__init__).parameters.values())[1:]
        if function is not None:
            parameters = list(inspect.signature(function).parameters.values())
            keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in _PER_UPDATE]
            cls.function = staticmethod(function)
            cls.places = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
            cls.defaults = {p.name: p.default for p in keywords}
            shown = shown if "__init__" in vars(cls) else [*keywords, *shown]
        if function is not None or "__init__" in vars(cls):
            cls.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]

    def __init__(self, **kwargs: Any) -> None:
        chosen = {name: kwargs.pop(name, default) for name, default in self.defaults.items()}
        super().__init__(**kwargs)
        vars(self).update(chosen)

    @property
    def chosen(self) -> dict[str, Any]:
        """The current values of the function's keywords."""
        return {name: getattr(self, name) for name in self.defaults}

    def _state(self, name: str, start: Any, reduction: str, *what: Any) -> str:
        name = "_".join(map(str, (name, *what)))
        self.add_state(name, start, dist_reduce_fx=reduction)
        return name

    def _forecast(self, preds: Any) -> dict[str, Any]:
        """The keyword arguments of the function for a prediction."""
        place = self.places[-1]
        if isinstance(preds, Distribution) or place == "y_prob":
            return {place: preds}
        if isinstance(preds, tuple | list) and len(preds) == 2:
            return {"mean": preds[0], "scale": preds[1]}
        raise TypeError(f"preds must be a torch Distribution or a pair (mean, scale), got {type(preds).__name__}")


class _Mean(_Metric):
    """A mean over rows; the states are the weighted sum and the sum of the weights."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        what = (type(self).__name__, *self.chosen.values())
        self._total, self._weight = (
            self._state(name, torch.zeros((), dtype=torch.float64), "sum", *what) for name in ("total", "weight")
        )

    def update(self, preds: Any, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            preds: predictions, of the form that the module's documentation describes.
            target: labels or numbers of shape (rows,).
            sample_weight: one weight per row; None weights all rows equally.
        """
        weight = float(as_weight(sample_weight, len(target)).sum())
        mean = self._batch(preds, target, sample_weight)
        setattr(self, self._total, getattr(self, self._total) + mean * weight)
        setattr(self, self._weight, getattr(self, self._weight) + weight)

    def compute(self) -> Tensor:
        """Compute the metric over all batches.

        Returns:
            The value, a scalar in float64.
        """
        return getattr(self, self._total) / getattr(self, self._weight)

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        truth = {"y_true": target} if "y_true" in self.places else {}
        return type(self).function(**truth, **self._forecast(preds), **self.chosen, sample_weight=sample_weight)


class _Rows(_Metric):
    """Stores the columns ``kept`` for every row, in the order of the function's arguments, the weight last."""

    kept: ClassVar[tuple[str, ...]]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        what = [value for name, value in self.chosen.items() if name == "pos_label"]
        self._names = [self._state(name, [], "cat", *what) for name in self.kept]

    def update(self, preds: Any, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            preds: predictions, of the form that the module's documentation describes.
            target: labels or numbers of shape (rows,).
            sample_weight: one weight per row; None weights all rows equally.
        """
        for name, rows in zip(self._names, self._batch(preds, target, sample_weight), strict=True):
            getattr(self, name).append(torch.as_tensor(rows).to(self.device))

    def compute(self) -> Tensor:
        """Compute the metric over all batches.

        Returns:
            The value in float64, a scalar; with ``average=None`` one value per class.
        """
        *rows, weight = (dim_zero_cat(getattr(self, name)) for name in self._names)
        value = self._whole(*rows, **self.chosen, sample_weight=weight)
        return torch.as_tensor(value, dtype=torch.float64, device=self.device)

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        raise TypeError("use one of the metrics in likely.integrations.torchmetrics")

    def _whole(self, *rows: Tensor, **options: Any) -> Any:
        return type(self).function(*rows, **options)


class _JudgedRows(_Rows):
    """Stores per row whether the prediction was right, its confidence, and the weight."""

    kept = ("hit", "confidence", "weight")

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        rows = judged(classified(target, preds, sample_weight), self.chosen["pos_label"])
        # In the precision of the predictions, to which the edges of bins are rounded too.
        return rows.hit, torch.from_numpy(rows.confidence).to(rows.precision), rows.weight

    def _whole(self, *rows: Tensor, **options: Any) -> Any:
        return super()._whole(*rows, **{**options, "pos_label": 1})


class _LevelRows(_Rows):
    """Stores per row the level of the target in its predicted distribution, and the weight."""

    kept = ("level", "weight")

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        # Levels of counts are drawn at random: the seed differs between batches.
        batches = len(getattr(self, self._names[0]))
        level = metrics.pit_values(target, **self._forecast(preds), random_state=batches)
        return level, as_weight(sample_weight, len(level))

    def _whole(self, *rows: Tensor, **options: Any) -> Any:
        (level,) = rows
        # The levels are the targets of a uniform forecast.
        uniform: Any = Uniform(torch.zeros_like(level), torch.ones_like(level), validate_args=False)
        return super()._whole(level, uniform, **options)


class BrierScore(_Mean, function=metrics.brier_score):
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


class NegativeLogLikelihood(_Mean, function=metrics.negative_log_likelihood):
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
        return {"logits" if self.chosen["logits"] else "y_pred": preds}

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        return metrics.negative_log_likelihood(target, **self._forecast(preds), sample_weight=sample_weight)


class CRPS(_Mean, function=metrics.crps):
    """Continuous ranked probability score (CRPS), the mean over rows.

    See :func:`likely.metrics.crps`, the function.

    Args:
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import CRPS
    >>> CRPS()((torch.zeros(2), torch.ones(2)), torch.tensor([0.0, 1.0]))
    tensor(0.4181, dtype=torch.float64)
    """


class IntervalCoverage(_Mean, function=metrics.interval_coverage):
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


class IntervalScore(_Mean, function=metrics.interval_score):
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


class IntervalWidth(_Mean, function=metrics.interval_width):
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


class Sharpness(_Mean, function=metrics.sharpness):
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


class ExpectedCalibrationError(_JudgedRows, function=metrics.expected_calibration_error):
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


class MaximumCalibrationError(_JudgedRows, function=metrics.maximum_calibration_error):
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


class SmoothCalibrationError(_JudgedRows, function=metrics.smooth_calibration_error):
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


class ClasswiseCalibrationError(_Rows, function=metrics.classwise_calibration_error):
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

    kept = ("labels", "probabilities", "weight")

    def _batch(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        classified(target, preds, sample_weight)  # errors are raised here, not at the end
        return target, preds.detach(), as_weight(sample_weight, len(target))


class QuantileCalibrationError(_LevelRows, function=metrics.quantile_calibration_error):
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


class MiscalibrationArea(_LevelRows, function=metrics.miscalibration_area):
    """Miscalibration area: the area between nominal and observed coverage.

    See :func:`likely.metrics.miscalibration_area`, the function.

    Args:
        kind: ``"interval"``: coverage of central intervals; ``"quantile"``: share of targets below the quantile.
        **kwargs: options of ``torchmetrics.Metric``, such as ``dist_sync_on_step``.

    >>> import torch
    >>> from likely.integrations.torchmetrics import MiscalibrationArea
    >>> MiscalibrationArea()((torch.zeros(4), torch.ones(4)), torch.zeros(4))
    tensor(0.5000, dtype=torch.float64)
    """
