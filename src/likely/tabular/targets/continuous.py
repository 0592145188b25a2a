"""A target of real numbers: members predict its location, boosted trees the scale of the residual."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.distributions import Distribution, Normal

from likely._rows.blocks import row_blocks
from likely._typing import Array
from likely.distributions import LogNormal, SkewStudentT, StudentT
from likely.tabular._pool import Pool, pool_means
from likely.tabular._stack import Plan, Stack, fit_stack
from likely.tabular.members.task import MemberTable, Task
from likely.tabular.targets.distributions import LEVELS, Rounded
from likely.tabular.targets.inliers import GROSS_SCALES, find_inliers, is_better
from likely.tabular.targets.links import Link
from likely.tabular.targets.noise import MAX_DF, Noise, learn_noise, mean_distance

MAX_COUNT = 10_000  # largest target that is treated as a count
# Up to this many rows the members look for gross errors too, and are fitted again if more than this share is suspected.
REFIT_ROWS, REFIT_SHARE = 2000, 0.01
MIN_WEIGHT = 0.02  # smallest weight of a member whose disagreement with others is an input of the noise model


@dataclass(frozen=True)
class ContinuousTarget:
    """The fitted model of one target."""

    link: Link
    stack: Stack
    pool: Pool
    noise: Noise
    out_of_fold: dict[str, Array]  # parameters of each training row, from models fitted without it
    inliers: NDArray[np.bool_]  # (rows,): whether the members learned from a training row
    above_zero: bool  # whether the smallest target was zero, so that means must be positive
    is_count: bool  # whether targets are counts

    def parameters(self, table: MemberTable) -> dict[str, Array]:
        """Return the location (the mean, in the link's standard units) and the log scale of each row."""
        # of shape (members, folds, rows)
        predictions = np.stack([member(table)[..., 0] for member in self.stack.members.values()])
        location = self.pool(predictions)
        logs = [
            self.noise.log_scale(fold, _noise_inputs(table, predictions[:, fold], location[fold], self.pool))
            for fold in range(predictions.shape[1])
        ]
        return {"location": location.mean(0), "log_scale": 0.5 * np.log(np.exp(2 * np.stack(logs)).mean(0))}

    def distribution(self, location: Array, log_scale: Array) -> Distribution:
        """Return the distribution of each row's target."""
        shape, link = self.noise.shape, self.link
        scale = torch.as_tensor(np.exp(log_scale) * link.spread)
        middle = torch.as_tensor(link.centre + link.spread * location)
        if shape.skew:
            df, skew = torch.tensor(shape.df, dtype=torch.float64), torch.tensor(shape.skew, dtype=torch.float64)
            mode = middle - 2 * torch.sinh(skew) * mean_distance(df) * scale
            base: Distribution = SkewStudentT(df, skew, mode, scale, validate_args=False)
        elif shape.df >= MAX_DF:
            kind = LogNormal if link.name == "log" else Normal
            base = kind(middle, scale, validate_args=False)
            return Rounded(base) if self.is_count else base
        else:
            base = StudentT(shape.df, middle, scale, validate_args=False)
        return Rounded(base) if self.is_count else link.distribution(base)

    def mean(self, location: Array, log_scale: Array) -> Array:
        """Return the mean of each row's target."""
        if self.link.name == "log":
            return np.asarray(self.distribution(location, log_scale).mean)
        if self.link.name == "identity" and not self.above_zero:
            return self.link.back(location)
        standard = replace(self, link=Link("identity", 0.0, 1.0), is_count=False).distribution(np.zeros(1), np.zeros(1))
        z, mean = np.asarray(standard.icdf(torch.as_tensor(LEVELS))), np.empty(len(location))
        for rows in row_blocks(len(location), len(z)):
            quantiles = self.link.back(location[rows, None] + np.exp(log_scale[rows])[:, None] * z)
            mean[rows] = (np.maximum(quantiles, 0.0) if self.above_zero else quantiles).mean(1)
        return mean

    def conformity(self, y: Array, location: Array, log_scale: Array) -> Array:
        """Return the distance of each target from its location, in scales of its side of a skewed distribution."""
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (self.link.forward(y) - location) * np.exp(-log_scale)
        skew = self.noise.shape.skew
        return np.nan_to_num(np.where(z >= 0, z * np.exp(-skew), -z * np.exp(skew)), nan=np.inf, posinf=np.inf)

    def interval(self, reach: float, location: Array, log_scale: Array) -> tuple[Array, Array]:
        """Return the ends of the interval of ``reach`` scales on either side of the location."""
        scale, skew = np.exp(log_scale), self.noise.shape.skew
        low = self.link.back(location - reach * scale * np.exp(-skew))
        high = self.link.back(location + reach * scale * np.exp(skew))
        return (np.ceil(low).clip(min=0), np.floor(high)) if self.is_count else (low, high)

    @property
    def likelihood(self) -> str:
        """The name of the chosen likelihood."""
        shape = self.noise.shape
        if self.link.name == "log":
            return "log_normal"
        name = "skew_student_t" if shape.skew else "normal" if shape.df >= MAX_DF else "student_t"
        if self.is_count:
            return f"{name}, rounded"
        return name if self.link.name == "identity" else f"{name} of the log odds"

    def summary(self) -> dict[str, Any]:
        """Return what was chosen, in JSON's types."""
        shape = self.noise.shape
        return {
            "likelihood": self.likelihood,
            "df": round(shape.df, 3),
            "skew": round(shape.skew, 4),
            "scale": "predicted" if self.noise.trees is not None and shape.gain > 0 else "global",
            "weights": dict(zip(self.stack.members, self.pool.weights.round(4).tolist(), strict=True)),
            "members": list(self.stack.tried),
            "rows_left_out": int((~self.inliers).sum()),
        }


def fit_continuous(task: Task, y: Array, link: str, family: str, varying: bool, plan: Plan) -> ContinuousTarget:
    """Fit members and the noise to targets of shape (rows,)."""
    family = family_of(link, family)
    units = Link.learn(link, y, task.weight)
    z = units.forward(y)
    task = replace(task, target=z[:, None], link="identity")
    inliers, scouted = find_inliers(task)
    plan = plan if scouted is None else replace(plan, scouted={"boosting": scouted})
    fit = partial(_fit, task, plan, family, varying)
    fitted = fit(inliers)
    near = np.abs(z - fitted.location) <= GROSS_SCALES * np.exp(fitted.noise.out_of_fold)
    if len(y) <= REFIT_ROWS and (inliers & ~near).mean() > REFIT_SHARE:
        refitted = fit(near)
        if is_better(task, near, fitted.noise, z - refitted.location):
            fitted, inliers = refitted, near
    out_of_fold = {"location": fitted.location, "log_scale": fitted.noise.out_of_fold}
    is_count = link == "identity" and countable(y) and bool(y.min() == 0)
    return ContinuousTarget(
        units, fitted.stack, fitted.pool, fitted.noise, out_of_fold, inliers, bool(y.min() == 0), is_count
    )


@dataclass(frozen=True)
class _Fitted:
    stack: Stack
    pool: Pool
    location: Array
    noise: Noise


def _fit(task: Task, plan: Plan, family: str, varying: bool, inliers: NDArray[np.bool_]) -> _Fitted:
    """Fit members, their weights and the noise to the inliers."""
    cleaned, z = task.of_inliers(inliers), task.target[:, 0]
    stack = fit_stack(cleaned, plan)
    predictions = stack.out_of_fold[..., 0]
    pool = pool_means(predictions, z, cleaned.weight)
    location = pool(predictions)
    noise_task = replace(cleaned, table=_noise_inputs(task.table, predictions, location, pool))
    # Outliers count for the tails of a t; those of a normal have no room for them.
    tails = cleaned.weight if family == "normal" else task.weight
    return _Fitted(stack, pool, location, learn_noise(noise_task, z - location, family, varying, tails))


def countable(y: Array) -> bool:
    """Whether targets look like counts: whole numbers, the smallest of which is zero or one."""
    return bool(y.min() in (0, 1) and y.max() <= MAX_COUNT and (y == np.round(y)).all() and len(np.unique(y)) > 2)


def family_of(link: str, family: str) -> str:
    """Return the family of residuals: normal for a logarithm, since heavier tails would leave the target no mean."""
    return "normal" if link == "log" else family


def _noise_inputs(table: MemberTable, predictions: Array, location: Array, pool: Pool) -> MemberTable:
    """Add to the inputs of the trees the location and how much the members disagree."""
    relevant = predictions[pool.weights > MIN_WEIGHT]
    disagreement = np.log(relevant.std(0) + 1e-3) if len(relevant) > 1 else np.zeros(len(location))
    return replace(table, plain=np.column_stack([table.plain, location, disagreement]))
