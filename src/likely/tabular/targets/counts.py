"""A target of counts: members predict the logarithm of its mean, boosted trees its dispersion."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from likely._numerics.significance import held_out_gain
from likely._typing import Array
from likely.distributions import NegativeBinomial, Poisson, ZeroInflatedNegativeBinomial
from likely.likelihoods import LIKELIHOODS
from likely.tabular._stack import Plan, Stack, fit_stack, pool_links
from likely.tabular.members.task import MemberTable, StackMember, Task, minimised
from likely.tabular.targets.links import ByLevel
from likely.tabular.targets.noise import fit_squares

FAMILIES = ("poisson", "negative_binomial", "zero_inflated_negative_binomial")
MAX_RESIDUAL, MIN_RESIDUAL = 5.0, 1e-2  # largest and smallest residual, in deviations, that the trees learn from
MIN_DISPERSION, MAX_DISPERSION = 1e-6, 1e4  # bounds of the dispersion
MAX_FIT_ROWS = 100_000  # largest number of rows for fitting a few parameters


@dataclass(frozen=True)
class Dispersion:
    """A family with dispersion = exp(shift + gain · log_square), and the log odds of an additional zero."""

    family: str
    shift: float
    gain: float
    zeros: float

    @property
    def tensor(self) -> Tensor:
        """The three numbers."""
        return torch.tensor([self.shift, self.gain, self.zeros], dtype=torch.float64)


@dataclass(frozen=True)
class CountTarget(ByLevel):
    """The fitted model of one target.

    ``log_square`` is the trees' prediction for a row: the logarithm of its mean squared standardized residual.
    """

    stack: Stack
    weights: Array  # (members,): of the predicted means
    trees: StackMember | None
    spread: Dispersion
    out_of_fold: dict[str, Array]  # parameters of each training row, from models fitted without it

    def parameters(self, table: MemberTable) -> dict[str, Array]:
        """Return the logarithm of the mean, and ``log_square``, of each row."""
        location = _pooled(self.weights, self.stack(table)[..., 0])
        log_square = np.zeros_like(location)
        if self.trees is not None:
            for fold in range(len(location)):
                log_square[fold] = self.trees.models[fold](table.beside(location[fold]).view(fold))[:, 0]
        return {"location": np.log(np.exp(location).mean(0)), "log_square": log_square.mean(0)}

    def distribution(self, location: Array, log_square: Array) -> Distribution:
        """Return the distribution of each row's target."""
        rows = torch.as_tensor(location), torch.as_tensor(log_square)
        log_rate, phi = _phi(self.spread.family, self.spread.tensor, *rows)
        if not phi:
            return Poisson(log_rate.exp(), validate_args=False)
        count, logits = 1 / phi["dispersion"], log_rate + phi["dispersion"].log()
        if "inflation" in phi:
            return ZeroInflatedNegativeBinomial(count, logits, phi["inflation"], validate_args=False)
        return NegativeBinomial(count, logits=logits, validate_args=False)

    def summary(self) -> dict[str, Any]:
        """Return what was chosen, in JSON's types."""
        return {
            "likelihood": self.spread.family,
            "scale": "predicted" if self.trees is not None and self.spread.gain > 0 else "global",
            **self.stack.summary(self.weights),
            "rows_left_out": 0,
        }


def fit_counts(task: Task, y: Array, family: str, varying: bool, plan: Plan) -> CountTarget:
    """Fit members and a family to targets of shape (rows,)."""
    task = replace(task, target=y[:, None], link="log")
    stack = fit_stack(task, plan)
    weights = pool_links(stack.out_of_fold, task.target, task.weight, "log")
    location = _pooled(weights, stack.out_of_fold[..., 0])
    spread, trees, log_square = learn_dispersion(task, location, family, varying)
    out_of_fold = {"location": location, "log_square": log_square}
    return CountTarget(stack, weights, trees, spread, out_of_fold)


def learn_dispersion(
    task: Task, location: Array, family: str, varying: bool
) -> tuple[Dispersion, StackMember | None, Array]:
    """Choose and fit a family; return it, the trees of its dispersion, and their out-of-fold ``log_square``."""
    y, flat = task.target[:, 0], np.zeros(len(location))
    plain = _fit_spread("negative_binomial", y, location, flat, task.weight)
    trees, log_square = None, flat
    if varying and family != "poisson":
        mean = np.exp(location)
        deviation = np.sqrt(mean + np.exp(plain.shift) * np.square(mean))
        square = np.square(np.clip(np.abs(y - mean) / deviation, MIN_RESIDUAL, MAX_RESIDUAL))
        trees = fit_squares(replace(task, table=task.table.beside(location)), square)
        log_square = trees.out_of_fold[:, 0]
    best, best_nll = None, np.array([])
    for name in FAMILIES if family == "auto" else (family,):
        candidate = _fit_spread(name, y, location, log_square, task.weight)
        nll = nll_of(candidate, y, location, log_square)
        if best is None or held_out_gain(best_nll - nll, task.weight).sure() > 0:
            best, best_nll = candidate, nll
    assert best is not None
    return best, trees if best.gain > 0 else None, log_square


def nll_of(spread: Dispersion, y: Array, location: Array, log_square: Array) -> Array:
    """Return the NLL of each row."""
    rows = [torch.as_tensor(column) for column in (y, location, log_square)]
    return np.asarray(_nll(spread.family, spread.tensor, *rows))


def _fit_spread(family: str, y: Array, location: Array, log_square: Array, weight: Array) -> Dispersion:
    """Fit the parameters of a family by maximum likelihood."""
    if family == "poisson":
        return Dispersion(family, float(np.log(MIN_DISPERSION)), 0.0, -20.0)
    step = -(-len(y) // MAX_FIT_ROWS)
    rows = [torch.as_tensor(column[::step]) for column in (y, location, log_square)]
    mass = torch.as_tensor(weight[::step] / weight[::step].sum())

    gain = (0.0, 3.0) if log_square.any() else (0.0, 0.0)
    zeros = (-8.0, 8.0) if family.startswith("zero") else (-20.0, -20.0)
    start = np.array([-1.0, gain[1] / 6, -2.0 if zeros[1] > 0 else -20.0])
    bounds = [(np.log(MIN_DISPERSION), np.log(MAX_DISPERSION)), gain, zeros]
    optimum = minimised(lambda parameters: (_nll(family, parameters, *rows) * mass).sum(), start, bounds)
    return Dispersion(family, *(float(value) for value in optimum))


def _nll(family: str, parameters: Tensor, y: Tensor, location: Tensor, log_square: Tensor) -> Tensor:
    log_rate, phi = _phi(family, parameters, location, log_square)
    return LIKELIHOODS[family].nll(log_rate, y, **phi, full=True, reduction="none", validate_args=False)


def _phi(family: str, parameters: Tensor, location: Tensor, log_square: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the logarithm of the rate, without additional zeros, and the parameters of the family."""
    if family == "poisson":
        return location, {}
    shift, gain, zeros = parameters
    log_dispersion = (shift + gain * log_square).clamp(np.log(MIN_DISPERSION), np.log(MAX_DISPERSION))
    if family == "negative_binomial":
        return location, {"dispersion": log_dispersion.exp()}
    share = zeros.sigmoid().expand_as(location)
    return location - torch.log1p(-share), {"dispersion": log_dispersion.exp(), "inflation": share}


def _pooled(weights: Array, log_means: Array) -> Array:
    """Return the logarithm of the weighted mean of the members' predictions."""
    return np.log(np.maximum(np.tensordot(weights, np.exp(log_means), 1), MIN_DISPERSION))
