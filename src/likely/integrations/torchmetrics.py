"""The functions of :mod:`likely.metrics` as torchmetrics: batch by batch, across processes, in collections."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torchmetrics
from torch import Tensor
from torch.distributions import Uniform
from torchmetrics.utilities import dim_zero_cat

from likely import metrics
from likely.metrics._input import as_weight, classified, judged

__all__ = ["Metric"]

# The states of a mean, and what else is stored of every row.
_STATES = {
    "mean": ("total", "weight"),
    "confidence": ("hit", "confidence", "weight"),
    "probabilities": ("label", "probabilities", "weight"),
    "level": ("level", "weight"),
}
_MEANS_WITHOUT_REDUCTION = (metrics.interval_coverage, metrics.sharpness)


class Metric(torchmetrics.Metric):
    """A function of :mod:`likely.metrics` as a torchmetrics ``Metric``.

    Arguments are in torchmetrics' order, ``(preds, target)``. Predictions of classes are probabilities of shape
    (rows, classes), or (rows,) for class 1; predictions of numbers are a torch ``Distribution`` or a pair
    ``(mean, scale)`` of a normal. If the function is a mean over rows, two numbers are stored; otherwise two or three
    numbers per row, and all probabilities for :func:`~likely.metrics.classwise_calibration_error` and other functions
    that need those of every class. In a ``MetricCollection``, name the metrics by a dict.

    Args:
        function: a function of :mod:`likely.metrics`, such as :func:`likely.metrics.crps`.
        argument: name of the function's argument that receives the predictions; ``"logits"`` for logits, ``"interval"``
            for a pair of the ends of intervals. By default (None) the one after ``y_true``.
        **kwargs: keywords of the function, such as ``n_bins=10``, and those of ``torchmetrics.Metric``, such as
            ``dist_sync_on_step``.

    Attributes:
        options: the keywords of the function.

    >>> import torch, likely
    >>> from likely.integrations.torchmetrics import Metric
    >>> metric = Metric(likely.metrics.expected_calibration_error, n_bins=15)
    >>> metric.update(torch.tensor([0.9, 0.9]), torch.tensor([1, 1]))
    >>> metric.update(torch.tensor([0.6, 0.6]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.1000, dtype=torch.float64)
    >>> Metric(likely.metrics.crps)((torch.zeros(2), torch.ones(2)), torch.tensor([0.0, 1.0]))
    tensor(0.4181, dtype=torch.float64)
    """

    is_differentiable = False
    full_state_update = False

    def __init__(self, function: Callable[..., Any], *, argument: str | None = None, **kwargs: Any) -> None:
        parameters = inspect.signature(function).parameters
        options = {name: kwargs.pop(name) for name in list(kwargs) if name in parameters}
        super().__init__(**kwargs)
        self.function, self.options = function, options
        self.argument = argument or next(name for name in parameters if name != "y_true")
        self._takes_target = "y_true" in parameters
        self._power = 2 if function is metrics.sharpness else 1  # of the values whose mean is taken
        self._stored = _stored(function, parameters)
        # Names include what an update depends on: a MetricCollection merges metrics whose states are equal.
        is_mean = self._stored == "mean"
        depends_on = (function.__name__, *options.values()) if is_mean else (options.get("pos_label"), self.argument)
        self._names = ["_".join(map(str, (name, *depends_on))) for name in _STATES[self._stored]]
        for name in self._names:
            start: Any = torch.zeros((), dtype=torch.float64) if is_mean else []
            self.add_state(name, start, dist_reduce_fx="sum" if is_mean else "cat")

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """False for scores and errors; None for a coverage, where neither higher nor lower is better."""
        return None if self.function is metrics.interval_coverage else False

    def update(self, preds: Any, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            preds: predictions: probabilities, a ``Distribution``, or a pair ``(mean, scale)``.
            target: labels or numbers of shape (rows,).
            sample_weight: one weight per row; None weights all rows equally.
        """
        if self._stored != "mean":
            for name, rows in zip(self._names, self._rows(preds, target, sample_weight), strict=True):
                getattr(self, name).append(torch.as_tensor(rows).to(self.device))
            return
        truth = {"y_true": target} if self._takes_target else {}
        mean = self.function(**truth, **self._forecast(preds), **self.options, sample_weight=sample_weight)
        weight = float(as_weight(sample_weight, len(target)).sum())
        for name, value in zip(self._names, (mean**self._power * weight, weight), strict=True):
            setattr(self, name, getattr(self, name) + value)

    def compute(self) -> Tensor:
        """Compute the metric over all batches.

        Returns:
            The value in float64, a scalar; one value per class, bin or part where the function returns several.
        """
        if self._stored == "mean":
            total, weight = (getattr(self, name) for name in self._names)
            return (total / weight) ** (1 / self._power)
        columns: Any = (dim_zero_cat(getattr(self, name)) for name in self._names)
        target, *predictions, weight = columns
        options = {**self.options, "sample_weight": weight}
        if self._stored == "confidence":
            options["pos_label"] = 1
        if self._stored == "level":  # the levels are the targets of a uniform forecast
            predictions = [Uniform(torch.zeros_like(target), torch.ones_like(target), validate_args=False)]
        value = self.function(target, **{self.argument: predictions[0]}, **options)
        return torch.as_tensor(value, dtype=torch.float64, device=self.device)

    def _rows(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        """What is stored of every row, the weight last."""
        if self._stored == "confidence":
            data = judged(classified(target, preds, sample_weight), self.options.get("pos_label"))
            # In the precision of the predictions, to which the edges of bins are rounded too.
            return data.hit, torch.from_numpy(data.confidence).to(data.precision), data.weight
        weight = as_weight(sample_weight, len(target))
        if self._stored == "probabilities":
            classified(target, preds, sample_weight)  # errors are raised here, not at the end
            return target, preds.detach(), weight
        # Levels of counts are drawn at random: the seed differs between batches.
        batches = len(getattr(self, self._names[0]))
        return metrics.pit_values(target, **self._forecast(preds), random_state=batches), weight

    def _forecast(self, preds: Any) -> dict[str, Any]:
        """The keyword arguments of the function for a prediction."""
        if isinstance(preds, tuple | list) and len(preds) == 2 and self.argument in ("distribution", "y_pred"):
            return {"mean": preds[0], "scale": preds[1]}
        return {self.argument: preds}


def _stored(function: Callable[..., Any], parameters: Iterable[str]) -> str:
    """What is stored: a mean, or for every row a confidence, the probabilities of all classes or a level."""
    if "reduction" in parameters or function in _MEANS_WITHOUT_REDUCTION:
        return "mean"
    if "pos_label" in parameters:
        return "confidence"
    return "probabilities" if "y_prob" in parameters else "level"
