"""A target with mass at single values, such as zero or a cap: classifiers predict the mass, other members the rest."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution, Normal, constraints

from likely._typing import Array
from likely.likelihoods._distribution import bounds
from likely.metrics import crps
from likely.tabular._stack import KINDS, ClassPool, Plan, Stack, fit_stack, pool_classes
from likely.tabular.members.task import MemberTable, Task
from likely.tabular.targets.choice import choose
from likely.tabular.targets.continuous import ContinuousTarget, fit_continuous
from likely.tabular.targets.links import ByLevel


class WithAtoms(Distribution):
    """Each of some values with a probability of its own, and otherwise a draw from a continuous distribution.

    ``log_prob`` is the logarithm of the probability at an atom, and of the density elsewhere.

    >>> import torch
    >>> from torch.distributions import Normal
    >>> claims = WithAtoms(torch.zeros(1), torch.tensor([[0.75, 0.25]]).log(), Normal(torch.tensor([10.0]), 1.0))
    >>> claims.mean, claims.cdf(torch.tensor(0.0)), claims.icdf(torch.tensor([0.5]))
    (tensor([2.5000]), tensor([0.7500]), tensor([0.]))
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.real

    def __init__(self, atoms: Tensor, log_proba: Tensor, rest: Any, validate_args: bool | None = None) -> None:
        self.atoms, self.log_proba, self.rest = atoms, log_proba, rest
        *masses, self.share = log_proba.exp().unbind(-1)
        self.masses = list(zip(atoms, masses, strict=True))  # each atom, in ascending order, and its probability
        super().__init__(log_proba.shape[:-1], validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of an atom, and of the density of any other value."""
        density = self.log_proba[..., -1] + self.rest.log_prob(value)
        result = torch.where(self.rest.support.check(value), density, -torch.inf)
        for place, atom in enumerate(self.atoms):
            result = torch.where(value == atom.to(value), self.log_proba[..., place], result)
        return result

    def cdf(self, value: Tensor) -> Tensor:
        """Return P(X ≤ value)."""
        return self._rest_below(value) + sum(mass * (value >= atom) for atom, mass in self.masses)

    def _rest_below(self, value: Tensor) -> Tensor:
        """Return P(X ≤ value and X is no atom)."""
        low, high = map(torch.as_tensor, bounds(self.rest))
        return self.share * torch.where(value < low, 0.0, self.rest.cdf(value.clamp(low, high)))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile: the smallest x whose CDF is at least ``value``."""
        ends, level = [], value
        for atom, mass in self.masses:
            end = self.cdf(atom)
            ends.append((atom, end - mass, end))
            level = torch.where(value > end, level - mass, level)
        result = self.rest.icdf((level / self.share.clamp(min=1e-300)).clamp(0, 1))
        for atom, start, end in ends:
            result = torch.where(value > start, torch.maximum(result, atom), result)
            result = torch.where(value <= end, torch.minimum(result, atom), result)
        return result

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values."""
        which, result = Categorical(logits=self.log_proba).sample(sample_shape), self.rest.sample(sample_shape)
        for place, atom in enumerate(self.atoms):
            result = torch.where(which == place, atom, result)
        return result

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.share * self.rest.mean + sum(mass * atom for atom, mass in self.masses)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        mean = self.mean
        within = self.share * (self.rest.variance + (self.rest.mean - mean).square())
        return within + sum(mass * (atom - mean).square() for atom, mass in self.masses)

    def crps(self, value: Tensor) -> Tensor:
        """Return the CRPS; in that of a mixture the mean distance of two draws from the continuous part cancels."""

        def of_rest(x: Tensor) -> Tensor:
            return self.share * torch.as_tensor(crps(x.expand(self.batch_shape), self.rest, reduction="none"))

        result = of_rest(value)
        for place, (atom, mass) in enumerate(self.masses):
            pairs = sum(other * (atom - lower) for lower, other in self.masses[:place])
            result = result + mass * ((value - atom).abs() - of_rest(atom) - pairs)
        return result


@dataclass(frozen=True)
class AtomTarget(ByLevel):
    """The fitted model of one target."""

    atoms: Array
    stack: Stack  # of classifiers: one class per atom, and one for all other values where there are any
    pool: ClassPool
    rest: ContinuousTarget | None
    out_of_fold: dict[str, Array]  # parameters of each training row, from models fitted without it

    def parameters(self, table: MemberTable) -> dict[str, Array]:
        """Return the logarithm of each class's probability, and the parameters of the other values."""
        return {"log_proba": self.pool(self.stack(table))} | ({} if self.rest is None else self.rest.parameters(table))

    def distribution(self, log_proba: Array, **rest: Array) -> Distribution:
        """Return the distribution of each row's target."""
        shares = torch.as_tensor(log_proba)
        if self.rest is not None:
            return WithAtoms(torch.as_tensor(self.atoms), shares, self.rest.distribution(**rest))
        nothing = shares[:, 0] * 0
        shares = torch.column_stack([shares, nothing - torch.inf])
        return WithAtoms(torch.as_tensor(self.atoms), shares, Normal(nothing, 1.0, validate_args=False))

    def summary(self) -> dict[str, Any]:
        """Return what was chosen, in JSON's types."""
        masses = {"values": self.atoms.tolist(), **self.stack.summary(self.pool.weights)}
        name = "mass at " + " and ".join(f"{atom:g}" for atom in self.atoms)
        if self.rest is None:
            return {"likelihood": name, "scale": "predicted", "rows_left_out": 0, **masses}
        return self.rest.summary() | {"likelihood": f"{name}, else {self.rest.likelihood}", "atoms": masses}


def fit_atoms(task: Task, y: Array, atoms: Array, varying: bool, plan: Plan) -> tuple[AtomTarget, dict[str, float]]:
    """Fit classifiers to what is at an atom, and members to the rest; also return the NLL of each link of the rest."""
    target = (y[:, None] == atoms).astype(np.float64)
    is_rest = ~target.any(1)
    if is_rest.any():
        target = np.column_stack([target, is_rest])
    named = {name: fit for name, fit in plan.fits.items() if KINDS.get(name) is fit}
    class_plan = replace(plan, fits=named or {"boosting": KINDS["boosting"]})  # a user's regressors cannot classify
    stack = fit_stack(replace(task, target=target, link="softmax"), class_plan)
    pool = pool_classes(stack.out_of_fold, target, task.weight)
    out_of_fold = {"log_proba": pool(stack.out_of_fold[:, None])}
    if not is_rest.any():
        return AtomTarget(atoms, stack, pool, None, out_of_fold), {}
    link, held_out_nll = choose(task.take(np.flatnonzero(is_rest)), y[is_rest], counts=False, floor=y.min() == 0)
    # Rows at an atom have a weight of zero, so that the models of the rest predict them but do not learn from them.
    filled = np.where(is_rest, y, np.median(y[is_rest]))
    rest = fit_continuous(task.of_inliers(is_rest), filled, link, "auto", varying, plan)
    rest = replace(rest, inliers=rest.inliers | ~is_rest)
    return AtomTarget(atoms, stack, pool, rest, out_of_fold | rest.out_of_fold), held_out_nll
