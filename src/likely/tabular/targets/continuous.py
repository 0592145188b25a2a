"""A target of real numbers: members predict its location, boosted trees the scale of the residual."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.distributions import Distribution, Normal

from likely._numerics.significance import HeldOutGain, held_out_gain
from likely._rows.blocks import row_blocks
from likely._typing import Array, Mask
from likely.distributions import LogNormal, SkewStudentT, StudentT
from likely.tabular._stack import Plan, Pool, Stack, fit_stack, pool_means
from likely.tabular.members.estimators import Growth, fit_boosting
from likely.tabular.members.task import MemberTable, StackMember, Task
from likely.tabular.targets.links import LEVELS, Link, Rounded
from likely.tabular.targets.noise import MAX_DF, Noise, learn_noise, mean_distance, nll_of

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
    inliers: Mask  # (rows,): whether the members learned from a training row
    above_zero: bool  # whether the smallest target was zero, so that means must be positive
    is_count: bool  # whether targets are counts

    def parameters(self, table: MemberTable) -> dict[str, Array]:
        """Return the location (the mean, in the link's standard units) and the log scale of each row."""
        predictions = self.stack(table)[..., 0]  # of shape (members, folds, rows)
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
            return "skewed log_normal" if shape.skew else "log_normal"
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
            **self.stack.summary(self.pool.weights),
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
    above_zero = bool(y.min() == 0)
    is_count = above_zero and link == "identity" and countable(y)

    def fit(inliers: Mask) -> ContinuousTarget:
        stack, pool, noise, location = _fit(task, plan, family, varying, inliers)
        out_of_fold = {"location": location, "log_scale": noise.out_of_fold}
        return ContinuousTarget(units, stack, pool, noise, out_of_fold, inliers, above_zero, is_count)

    fitted = fit(inliers)
    near = np.abs(z - fitted.out_of_fold["location"]) <= GROSS_SCALES * np.exp(fitted.noise.out_of_fold)
    if len(y) <= REFIT_ROWS and np.average(inliers & ~near, weights=task.weight) > REFIT_SHARE and task.learnable(near):
        refitted = fit(near)
        if gain_near(task, near, fitted.noise, z - refitted.out_of_fold["location"]).sure() > 0:
            return refitted
    return fitted


def _fit(task: Task, plan: Plan, family: str, varying: bool, inliers: Mask) -> tuple[Stack, Pool, Noise, Array]:
    """Fit members, their weights and the noise to the inliers; also return the out-of-fold location."""
    cleaned, z = task.of_inliers(inliers), task.target[:, 0]
    stack = fit_stack(cleaned, plan)
    predictions = stack.out_of_fold[..., 0]
    pool = pool_means(predictions, z, cleaned.weight)
    location = pool(predictions)
    noise_task = replace(cleaned, table=_noise_inputs(task.table, predictions, location, pool))
    # Outliers count for the tails of a t; those of a normal have no room for them.
    tails = cleaned.weight if family in ("normal", "auto of logarithms") else task.weight
    return stack, pool, learn_noise(noise_task, z - location, family, varying, tails), location


def countable(y: Array) -> bool:
    """Whether targets look like counts: whole numbers, the smallest of which is zero or one."""
    return bool(y.min() in (0, 1) and y.max() <= MAX_COUNT and (y == np.round(y)).all() and len(np.unique(y)) > 2)


def family_of(link: str, family: str) -> str:
    """Return the family of residuals."""
    return family if link != "log" else "auto of logarithms" if family == "auto" else "normal"


def _noise_inputs(table: MemberTable, predictions: Array, location: Array, pool: Pool) -> MemberTable:
    """Add to the inputs of the trees the location and how much the members disagree."""
    relevant = predictions[pool.weights > MIN_WEIGHT]
    disagreement = np.log(relevant.std(0) + 1e-3) if len(relevant) > 1 else np.zeros(len(location))
    return table.beside(location, disagreement)


GROSS_SCALES = 5.0  # residual, in scales, above which a target may be a gross error
MAX_ROUNDS = 4  # a gross error can hide another, which a later round finds, whether or not one before it was sure
MAX_TREE_ROWS = 50_000  # largest number of rows that the trees learn from
GROWTH = Growth(rate=0.2, leaves=16, rounds=100, patience=7)


def find_inliers(task: Task) -> tuple[Mask, Array | None]:
    """Find gross errors in the targets, by boosted trees that are quick to fit.

    A heavy tail of correct targets is no reason to leave rows out: they are left out only where a fit without them
    predicts the remaining rows better than the fit with them, by more than the standard error.
    """
    task = replace(task, folds=task.folds % 2, deadline=np.inf)
    sample = task.subsample(-(-len(task.folds) // MAX_TREE_ROWS))
    inliers, member, noise = _find_inliers(sample)
    if sample is task:
        return inliers, member.out_of_fold
    if inliers.all():
        return np.ones(len(task.folds), dtype=bool), None
    prediction: Array = np.empty(task.target.shape)
    log_scale = np.empty(len(prediction))
    for fold, _, held_out in task.splits():
        view = task.table.view(fold, held_out)
        prediction[held_out] = member.models[fold](view)
        log_scale[held_out] = noise.shape.shift
        if noise.trees is not None:
            log_scale[held_out] += noise.shape.gain * noise.trees.models[fold](view)[:, 0]
    return np.abs(task.target - prediction)[:, 0] <= GROSS_SCALES * np.exp(log_scale), None


def _find_inliers(task: Task) -> tuple[Mask, StackMember, Noise]:
    target = task.target[:, 0]

    def fit(inliers: Mask) -> tuple[StackMember, Array]:
        member = fit_boosting(task.of_inliers(inliers), GROWTH)
        return member, target - member.out_of_fold[:, 0]

    inliers: Mask = np.ones(len(target), dtype=bool)
    member, residual = fit(inliers)
    noise = learn_noise(task, residual, "student_t")
    best = inliers, member, noise
    for _ in range(MAX_ROUNDS):
        near = np.abs(residual) <= GROSS_SCALES * np.exp(noise.out_of_fold)
        if (near == inliers).all() or not task.learnable(near):
            break
        inliers = near
        member, residual = fit(inliers)
        gain = gain_near(task, inliers, best[2], residual)
        if gain.total <= 0:
            break
        noise = learn_noise(task.of_inliers(inliers), residual, "student_t")
        if gain.sure() > 0:
            best = inliers, member, noise
    return best


def gain_near(task: Task, near: Mask, noise: Noise, residual: Array) -> HeldOutGain:
    """Return by how much a fit to the rows ``near`` alone predicts them better than the fit that has this noise."""
    log_square = noise.trees.out_of_fold[:, 0] if noise.trees is not None else np.zeros_like(residual)
    gain = noise.nll - nll_of(residual, log_square, noise.shape)
    shared = near & (task.weight > 0)
    return held_out_gain(gain[shared], task.weight[shared])
