"""The metrics of :mod:`likely.metrics` as torchmetrics: batch by batch, over processes, in collections.

Their order is torchmetrics', ``(preds, target)``. Predictions of classes are probabilities, (rows, classes) or (rows,)
of class 1; predictions of numbers are a torch ``Distribution`` or a pair ``(mean, scale)`` of normals. Every ``update``
takes ``sample_weight``. Means keep two numbers; the others keep a number or two a row. Options are those of the
functions, and any further ones go to ``torchmetrics.Metric``.
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

_GIVEN = ("interval", "mean", "reduction", "sample_weight", "scale")  # by every update, not once and for all


class _Metric(Metric):
    """One of our functions; its keywords are options of the metric.

    States carry in their names what an update depends on: a MetricCollection merges what looks alike at first.
    """

    is_differentiable = False
    higher_is_better: bool | None = False
    full_state_update = False
    function: ClassVar[Callable[..., Any]]
    places: ClassVar[list[str]]  # the function's first arguments: the target, if it asks for one, and the prediction
    defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, *, function: Callable[..., Any] | None = None) -> None:
        super().__init_subclass__()
        shown = list(inspect.signature(cls.__init__).parameters.values())[1:]
        if function is not None:
            parameters = list(inspect.signature(function).parameters.values())
            keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in _GIVEN]
            cls.function = staticmethod(function)
            cls.places = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
            cls.defaults = {p.name: p.default for p in keywords}
            shown = shown if "__init__" in vars(cls) else [*keywords, *shown]
        if function is not None or "__init__" in vars(cls):
            cls.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]

    def __init__(self, **options: Any) -> None:
        chosen = {name: options.pop(name, default) for name, default in self.defaults.items()}
        super().__init__(**options)
        vars(self).update(chosen)

    @property
    def chosen(self) -> dict[str, Any]:
        """The function's keywords, as they are now."""
        return {name: getattr(self, name) for name in self.defaults}

    def _state(self, name: str, start: Any, reduction: str, *what: Any) -> str:
        name = "_".join(map(str, (name, *what)))
        self.add_state(name, start, dist_reduce_fx=reduction)
        return name

    def _forecast(self, preds: Any) -> dict[str, Any]:
        """A prediction as keyword arguments of the function."""
        place = self.places[-1]
        if isinstance(preds, Distribution) or place == "y_prob":
            return {place: preds}
        if isinstance(preds, tuple | list) and len(preds) == 2:
            return {"mean": preds[0], "scale": preds[1]}
        raise TypeError(f"preds must be a torch Distribution or a pair (mean, scale), got {type(preds).__name__}")


class _Mean(_Metric):
    """A mean over rows: its sum and the weight of all rows."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        what = (type(self).__name__, *self.chosen.values())
        self._total, self._weight = (
            self._state(name, torch.zeros((), dtype=torch.float64), "sum", *what) for name in ("total", "weight")
        )

    def update(self, preds: Any, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Take a batch in."""
        weight = float(as_weight(sample_weight, len(target)).sum())
        mean = self._batch(preds, target, sample_weight)
        setattr(self, self._total, getattr(self, self._total) + mean * weight)
        setattr(self, self._weight, getattr(self, self._weight) + weight)

    def compute(self) -> Tensor:
        """The value over all batches."""
        return getattr(self, self._total) / getattr(self, self._weight)

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        given = {"y_true": target} if "y_true" in self.places else {}
        return type(self).function(**given, **self._forecast(preds), **self.chosen, sample_weight=sample_weight)


class _Rows(_Metric):
    """Keeps a few numbers of every row, ``kept`` in the order in which the function takes them, the weight last."""

    kept: ClassVar[tuple[str, ...]]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        what = [value for name, value in self.chosen.items() if name == "pos_label"]
        self._names = [self._state(name, [], "cat", *what) for name in self.kept]

    def update(self, preds: Any, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Take a batch in."""
        for name, rows in zip(self._names, self._batch(preds, target, sample_weight), strict=True):
            getattr(self, name).append(torch.as_tensor(rows).to(self.device))

    def compute(self) -> Tensor:
        """The value over all batches."""
        *rows, weight = (dim_zero_cat(getattr(self, name)) for name in self._names)
        value = self._whole(*rows, **self.chosen, sample_weight=weight)
        return torch.as_tensor(value, dtype=torch.float64, device=self.device)

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        raise TypeError("use one of the metrics in likely.integrations.torchmetrics")

    def _whole(self, *rows: Tensor, **options: Any) -> Any:
        return type(self).function(*rows, **options)


class _JudgedRows(_Rows):
    """Of every row whether it was right, the confidence, and the weight."""

    kept = ("hit", "confidence", "weight")

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        found = judged(classified(target, preds, sample_weight), self.chosen["pos_label"])
        # In their own precision, in which the edges of bins are rounded too.
        return found.hit, torch.from_numpy(found.confidence).to(found.precision), found.weight

    def _whole(self, *rows: Tensor, **options: Any) -> Any:
        return super()._whole(*rows, **{**options, "pos_label": 1})


class _LevelRows(_Rows):
    """Of every row the level of its forecast at which the target fell, and the weight."""

    kept = ("level", "weight")

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        # Counts draw their levels: another draw for every batch.
        batches = len(getattr(self, self._names[0]))
        level = metrics.pit_values(target, **self._forecast(preds), random_state=batches)
        return level, as_weight(sample_weight, len(level))

    def _whole(self, *rows: Tensor, **options: Any) -> Any:
        (level,) = rows
        # The levels are targets themselves, of a forecast that is uniform.
        uniform: Any = Uniform(torch.zeros_like(level), torch.ones_like(level), validate_args=False)
        return super()._whole(level, uniform, **options)


class BrierScore(_Mean, function=metrics.brier_score):
    """:func:`likely.metrics.brier_score`, batch by batch.

    >>> import torch
    >>> from likely.integrations.torchmetrics import BrierScore
    >>> BrierScore()(torch.tensor([0.8, 0.3]), torch.tensor([1, 0]))
    tensor(0.0650, dtype=torch.float64)
    """


class NegativeLogLikelihood(_Mean, function=metrics.negative_log_likelihood):
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
        super().__init__(logits=logits, **options)

    def _forecast(self, preds: Any) -> dict[str, Any]:
        if isinstance(preds, Distribution | tuple):
            return super()._forecast(preds)
        return {"logits" if self.chosen["logits"] else "y_pred": preds}

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        return metrics.negative_log_likelihood(target, **self._forecast(preds), sample_weight=sample_weight)


class CRPS(_Mean, function=metrics.crps):
    """:func:`likely.metrics.crps`, batch by batch.

    >>> import torch
    >>> from likely.integrations.torchmetrics import CRPS
    >>> CRPS()((torch.zeros(2), torch.ones(2)), torch.tensor([0.0, 1.0]))
    tensor(0.4181, dtype=torch.float64)
    """


class IntervalCoverage(_Mean, function=metrics.interval_coverage):
    """:func:`likely.metrics.interval_coverage`, batch by batch.

    >>> import torch
    >>> from likely.integrations.torchmetrics import IntervalCoverage
    >>> IntervalCoverage(coverage=0.9)((torch.zeros(2), torch.ones(2)), torch.tensor([0.0, 3.0]))
    tensor(0.5000, dtype=torch.float64)
    """

    higher_is_better: bool | None = None


class IntervalScore(_Mean, function=metrics.interval_score):
    """:func:`likely.metrics.interval_score`, batch by batch.

    >>> import torch
    >>> from likely.integrations.torchmetrics import IntervalScore
    >>> IntervalScore(coverage=0.9)((torch.zeros(1), torch.ones(1)), torch.tensor([0.0]))
    tensor(3.2897, dtype=torch.float64)
    """


class IntervalWidth(_Mean, function=metrics.interval_width):
    """:func:`likely.metrics.interval_width`, batch by batch; targets only count rows.

    >>> import torch
    >>> from likely.integrations.torchmetrics import IntervalWidth
    >>> IntervalWidth(coverage=0.95)((torch.zeros(2), torch.tensor([1.0, 2.0])), torch.zeros(2))
    tensor(5.8799, dtype=torch.float64)
    """


class Sharpness(_Mean, function=metrics.sharpness):
    """:func:`likely.metrics.sharpness`, batch by batch; targets only count rows.

    >>> import torch
    >>> from likely.integrations.torchmetrics import Sharpness
    >>> Sharpness()((torch.zeros(2), torch.tensor([3.0, 4.0])), torch.zeros(2))
    tensor(3.5355, dtype=torch.float64)
    """

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        return super()._batch(preds, target, sample_weight) ** 2

    def compute(self) -> Tensor:
        """The value over all batches."""
        return super().compute().sqrt()


class ExpectedCalibrationError(_JudgedRows, function=metrics.expected_calibration_error):
    """:func:`likely.metrics.expected_calibration_error` of all batches together.

    >>> import torch
    >>> from likely.integrations.torchmetrics import ExpectedCalibrationError
    >>> metric = ExpectedCalibrationError(n_bins=15)
    >>> metric.update(torch.tensor([0.9, 0.9]), torch.tensor([1, 1]))
    >>> metric.update(torch.tensor([0.6, 0.6]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.1000, dtype=torch.float64)
    """


class MaximumCalibrationError(_JudgedRows, function=metrics.maximum_calibration_error):
    """:func:`likely.metrics.maximum_calibration_error` of all batches together.

    >>> import torch
    >>> from likely.integrations.torchmetrics import MaximumCalibrationError
    >>> MaximumCalibrationError()(torch.tensor([0.9, 0.6]), torch.tensor([1, 0]))
    tensor(0.6000, dtype=torch.float64)
    """


class SmoothCalibrationError(_JudgedRows, function=metrics.smooth_calibration_error):
    """:func:`likely.metrics.smooth_calibration_error` of all batches together.

    >>> import torch
    >>> from likely.integrations.torchmetrics import SmoothCalibrationError
    >>> SmoothCalibrationError()(torch.tensor([0.9, 0.9, 0.6, 0.6]), torch.tensor([1, 1, 0, 1]))
    tensor(0.0903, dtype=torch.float64)
    """


class ClasswiseCalibrationError(_Rows, function=metrics.classwise_calibration_error):
    """:func:`likely.metrics.classwise_calibration_error` of all batches together; it keeps all probabilities.

    >>> import torch
    >>> from likely.integrations.torchmetrics import ClasswiseCalibrationError
    >>> p = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7], [0.1, 0.1, 0.8]])
    >>> ClasswiseCalibrationError()(p, torch.tensor([0, 1, 2, 2]))
    tensor(0.1833, dtype=torch.float64)
    """

    kept = ("labels", "probabilities", "weight")

    def _batch(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        classified(target, preds, sample_weight)  # mistakes are named here, not at the end
        return target, preds.detach(), as_weight(sample_weight, len(target))


class QuantileCalibrationError(_LevelRows, function=metrics.quantile_calibration_error):
    """CAL, :func:`likely.metrics.quantile_calibration_error`, of all batches together.

    >>> import torch
    >>> from likely.integrations.torchmetrics import QuantileCalibrationError
    >>> QuantileCalibrationError()((torch.zeros(4), torch.ones(4)), torch.zeros(4))
    tensor(0.8500, dtype=torch.float64)
    """


class MiscalibrationArea(_LevelRows, function=metrics.miscalibration_area):
    """:func:`likely.metrics.miscalibration_area` of all batches together.

    >>> import torch
    >>> from likely.integrations.torchmetrics import MiscalibrationArea
    >>> MiscalibrationArea()((torch.zeros(4), torch.ones(4)), torch.zeros(4))
    tensor(0.5000, dtype=torch.float64)
    """
