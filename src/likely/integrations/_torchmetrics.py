"""Functions of :mod:`likely.metrics` as metrics of torchmetrics: means over rows, and metrics that store rows."""

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

_PER_UPDATE = ("interval", "mean", "reduction", "sample_weight", "scale")  # arguments that are not options


class FunctionMetric(Metric):
    """A function of :mod:`likely.metrics` as a metric; the function's keywords are the metric's options.

    The names of states include the options that an update depends on, because a MetricCollection merges metrics whose
    states are equal after the first update.
    """

    is_differentiable = False
    higher_is_better: bool | None = False
    full_state_update = False
    function: ClassVar[Callable[..., Any]]
    arguments: ClassVar[list[str]]  # the function's positional arguments: the target, if it has one, and the prediction
    defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, *, function: Callable[..., Any] | None = None) -> None:
        super().__init_subclass__()
        shown = list(inspect.signature(cls.__init__).parameters.values())[1:]
        if function is not None:
            parameters = list(inspect.signature(function).parameters.values())
            keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in _PER_UPDATE]
            cls.function = staticmethod(function)
            cls.arguments = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
            cls.defaults = {p.name: p.default for p in keywords}
            shown = shown if "__init__" in vars(cls) else [*keywords, *shown]
        if function is not None or "__init__" in vars(cls):
            cls.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]

    def __init__(self, **kwargs: Any) -> None:
        chosen = {name: kwargs.pop(name, default) for name, default in self.defaults.items()}
        super().__init__(**kwargs)
        vars(self).update(chosen)

    @property
    def options(self) -> dict[str, Any]:
        """The current values of the function's keywords."""
        return {name: getattr(self, name) for name in self.defaults}

    def _state(self, name: str, start: Any, reduction: str, *what: Any) -> str:
        name = "_".join(map(str, (name, *what)))
        self.add_state(name, start, dist_reduce_fx=reduction)
        return name

    def _forecast(self, preds: Any) -> dict[str, Any]:
        """The keyword arguments of the function for a prediction."""
        place = self.arguments[-1]
        if isinstance(preds, Distribution) or place == "y_prob":
            return {place: preds}
        if isinstance(preds, tuple | list) and len(preds) == 2:
            return {"mean": preds[0], "scale": preds[1]}
        raise TypeError(f"preds must be a torch Distribution or a pair (mean, scale), got {type(preds).__name__}")


class RowMeanMetric(FunctionMetric):
    """A mean over rows; the states are the weighted sum and the sum of the weights."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        what = (type(self).__name__, *self.options.values())
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
        truth = {"y_true": target} if "y_true" in self.arguments else {}
        return type(self).function(**truth, **self._forecast(preds), **self.options, sample_weight=sample_weight)


class RowsMetric(FunctionMetric):
    """Stores ``columns`` for every row, in the order of the function's arguments, the weight last."""

    columns: ClassVar[tuple[str, ...]]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        what = [value for name, value in self.options.items() if name == "pos_label"]
        self._names = [self._state(name, [], "cat", *what) for name in self.columns]

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
        value = self._evaluate(*rows, **self.options, sample_weight=weight)
        return torch.as_tensor(value, dtype=torch.float64, device=self.device)

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        raise TypeError("use one of the metrics in likely.integrations.torchmetrics")

    def _evaluate(self, *rows: Tensor, **options: Any) -> Any:
        return type(self).function(*rows, **options)


class JudgedRowsMetric(RowsMetric):
    """Stores per row whether the prediction was right, its confidence, and the weight."""

    columns = ("hit", "confidence", "weight")

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        rows = judged(classified(target, preds, sample_weight), self.options["pos_label"])
        # In the precision of the predictions, to which the edges of bins are rounded too.
        return rows.hit, torch.from_numpy(rows.confidence).to(rows.precision), rows.weight

    def _evaluate(self, *rows: Tensor, **options: Any) -> Any:
        return super()._evaluate(*rows, **{**options, "pos_label": 1})


class LevelRowsMetric(RowsMetric):
    """Stores per row the level of the target in its predicted distribution, and the weight."""

    columns = ("level", "weight")

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> tuple[Any, ...]:
        # Levels of counts are drawn at random: the seed differs between batches.
        batches = len(getattr(self, self._names[0]))
        level = metrics.pit_values(target, **self._forecast(preds), random_state=batches)
        return level, as_weight(sample_weight, len(level))

    def _evaluate(self, *rows: Tensor, **options: Any) -> Any:
        (level,) = rows
        # The levels are the targets of a uniform forecast.
        uniform: Any = Uniform(torch.zeros_like(level), torch.ones_like(level), validate_args=False)
        return super()._evaluate(level, uniform, **options)
