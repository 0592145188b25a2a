"""Rows that calibrators of regressors are fitted to: means, scales, targets, features and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor
from typing_extensions import override

from likely._rows.blocks import Rows
from likely._rows.checks import check_sample_weight
from likely._rows.contents import Keys, contents
from likely.calibration._held_out import HeldOutRows


@dataclass(frozen=True)
class ForecastRows(HeldOutRows):
    """Scales (the answers; None where the regressor gives none), targets and means, as arrays or tensors."""

    mean: Any

    @classmethod
    def counted(cls, mean: Any, scale: Any, y: Any, features: Any, sample_weight: Any) -> ForecastRows:
        """Return the rows of positive weight; frames and views of any layout become arrays."""
        weight = check_sample_weight(sample_weight, y)
        rows = cls(_plain(scale), _plain(y), _plain(features), weight, _plain(mean))
        return rows if weight is None or weight.all() else rows.taken(np.flatnonzero(weight))

    @override
    def keys(self) -> Keys:
        mean = torch.as_tensor(self.mean).detach()[:, None]
        features = None if self.features is None else Rows(torch.as_tensor(self.features))
        return contents(Rows(mean), features, rounded=True)

    @override
    def fit(self, step: Any) -> Any:
        return clone(step).fit(self.mean, self.answers, self.y, self.features, self.weight)

    @override
    def after(self, fitted: Any) -> ForecastRows:
        return replace(self, answers=fitted.predict_scale(self.mean, self.answers, self.features))

    @override
    def nll(self, fitted: Any) -> NDArray[np.float64]:
        distribution = fitted.distribution(self.mean, self.answers, self.features)
        losses = -distribution.log_prob(torch.as_tensor(self.y).to(distribution.mean))
        nll: NDArray[np.float64] = losses.double().cpu().numpy()
        return nll


def _plain(part: Any) -> Any:
    return part if part is None or isinstance(part, Tensor) else np.ascontiguousarray(part)
