"""A target of counts: members say the logarithm of its mean, trees how much more than a Poisson it varies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor
from torch.distributions import Distribution

from likely._solvers.selection import held_out_gain
from likely._typing import Array
from likely.distributions import NegativeBinomial, Poisson, ZeroInflatedNegativeBinomial
from likely.functional import negative_binomial_nll, poisson_nll, zero_inflated_negative_binomial_nll
from likely.tabular._conformal import level_conformity, level_interval
from likely.tabular._council import Council, Fit, Say, assemble
from likely.tabular._noise import GROWTH
from likely.tabular._pool import pool_links
from likely.tabular.members._task import Member, Table, Task
from likely.tabular.members.boosting import fit_boosting

FAMILIES = ("poisson", "negative_binomial", "zero_inflated_negative_binomial")
MARGIN = 2.0  # standard errors of the gain that a further parameter must bring
FAR, NEAR = 5.0, 1e-2  # deviations from which, and below which, a residual counts no further
LOWEST, HIGHEST = 1e-6, 1e4  # dispersions
ROWS = 100_000  # that few numbers are found by


@dataclass(frozen=True)
class Spread:
    """dispersion = exp(shift + gain · what trees say), and the log odds of a further zero; of a family."""

    family: str
    shift: float
    gain: float
    zeros: float


@dataclass(frozen=True)
class Counts:
    """All that was learned about one target."""

    council: Council
    weights: Array  # (members,) of the means
    trees: Member | None
    spread: Spread
    blind: dict[str, Array]
    believed: NDArray[np.bool_]

    def parameters(self, table: Table) -> dict[str, Array]:
        """The logarithm of the mean, and what trees say of the dispersion."""
        said = np.stack([member(table)[..., 0] for member in self.council.members.values()])
        location = _pooled(self.weights, said)
        told = np.zeros_like(location)
        if self.trees is not None:
            for fold in range(len(location)):
                told[fold] = self.trees.models[fold](_told(table, location[fold]).view(fold))[:, 0]
        return {"location": np.log(np.exp(location).mean(0)), "told": told.mean(0)}

    def distribution(self, location: Array, told: Array) -> Distribution:
        """Of each row's target."""
        return _distribution(self.spread, torch.as_tensor(location), torch.as_tensor(told))

    def mean(self, location: Array, told: Array) -> Array:
        """Of each row's target."""
        return np.asarray(self.distribution(location, told).mean)

    def conformity(self, y: Array, location: Array, told: Array) -> Array:
        """How far the level of each target is off the middle."""
        return level_conformity(self.distribution(location, told), y)

    def interval(self, reach: float, location: Array, told: Array) -> tuple[Array, Array]:
        """The targets whose levels are so far off the middle."""
        return level_interval(self.distribution(location, told), reach)

    @property
    def likelihood(self) -> str:
        """What was chosen."""
        return self.spread.family

    def summary(self) -> dict[str, Any]:
        """What was chosen, as JSON takes it."""
        return {
            "likelihood": self.likelihood,
            "scale": "predicted" if self.trees is not None and self.spread.gain > 0 else "global",
            "weights": dict(zip(self.council.members, self.weights.round(4).tolist(), strict=True)),
            "members": list(self.council.tried),
            "rows_left_out": 0,
        }


def fit_counts(
    task: Task, y: Array, family: str, varying: bool, fits: Mapping[str, Fit], chosen: bool, say: Say
) -> Counts:
    """Learn targets (rows,)."""
    task = replace(task, target=y[:, None], link="log")
    council = assemble(task, fits, chosen, say, {})
    weights = pool_links(council.blind, task.target, task.weight, "log")
    location = _pooled(weights, council.blind[..., 0])
    spread, trees, told = learn_spread(task, location, family, varying)
    blind = {"location": location, "told": told}
    return Counts(council, weights, trees, spread, blind, np.ones(len(y), dtype=bool))


def learn_spread(task: Task, location: Array, family: str, varying: bool) -> tuple[Spread, Member | None, Array]:
    """The family, how its dispersion varies, and what trees say of each row."""
    y, flat = task.target[:, 0], np.zeros(len(location))
    plain = _find("negative_binomial", y, location, flat, task.weight)
    trees, told = None, flat
    if varying and family != "poisson":
        mean = np.exp(location)
        deviation = np.sqrt(mean + np.exp(plain.shift) * np.square(mean))
        square = np.square(np.clip(np.abs(y - mean) / deviation, NEAR, FAR))
        growth = replace(GROWTH, least=max(GROWTH.least, len(y) // 100))
        own = replace(task, table=_told(task.table, location), target=square[:, None], link="gamma", best=None)
        trees = fit_boosting(replace(own, deadline=np.inf), growth)
        told = trees.blind[:, 0]
    best, lost = None, np.array([])
    for name in FAMILIES if family == "auto" else (family,):
        found = _find(name, y, location, told, task.weight)
        nll = nll_of(found, y, location, told)
        if best is None or held_out_gain(lost - nll, task.weight).sure(MARGIN) > 0:
            best, lost = found, nll
    assert best is not None
    return best, trees if best.gain > 0 else None, told


def nll_of(spread: Spread, y: Array, location: Array, told: Array) -> Array:
    """Of each row."""
    at = torch.tensor([spread.shift, spread.gain, spread.zeros], dtype=torch.float64)
    return np.asarray(_nll(spread.family, at, *(torch.as_tensor(own) for own in (y, location, told))))


def _find(family: str, y: Array, location: Array, told: Array, weight: Array) -> Spread:
    """The likeliest parameters of a family."""
    step = -(-len(y) // ROWS)
    rows = [torch.as_tensor(own[::step]) for own in (y, location, told)]
    mass = torch.as_tensor(weight[::step] / weight[::step].sum())

    def cost(at: Array) -> tuple[float, Array]:
        parameters = torch.as_tensor(at).requires_grad_()
        loss = (_nll(family, parameters, *rows) * mass).sum()
        (slope,) = torch.autograd.grad(loss, parameters, allow_unused=True)
        return float(loss.detach()), np.zeros(3) if slope is None else slope.numpy()

    if family == "poisson":
        return Spread(family, float(np.log(LOWEST)), 0.0, -20.0)
    steep = (0.0, 3.0) if told.any() else (0.0, 0.0)
    zeros = (-8.0, 8.0) if family.startswith("zero") else (-20.0, -20.0)
    start = np.array([-1.0, steep[1] / 6, -2.0 if zeros[1] > 0 else -20.0])
    bounds = [(np.log(LOWEST), np.log(HIGHEST)), steep, zeros]
    found = minimize(cost, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    return Spread(family, *(float(own) for own in found))


def _dispersion(shift: Tensor, gain: Tensor, told: Tensor) -> Tensor:
    return (shift + gain * told).clamp(np.log(LOWEST), np.log(HIGHEST)).exp()


def _nll(family: str, at: Tensor, y: Tensor, location: Tensor, told: Tensor) -> Tensor:
    options: dict[str, Any] = {"reduction": "none", "validate_args": False}
    if family == "poisson":
        return poisson_nll(location, y, full=True, **options)
    dispersion = _dispersion(at[0], at[1], told)
    if family == "negative_binomial":
        return negative_binomial_nll(location, y, dispersion=dispersion, **options)
    share = at[2].sigmoid()
    location = location - torch.log1p(-share)  # of those that are not such zeros
    return zero_inflated_negative_binomial_nll(location, y, dispersion=dispersion, inflation=share, **options)


def _distribution(spread: Spread, location: Tensor, told: Tensor) -> Distribution:
    if spread.family == "poisson":
        return Poisson(location.exp(), validate_args=False)
    shift, gain = torch.tensor(spread.shift, dtype=torch.float64), torch.tensor(spread.gain, dtype=torch.float64)
    dispersion = _dispersion(shift, gain, told)
    if spread.family == "negative_binomial":
        return NegativeBinomial(1 / dispersion, logits=location + dispersion.log(), validate_args=False)
    share = torch.tensor(spread.zeros, dtype=torch.float64).sigmoid()
    logits = location - torch.log1p(-share) + dispersion.log()
    return ZeroInflatedNegativeBinomial(1 / dispersion, logits, share.expand_as(logits), validate_args=False)


def _pooled(weights: Array, said: Array) -> Array:
    """The logarithm of the mean of what members say."""
    return np.log(np.maximum(np.tensordot(weights, np.exp(said), 1), LOWEST))


def _told(table: Table, location: Array) -> Table:
    """What may tell the dispersion: the columns, and the mean."""
    return replace(table, plain=np.column_stack([table.plain, location]))
