"""A target of real numbers: members say where it lies, trees how far off they are."""

from __future__ import annotations

from collections.abc import Mapping
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
from likely.tabular._belief import FAR, believe, surely_better
from likely.tabular._council import Council, Fit, Say, assemble
from likely.tabular._levels import LEVELS
from likely.tabular._links import Link
from likely.tabular._noise import MOST, Noise, learn_noise, mean_distance
from likely.tabular._pool import Pool, pool_means
from likely.tabular._rounded import Rounded
from likely.tabular.members._task import Table, Task

LARGEST = 10_000  # above which a whole number is hardly a count
FEW, SOME = 2000, 0.01  # rows up to which members may doubt too, and the share of them from which it is worth it
HEARD = 0.02  # weight from which a member's opinion says something about the noise


@dataclass(frozen=True)
class Real:
    """All that was learned about one target."""

    link: Link
    council: Council
    pool: Pool
    noise: Noise
    blind: dict[str, Array]  # of each training row, by models that have not seen it
    believed: NDArray[np.bool_]  # (rows,): whether a training row was learned from
    above_zero: bool  # whether the smallest target was zero: means are above it
    whole: bool  # whether targets are counts

    def parameters(self, table: Table) -> dict[str, Array]:
        """The location (the mean, in the link's standard units) and the log scale of each row."""
        said = np.stack([member(table)[..., 0] for member in self.council.members.values()])  # members, folds, rows
        location = self.pool(said)
        logs = [
            self.noise.log_scale(fold, _told(table, said[:, fold], location[fold], self.pool))
            for fold in range(said.shape[1])
        ]
        return {"location": location.mean(0), "log_scale": 0.5 * np.log(np.exp(2 * np.stack(logs)).mean(0))}

    def distribution(self, location: Array, log_scale: Array) -> Distribution:
        """Of each row's target."""
        shape, link = self.noise.shape, self.link
        scale = torch.as_tensor(np.exp(log_scale) * link.spread)
        middle = torch.as_tensor(link.centre + link.spread * location)
        if shape.skew:
            df, skew = torch.tensor(shape.df, dtype=torch.float64), torch.tensor(shape.skew, dtype=torch.float64)
            mode = middle - 2 * torch.sinh(skew) * mean_distance(df) * scale
            base: Distribution = SkewStudentT(df, skew, mode, scale, validate_args=False)
        elif shape.df >= MOST:
            kind = LogNormal if link.name == "log" else Normal
            base = kind(middle, scale, validate_args=False)
            return Rounded(base) if self.whole else base
        else:
            base = StudentT(shape.df, middle, scale, validate_args=False)
        return Rounded(base) if self.whole else link.distribution(base)

    def mean(self, location: Array, log_scale: Array) -> Array:
        """Of each row's target."""
        if self.link.name == "log":
            return np.asarray(self.distribution(location, log_scale).mean)
        if self.link.name == "identity" and not self.above_zero:
            return self.link.back(location)
        standard = replace(self, link=Link("identity", 0.0, 1.0), whole=False).distribution(np.zeros(1), np.zeros(1))
        z, found = np.asarray(standard.icdf(torch.as_tensor(LEVELS))), np.empty(len(location))
        for rows in row_blocks(len(location), len(z)):
            reached = self.link.back(location[rows, None] + np.exp(log_scale[rows])[:, None] * z)
            found[rows] = (np.maximum(reached, 0.0) if self.above_zero else reached).mean(1)
        return found

    def conformity(self, y: Array, location: Array, log_scale: Array) -> Array:
        """How many scales of their side targets are off."""
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (self.link.forward(y) - location) * np.exp(-log_scale)
        skew = self.noise.shape.skew
        return np.nan_to_num(np.where(z >= 0, z * np.exp(-skew), -z * np.exp(skew)), nan=np.inf, posinf=np.inf)

    def interval(self, reach: float, location: Array, log_scale: Array) -> tuple[Array, Array]:
        """The targets that are so many scales of their side off."""
        scale, skew = np.exp(log_scale), self.noise.shape.skew
        low = self.link.back(location - reach * scale * np.exp(-skew))
        high = self.link.back(location + reach * scale * np.exp(skew))
        return (np.ceil(low).clip(min=0), np.floor(high)) if self.whole else (low, high)

    @property
    def likelihood(self) -> str:
        """What was chosen, in words."""
        shape = self.noise.shape
        if self.link.name == "log":
            return "log_normal"
        name = "skew_student_t" if shape.skew else "normal" if shape.df >= MOST else "student_t"
        if self.whole:
            return f"{name}, rounded"
        return name if self.link.name == "identity" else f"{name} of the log odds"

    def summary(self) -> dict[str, Any]:
        """What was chosen, as JSON takes it."""
        shape = self.noise.shape
        return {
            "likelihood": self.likelihood,
            "df": round(shape.df, 3),
            "skew": round(shape.skew, 4),
            "scale": "predicted" if self.noise.trees is not None and shape.gain > 0 else "global",
            "weights": dict(zip(self.council.members, self.pool.weights.round(4).tolist(), strict=True)),
            "members": list(self.council.tried),
            "rows_left_out": int((~self.believed).sum()),
        }


def fit_real(
    task: Task, y: Array, link: str, family: str, varying: bool, fits: Mapping[str, Fit], chosen: bool, say: Say
) -> Real:
    """Learn targets (rows,)."""
    family = family_of(link, family)
    units = Link.learn(link, y, task.weight)
    z = units.forward(y)
    task = replace(task, target=z[:, None], link="identity")
    believed, scouted = believe(task)
    fit = partial(_fit, task, fits, chosen, say, {} if scouted is None else {"boosting": scouted}, family, varying)
    found = fit(believed)
    near = np.abs(z - found.location) <= FAR * np.exp(found.noise.blind)
    if len(y) <= FEW and (believed & ~near).mean() > SOME:
        again = fit(near)
        if surely_better(task, near, found.noise, z - again.location):
            found, believed = again, near
    blind = {"location": found.location, "log_scale": found.noise.blind}
    whole = link == "identity" and countable(y) and bool(y.min() == 0)
    return Real(units, found.council, found.pool, found.noise, blind, believed, bool(y.min() == 0), whole)


@dataclass(frozen=True)
class _Fitted:
    council: Council
    pool: Pool
    location: Array
    noise: Noise


def _fit(
    task: Task,
    fits: Mapping[str, Fit],
    chosen: bool,
    say: Say,
    scouted: Mapping[str, Array],
    family: str,
    varying: bool,
    believed: NDArray[np.bool_],
) -> _Fitted:
    """Members, their weights and the noise, from the rows that are believed."""
    own, z = task.without(believed), task.target[:, 0]
    council = assemble(own, fits, chosen, say, scouted)
    said = council.blind[..., 0]
    pool = pool_means(said, z, own.weight)
    location = pool(said)
    told = replace(own, table=_told(task.table, said, location, pool))
    # A t's tails have room for rows that are not believed, a normal's have none.
    tails = own.weight if family == "normal" else task.weight
    return _Fitted(council, pool, location, learn_noise(told, z - location, family, varying, tails))


def countable(y: Array) -> bool:
    """Whether targets look like counts: whole numbers from zero or one on."""
    return bool(y.min() in (0, 1) and y.max() <= LARGEST and (y == np.round(y)).all() and len(np.unique(y)) > 2)


def family_of(link: str, family: str) -> str:
    """A logarithm has normal tails: with heavier ones the target would have no mean."""
    return "normal" if link == "log" else family


def _told(table: Table, said: Array, location: Array, pool: Pool) -> Table:
    """What may tell the size of a residual: the columns, the location, and how far members disagree."""
    heard = said[pool.weights > HEARD]
    apart = np.log(heard.std(0) + 1e-3) if len(heard) > 1 else np.zeros(len(location))
    return replace(table, plain=np.column_stack([table.plain, location, apart]))
