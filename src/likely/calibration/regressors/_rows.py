"""Rows that calibrators of regressors are fitted to, or asked about: means, scales, targets, features and weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor
from typing_extensions import override

from likely._rows.blocks import Rows
from likely._rows.checks import check_features
from likely._rows.contents import Keys, contents
from likely._rows.opened import Arrays, opened
from likely._typing import Array
from likely.calibration._held_out import HeldOutRows, check_weight

KEPT = 2**22  # numbers: of so many folds are made, where rows are elsewhere


@dataclass(frozen=True)
class Forecasts(HeldOutRows):
    """What a regressor says of some rows: means, and scales (the answers; None where it gives none)."""

    mean: Tensor

    @classmethod
    def checked(cls, mean: Any, scale: Any, features: Any, y: Any = None, sample_weight: Any = None) -> Forecasts:
        """Return the rows of positive weight, after a look at every number; without targets, ``y`` is None."""
        others = {"scale": scale, "y": y, "features": features}
        table = opened("mean", mean, _check, sample_weight=sample_weight, **others)
        if table is not None:
            return cls(table.get("scale"), table.get("y"), table.get("features"), table["weight"], table["mean"])
        centre = _column("mean", mean)
        spread = None if scale is None else _column("scale", scale, like=centre)
        if spread is not None and not bool((spread > 0).all()):
            raise ValueError("scale must be positive in every row")
        extra = check_features(features, len(centre))
        target = None if y is None else _column("y", y, like=centre)
        return cls(spread, target, extra, check_weight(sample_weight, centre), centre).counted()

    @property
    @override
    def few(self) -> bool:
        return not self.elsewhere or len(self.weight) * (3 + self.width) <= KEPT

    def thinned(self) -> Forecasts:
        """Return as many rows as can be kept, spread evenly over all, of those that are elsewhere."""
        return self if not self.elsewhere else self.every(max(1, -(-len(self.weight) * (3 + self.width) // KEPT)))

    @property
    def scale(self) -> Tensor:
        """The regressor's scales, or ones."""
        return torch.ones_like(self.mean) if self.answers is None else self.answers

    @property
    def residuals(self) -> Any:
        """The targets less the means, over the scales: a tensor, or rows that are elsewhere."""
        return self.computed(lambda rows: (rows.y - rows.mean) / rows.scale)

    def computed(self, compute: Callable[[Forecasts], Tensor], width: int | None = None) -> Any:
        """Return what a function makes of each row: a tensor, or of rows that are elsewhere such rows."""
        if not self.elsewhere:
            return compute(self)
        return cast(Rows, self.mean).mapped(lambda rows, _: compute(self.at(rows)), width)

    @property
    def width(self) -> int:
        """How many features each row has."""
        return 0 if self.features is None else self.features.shape[1]

    @property
    def source(self) -> Rows:
        """The features given, else the mean and, where the regressor has one, the log scale."""
        if self.features is not None:
            return self.features
        found = self.computed(_own_features, 1 if self.answers is None else 2)
        return found if isinstance(found, Rows) else Rows(found)

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
        return replace(self, answers=self.computed(fitted._scales))

    @override
    def nll(self, fitted: Any) -> Array:
        return -fitted._distribution(self).log_prob(self.y).double().cpu().numpy()


def _own_features(rows: Forecasts) -> Tensor:
    return torch.stack([rows.mean] if rows.answers is None else [rows.mean, rows.answers.log()], dim=1)


def _check(arrays: Arrays) -> None:
    """Refuse a block that holds other than one finite number per row, or scales that are not positive."""
    mean = arrays["mean"]
    if mean.ndim > 1:
        told = "scale=, y=, features= and sample_weight= name the others"
        raise ValueError(f"the table must have one column left, the mean, and has {mean.shape[1]}: {told}")
    if "y" not in arrays:
        raise ValueError("y must hold one number per row: a scale is learned from targets")
    Forecasts.checked(mean, arrays.get("scale"), arrays.get("features"), arrays["y"])


def _column(name: str, values: Any, like: Tensor | None = None) -> Tensor:
    given = values.detach() if isinstance(values, Tensor) else torch.from_numpy(np.array(values, dtype=np.float64))
    if given.ndim != 1 or (like is not None and given.shape != like.shape):
        rows = "(rows,)" if like is None else f"({len(like)},)"
        raise ValueError(f"{name} must hold one number per row, shape {rows}; got {tuple(given.shape)}")
    if len(given) == 0:
        raise ValueError(f"{name} has no rows")
    if not bool(given.isfinite().all()):
        raise ValueError(f"{name} holds NaN or infinities: clean it first")
    return given.to(like) if like is not None else given.to(torch.promote_types(given.dtype, torch.float32))
