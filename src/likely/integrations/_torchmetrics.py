"""What our torchmetrics share: states, and what an update keeps of a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Uniform
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from likely import metrics
from likely.metrics._input import as_weight, classified, judged


class Stateful(Metric):
    """States carry in their names what an update depends on: a MetricCollection merges what looks alike at first."""

    is_differentiable = False
    higher_is_better: bool | None = False
    full_state_update = False

    def _sum(self, *names: Any) -> str:
        name = "_".join(map(str, names))
        self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        return name

    def _rows(self, *names: Any) -> str:
        name = "_".join(map(str, names))
        self.add_state(name, [], dist_reduce_fx="cat")
        return name

    def _keep(self, name: str, rows: Any) -> None:
        getattr(self, name).append(torch.as_tensor(rows).to(self.device))

    def _kept(self, name: str) -> Tensor:
        rows: Tensor = dim_zero_cat(getattr(self, name))
        return rows

    def _answer(self, value: Any) -> Tensor:
        return torch.as_tensor(value, dtype=torch.float64, device=self.device)


class Mean(Stateful):
    """A mean over rows: its sum and the weight of all rows."""

    def __init__(self, *what: Any, **options: Any) -> None:
        super().__init__(**options)
        self._total, self._weight = (self._sum(name, type(self).__name__, *what) for name in ("total", "weight"))

    def update(self, preds: Any, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Take a batch in."""
        weight = float(as_weight(sample_weight, len(target)).sum())
        mean = self._batch(preds, target, sample_weight)
        setattr(self, self._total, getattr(self, self._total) + mean * weight)
        setattr(self, self._weight, getattr(self, self._weight) + weight)

    def compute(self) -> Tensor:
        """The value over all batches."""
        mean: Tensor = getattr(self, self._total) / getattr(self, self._weight)
        return mean

    def _batch(self, preds: Any, target: Tensor, sample_weight: Tensor | None) -> Any:
        raise TypeError("use one of the metrics in likely.integrations.torchmetrics")


class JudgedRows(Stateful):
    """Keeps of every row the confidence, whether it was right, and the weight."""

    def __init__(self, pos_label: int | None, **options: Any) -> None:
        super().__init__(**options)
        self.pos_label = pos_label
        self._confidence, self._hit, self._weight = (
            self._rows(name, pos_label) for name in ("confidence", "hit", "weight")
        )

    def update(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Take a batch in."""
        found = judged(classified(target, preds, sample_weight), self.pos_label)
        # In their own precision, in which the edges of bins are rounded too.
        self._keep(self._confidence, torch.from_numpy(found.confidence).to(found.precision))
        self._keep(self._hit, found.hit)
        self._keep(self._weight, found.weight)

    def compute(self) -> Tensor:
        """The value over all batches."""
        kept = [self._kept(name) for name in (self._hit, self._confidence, self._weight)]
        return self._answer(self._whole(*kept))

    def _whole(self, hit: Tensor, confidence: Tensor, weight: Tensor) -> float:
        raise TypeError("use one of the metrics in likely.integrations.torchmetrics")


class LevelRows(Stateful):
    """Keeps of every row the level of its forecast at which the target fell, and the weight."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._level, self._weight = map(self._rows, ("level", "weight"))

    def update(self, preds: Any, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Take a batch in."""
        # Counts draw their levels: another draw for every batch.
        level = metrics.pit_values(target, **predictive(preds), random_state=len(getattr(self, self._level)))
        self._keep(self._level, level)
        self._keep(self._weight, as_weight(sample_weight, len(level)))

    def compute(self) -> Tensor:
        """The value over all batches."""
        level, weight = map(self._kept, (self._level, self._weight))
        # The levels are targets themselves, of a forecast that is uniform.
        uniform = Uniform(torch.zeros_like(level), torch.ones_like(level), validate_args=False)
        return self._answer(self._whole(level, uniform, weight))

    def _whole(self, level: Tensor, uniform: Uniform, weight: Tensor) -> float:
        raise TypeError("use one of the metrics in likely.integrations.torchmetrics")


def predictive(preds: Any, name: str = "distribution") -> dict[str, Any]:
    """A forecast as keyword arguments of our metrics."""
    if isinstance(preds, Distribution):
        return {name: preds}
    if isinstance(preds, tuple | list) and len(preds) == 2:
        return {"mean": preds[0], "scale": preds[1]}
    raise TypeError(f"preds must be a torch Distribution or a pair (mean, scale), got {type(preds).__name__}")
