"""Rows of forecasts for calibrators of regressors: means, scales, targets, features and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor
from typing_extensions import override

from likely._rows.blocks import Rows
from likely._rows.checks import check_features
from likely._rows.contents import Keys, contents
from likely._rows.sources import spooled
from likely._typing import Array
from likely.calibration._held_out import HeldOutRows, check_weight

KEPT_NUMBERS = 2**22  # maximum size of the rows that folds are made of, where rows are in blocks


@dataclass(frozen=True)
class Forecasts(HeldOutRows):
    """A regressor's predictions for some rows: means, and scales (the ``answers``; None without)."""

    mean: Tensor

    @classmethod
    def checked(cls, mean: Any, scale: Any, features: Any, y: Any = None, sample_weight: Any = None) -> Forecasts:
        """Return the rows of positive weight, after a check of every number; without targets, ``y`` is None."""
        table = spooled("mean", mean, scale=scale, features=features, y=y, sample_weight=sample_weight)
        mean, scale, features, y, sample_weight = table.arguments
        if table.mapped and mean.ndim > 1:
            remedy = "name the others by scale=, y=, features= and sample_weight="
            raise ValueError(f"the table must have one column left, the mean, and has {mean.shape[1]}: {remedy}")
        centre = _column("mean", mean)
        spread = None if scale is None else _column("scale", scale, like=centre)
        if spread is not None and not bool((spread > 0).all()):
            raise ValueError("scale must be positive in every row: clip it or drop these rows")
        extra = check_features(features, len(centre))
        target = None if y is None else _column("y", y, like=centre)
        return cls(spread, target, extra, check_weight(sample_weight, centre), centre, table=table).counted()

    @property
    @override
    def kept(self) -> int:
        return KEPT_NUMBERS // (3 + self.width) if self.table.mapped else len(self.weight)

    @property
    def scale(self) -> Tensor:
        """The regressor's scales, or ones."""
        return torch.ones_like(self.mean) if self.answers is None else self.answers

    @property
    def residuals(self) -> Rows:
        """The targets less the means, over the scales."""
        return Rows((self.y - self.mean) / self.scale)

    @property
    def width(self) -> int:
        """The number of features per row."""
        return 0 if self.features is None else self.features.shape[1]

    @property
    def source(self) -> Rows:
        """The features, if numbers, else the mean and, where the regressor has one, the log scale."""
        if self.features is not None:
            return self.features
        return Rows(torch.stack([self.mean] if self.answers is None else [self.mean, self.answers.log()], dim=1))

    @override
    def keys(self) -> Keys:
        return contents(Rows(self.mean[:, None]), self.features, rounded=True)

    @override
    def fit(self, step: Any) -> Any:
        if not hasattr(step, "_fit_rows"):
            raise TypeError(f"steps and candidates must be scale calibrators of likely.calibration, got {step!r}")
        return clone(step)._fit_rows(self)

    @override
    def after(self, fitted: Any) -> Forecasts:
        return replace(self, answers=fitted._scales(self))

    @override
    def nll(self, fitted: Any) -> Array:
        return -fitted._distribution(self).log_prob(self.y).double().cpu().numpy()


def _column(name: str, values: Any, like: Tensor | None = None) -> Tensor:
    numbers = values.detach() if isinstance(values, Tensor) else torch.from_numpy(np.array(values, dtype=np.float64))
    if numbers.ndim != 1 or (like is not None and numbers.shape != like.shape):
        rows = "(rows,)" if like is None else f"({len(like)},)"
        raise ValueError(f"{name} must hold one number per row, shape {rows}; got {tuple(numbers.shape)}")
    if len(numbers) == 0:
        raise ValueError(f"{name} has no rows")
    if not bool(numbers.isfinite().all()):
        raise ValueError(f"{name} holds NaN or infinities: clean it first")
    return numbers.to(like) if like is not None else numbers.to(torch.promote_types(numbers.dtype, torch.float32))
