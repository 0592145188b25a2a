"""Members of different kinds, fitted one after the other on the same folds, and their weights."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from scipy.special import log_softmax
from torch import Tensor

from likely._typing import Array
from likely.tabular.members.estimators import fit_boosting, fit_shallow, fit_trees
from likely.tabular.members.kernel import fit_kernel
from likely.tabular.members.linear import fit_lines
from likely.tabular.members.network import fit_networks
from likely.tabular.members.task import MemberTable, NoHelp, OutOfTime, StackMember, Task, loss_of, minimised

Fit = Callable[[Task], StackMember]
Report = Callable[[str], None]

KINDS: dict[str, Fit] = {  # in the order of fitting: the quickest first, since later ones must improve on them
    "linear": fit_lines,
    "kernel": fit_kernel,
    "boosting": fit_boosting,
    "shallow": fit_shallow,
    "trees": fit_trees,
    "network": fit_networks,
}
SMOOTH = 0.6  # ratio of the kernels' loss to that of boosting up to which the target is smooth enough for a network
SMOOTH_CLASSES = 1.2  # the same for classes
EXACT_SHARE = 1e-3  # share of the target's variance: where kernels leave less, a network cannot improve on them
NETWORK_ROWS = 2000  # smallest number of rows that a network is fitted to
CLASS_ROWS = 300  # the same for classes


@dataclass(frozen=True)
class Stack:
    """The fitted members, and the outcome of each that was tried."""

    members: Mapping[str, StackMember]
    tried: tuple[dict[str, Any], ...]

    @property
    def out_of_fold(self) -> Array:
        """Predictions of the training rows by models fitted without them, shape (members, rows, outputs)."""
        return np.stack([member.out_of_fold for member in self.members.values()])

    def __call__(self, table: MemberTable) -> Array:
        """Predict rows by each member, shape (members, folds, rows, outputs)."""
        return np.stack([member(table) for member in self.members.values()])

    def summary(self, weights: Array) -> dict[str, Any]:
        """Return the members and their weights, in JSON's types."""
        by_name = dict(zip(self.members, weights.round(4).tolist(), strict=True))
        return {"weights": by_name, "members": list(self.tried)}


@dataclass(frozen=True)
class Plan:
    """Which members to fit."""

    fits: Mapping[str, Fit]
    all_of_them: bool  # whether the user chose them, so that none is dropped
    report: Report
    scouted: Mapping[str, Array] = field(default_factory=dict)  # known out-of-fold predictions of quick versions


def fit_stack(task: Task, plan: Plan) -> Stack:
    """Fit members, and drop those that do not improve on the best one.

    The first member is fitted whatever the time limit; after an interrupt the members fitted so far are kept.
    """
    members: dict[str, StackMember] = {}
    losses: dict[str, float] = {}
    tried: list[dict[str, Any]] = []
    for name, fit in _in_turn(plan):
        began = time.monotonic()
        try:
            member, outcome = _fit_member(task, plan, name, fit, members, losses)
        except KeyboardInterrupt:
            if not members:
                raise
            warnings.warn(f"interrupted: the fit goes on with {', '.join(members)}", stacklevel=2)
            tried.append({"member": name, "outcome": "interrupted", "seconds": time.monotonic() - began})
            break
        record = {"member": name, "outcome": outcome, "seconds": round(time.monotonic() - began, 3)}
        if member is not None:
            members[name] = member
            losses[name] = record["loss"] = task.loss(member.out_of_fold)
        tried.append(record)
        plan.report(f"{name}: {outcome}" + (f", loss {losses[name]:.4g}" if name in losses else ""))
    return Stack(members, tuple(tried))


def _fit_member(
    task: Task, plan: Plan, name: str, fit: Fit, members: Mapping[str, StackMember], losses: Mapping[str, float]
) -> tuple[StackMember | None, str]:
    """Fit one member, or return None and the reason; ``members`` and their ``losses`` are those fitted before it."""
    if not members:
        return fit(replace(task, deadline=np.inf)), "fitted"
    best = None
    if not plan.all_of_them:
        if name == "network" and not _network_may_help(task, losses, plan.scouted):
            return None, "not begun: the target is not smooth enough, or there are too few rows"
        best = _best(task, members, losses, plan.scouted, name)
    compared = replace(task, best=best, lines=members["linear"].models if "linear" in members else ())
    try:
        task.check_time()
        if name in plan.scouted and "kernel" in members:
            compared.check_help(plan.scouted[name], np.arange(len(task.folds)))
        return fit(compared), "fitted"
    except NoHelp:
        return None, "dropped: on the first fold it did not help"
    except OutOfTime:
        return None, "dropped: time_limit was reached"


def _in_turn(plan: Plan) -> list[tuple[str, Fit]]:
    """The members in the order of fitting; boosting comes before kernels where it was not scouted."""
    if plan.scouted or list(plan.fits) != list(KINDS):
        return list(plan.fits.items())
    return [(name, plan.fits[name]) for name in ("linear", "boosting", "shallow", "kernel", "trees", "network")]


def _best(
    task: Task,
    members: Mapping[str, StackMember],
    losses: Mapping[str, float],
    scouted: Mapping[str, Array],
    current: str,
) -> Array:
    """The out-of-fold predictions of the best member so far, or of a scouted later one that is better."""
    name = min(losses, key=losses.__getitem__)
    later = [prediction for kind, prediction in scouted.items() if kind not in members and kind != current]
    better = [prediction for prediction in later if task.loss(prediction) < losses[name]]
    return better[0] if better else members[name].out_of_fold


def _network_may_help(task: Task, losses: Mapping[str, float], scouted: Mapping[str, Array]) -> bool:
    """Whether the target is smooth, by the losses of kernels and boosting, and there are enough rows."""
    is_class = task.link == "softmax"
    if len(task.target) < (CLASS_ROWS if is_class else NETWORK_ROWS) or "kernel" not in losses:
        return False
    if is_class:
        return losses["kernel"] <= SMOOTH_CLASSES * losses.get("boosting", np.inf)
    if losses["kernel"] < EXACT_SHARE * float(task.target.var()):
        return False
    boosting = losses["boosting"] if "boosting" in losses else task.loss(scouted["boosting"]) if scouted else np.inf
    return losses["kernel"] <= SMOOTH * boosting


PRIOR_ROWS = 5.0  # strength of the prior for equal weights, in rows
TINY = 1e-12
TRACE = 0.1  # row of a draw from the classes' shares that is added to the rows, for the least probability
MAX_FIT_ROWS = 100_000  # largest number of rows for fitting the weights: more hardly change so few numbers


@dataclass(frozen=True)
class Pool:
    """A weighted sum of predictions, each less a centre that is added again."""

    weights: Array  # (members,)
    centre: float

    def __call__(self, predictions: Array) -> Array:
        """Combine predictions of shape (members, …)."""
        return np.tensordot(self.weights, predictions - self.centre, 1) + self.centre


def pool_means(out_of_fold: Array, target: Array, weight: Array) -> Pool:
    """Fit weights by weighted least squares, from predictions (members, rows) of targets (rows,)."""
    members = len(out_of_fold)
    centre = np.average(target, weights=weight)
    spread = np.average(np.square(target - out_of_fold.mean(0)), weights=weight)
    root = np.sqrt(weight)
    pull = np.sqrt(PRIOR_ROWS * max(spread, 1e-300))
    rows = np.vstack([((out_of_fold - centre) * root).T, pull * np.eye(members)])
    weights, _ = nnls(rows, np.append((target - centre) * root, np.full(members, pull / members)))
    return Pool(weights, float(centre))


def pool_links(out_of_fold: Array, target: Array, weight: Array, link: str) -> Array:
    """Fit weights by the link's likelihood, from predictions (members, rows, outputs) of targets (rows, outputs).

    Logarithms of means are combined as means: in a sum of logarithms a member far too high multiplies the others.
    """
    members, step = len(out_of_fold), -(-len(target) // MAX_FIT_ROWS)
    rows = out_of_fold[:, ::step], target[::step], weight[::step]
    predictions, y, mass = (torch.from_numpy(np.ascontiguousarray(array)) for array in rows)
    predictions = predictions.exp() if link == "log" else predictions
    loss = loss_of(link)
    start = np.full(members, 1 / members)
    prior = 0.0

    def cost(weights: Tensor) -> Tensor:
        pooled = torch.einsum("m,mro->ro", weights, predictions)
        losses = loss((pooled + TINY).log() if link == "log" else pooled, y) * mass
        return losses.sum() + prior * (weights - 1 / members).square().sum()

    level = float(cost(torch.from_numpy(start)) / mass.sum())
    prior = 0.5 * PRIOR_ROWS * min(1.0, level if link == "softmax" else 1.0)  # weaker where the loss is small

    return minimised(cost, start, [(0, 3)] * members)


@dataclass(frozen=True)
class ClassPool:
    """A geometric mean of the members' probabilities and the classes' shares, and a trace of the shares.

    Weights that add up to less than one make the probabilities less certain.
    """

    weights: Array  # (members,)
    base: Array  # (classes,): the logarithm of the shares, times their weight
    trace: Array  # (classes,): the logarithm of the least probability, so that none is zero

    def __call__(self, predictions: Array) -> Array:
        """Combine logits (members, folds, rows, classes) to log probabilities (rows, classes)."""
        pooled = np.tensordot(self.weights, log_softmax(predictions, -1).mean(1), 1) + self.base
        return log_softmax(np.logaddexp(log_softmax(pooled, -1), self.trace), -1)


def pool_classes(out_of_fold: Array, target: Array, weight: Array) -> ClassPool:
    """Fit weights from logits (members, rows, classes) of labels as indicators (rows, classes)."""
    mass = weight @ target + 0.5
    share = np.log(mass / mass.sum())
    predictions = np.concatenate([log_softmax(out_of_fold, -1), np.broadcast_to(share, (1, *target.shape))])
    weights = pool_links(predictions, target, weight, "softmax")
    return ClassPool(weights[:-1], weights[-1] * share, share + np.log(TRACE / mass.sum()))
