"""Rows that calibrators of regressors are fitted to: means, scales, targets, features and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from likely._rows.blocks import Rows
from likely._rows.checks import check_sample_weight
from likely._rows.contents import Keys, contents


@dataclass(frozen=True)
class ForecastRows:
    """What a regressor said of rows it was not trained on, with their targets; arrays or tensors."""

    mean: Any
    scale: Any
    y: Any
    features: Any
    weight: NDArray[np.float64] | None
    few = True  # one number per row is passed on, and those can always be kept

    @classmethod
    def counted(cls, mean: Any, scale: Any, y: Any, features: Any, sample_weight: Any) -> ForecastRows:
        """Return the rows of positive weight; frames and views of any layout become arrays."""
        weight = check_sample_weight(sample_weight, y)
        rows = cls(_plain(mean), _plain(scale), _plain(y), _plain(features), weight)
        return rows if weight is None or weight.all() else rows.taken(np.flatnonzero(weight))

    def __len__(self) -> int:
        return len(self.y)

    def keys(self) -> Keys:
        """Return a number per row that follows from its mean and features."""
        mean = torch.as_tensor(self.mean).detach()[:, None]
        return contents(Rows(mean), None if self.features is None else Rows(torch.as_tensor(self.features)))

    def ties(self) -> NDArray[np.float64]:
        """Return the targets."""
        targets: NDArray[np.float64] = torch.as_tensor(self.y).detach().double().cpu().numpy()
        return targets

    def taken(self, index: NDArray[np.intp]) -> ForecastRows:
        """Return some of the rows."""
        parts = (self.mean, self.scale, self.y, self.features, self.weight)
        return ForecastRows(*(_take(part, index) for part in parts))

    def fit(self, step: Any) -> Any:
        """Return a copy of the calibrator, fitted to these rows."""
        return clone(step).fit(self.mean, self.scale, self.y, self.features, self.weight)

    def nll(self, fitted: Any) -> NDArray[np.float64]:
        """Return the loss of each row under a fitted calibrator."""
        distribution = fitted.distribution(self.mean, self.scale, self.features)
        losses = -distribution.log_prob(torch.as_tensor(self.y).to(distribution.mean))
        nll: NDArray[np.float64] = losses.double().cpu().numpy()
        return nll

    def after(self, fitted: Any) -> ForecastRows:
        """Return the rows with calibrated scales."""
        return replace(self, scale=fitted.predict_scale(self.mean, self.scale, self.features))

    def joined(self, parts: list[ForecastRows], order: NDArray[np.intp]) -> ForecastRows:
        """Return these rows, with the scales of parts that together hold each of them once."""
        scales = [part.scale for part in parts]
        together = torch.cat(scales) if isinstance(scales[0], Tensor) else np.concatenate(scales)
        return replace(self, scale=_take(together, order))


def _plain(part: Any) -> Any:
    return part if part is None or isinstance(part, Tensor) else np.ascontiguousarray(part)


def _take(part: Any, rows: NDArray[np.intp]) -> Any:
    if part is None:
        return None
    return part[torch.as_tensor(rows, device=part.device)] if isinstance(part, Tensor) else np.asarray(part)[rows]
