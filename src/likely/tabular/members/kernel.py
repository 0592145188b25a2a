r"""Ridge regression on kernels whose metric learns: what a smooth function of a few directions asks for.

A prediction is :math:`f(x) = b + \sum_j a_j\,k(Px, Pc_j)` over some of the rows, the centres c. The metric P starts
with all columns alike; then it is the root of the mean outer product of the slopes of f, so that directions in which f
is steep count for more and those in which it is flat for nothing, and f is fitted anew (Radhakrishnan et al., Science
2024). Shape of the kernel, length, ridge and number of rounds are those that rows left out like best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from likely._typing import Array, Index
from likely.tabular.members._glm import base_rate, descend, loss_of, stiffness
from likely.tabular.members._task import Member, NoHelp, Task, View, cross_fit

SHAPES = ("normal", "matern", "laplace")
LENGTHS = (0.7, 1.0, 1.5)  # in median distances of rows
RIDGES = (30.0, 3.0, 0.3, 0.03, 0.003)
FEWER = RIDGES[1:4]  # while the metric is learned
ROUNDS = 3
SCOUTS, CENTRES = 300, 600  # centres while the metric is learned, and in the end
MANY, FAR = 1500, 0.5  # centres where kernels are so far ahead: they leave less than this share of the best one's loss
LOOK = 2000  # rows that the metric is learned from
WIDE = 2000  # inputs above which a metric has too much to learn
ROWS = 20_000  # that a fit looks at: more hardly move so few coefficients
JITTER = {torch.float32: 1e-4, torch.float64: 1e-8}
EXACT = 0.01  # share of the variance that is left, below which single precision would be all that is left


def kernel(shape: str, square: Tensor) -> tuple[Tensor, Tensor]:
    """The kernel at squared distances, and minus twice its derivative by them."""
    if shape == "normal":
        value = torch.exp(-0.5 * square)
        return value, value
    if shape == "matern":
        root = (3 * square).sqrt()
        decay = torch.exp(-root)
        return (1 + root) * decay, 3 * decay
    root = square.sqrt()
    value = torch.exp(-root)
    return value, value / root.clamp(min=1e-3)


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Of all pairs of rows."""
    return torch.addmm(b.square().sum(1), a, b.T, alpha=-2).add_(a.square().sum(1, keepdim=True)).clamp_(min=0)


@dataclass(frozen=True)
class Smooth:
    """A sum of kernels."""

    shape: str
    metric: Tensor  # (inputs, directions), the length included
    centres: Tensor  # in the metric
    coef: Tensor  # (centres, outputs)
    bias: Tensor  # (outputs,)

    def features(self, x: Tensor) -> Tensor:
        """The kernels of rows and centres."""
        return kernel(self.shape, squared_distances(x @ self.metric, self.centres))[0]

    def predict(self, x: Tensor) -> Tensor:
        """(rows, outputs)."""
        return torch.cat([torch.addmm(self.bias, self.features(some), self.coef) for some in x.split(4096)])

    def slopes(self, x: Tensor) -> Tensor:
        """The sum over rows and outputs of the outer product of the slopes in the inputs."""
        z = x @ self.metric
        steep = kernel(self.shape, squared_distances(z, self.centres))[1]
        total = x.new_zeros(x.shape[1], x.shape[1])
        for own in self.coef.T:
            pull = steep * own
            slope = (pull @ self.centres - pull.sum(1, keepdim=True) * z) @ self.metric.T
            total += slope.T @ slope
        return total

    def __call__(self, view: View) -> Array:
        """Predictions (rows, outputs)."""
        return np.asarray(self.predict(view.smooth.to(self.coef)).double().cpu())


@dataclass(frozen=True)
class Problem:
    """The rows that a fold's model learns from and those that judge it."""

    x: Tensor
    y: Tensor
    weight: Tensor
    held_x: Tensor
    held_y: Tensor
    held_weight: Tensor
    link: str = "identity"
    ridges: tuple[float, ...] = FEWER

    def best(self, shape: str, metric: Tensor, chosen: Tensor, lengths: tuple[float, ...]) -> Found:
        """The model of least loss on the rows left out, over lengths and ridges."""
        loss, share, found = loss_of(self.link), self.held_weight / self.held_weight.sum(), []
        for length in lengths:
            features = None
            for model in self.models(shape, metric / length, chosen):
                features = model.features(self.held_x) if features is None else features
                each = loss(torch.addmm(model.bias, features, model.coef), self.held_y)
                found.append(Found(float((each * share).sum()), length, metric, model))
        return min(found, key=lambda own: own.loss)

    def models(self, shape: str, metric: Tensor, chosen: Tensor) -> Iterator[Smooth]:
        """One for each ridge."""
        centres, base = self.x[chosen] @ metric, base_rate(self.link, self.y, self.weight)
        model = Smooth(shape, metric, centres, self.y.new_zeros(len(chosen), self.y.shape[1]), base)
        yield model
        # In the basis where the prior is the identity every ridge makes a system that is well conditioned.
        prior = kernel(shape, squared_distances(centres, centres))[0]
        prior.diagonal().add_(JITTER[prior.dtype])
        lower, failed = torch.linalg.cholesky_ex(prior)
        if failed:
            return
        design = torch.linalg.solve_triangular(lower, model.features(self.x).T, upper=False).T
        fits = self._squares(design, base) if self.link == "identity" else self._descents(design, base)
        for coef, bias in fits:
            yield replace(model, coef=torch.linalg.solve_triangular(lower.T, coef.to(lower), upper=True), bias=bias)

    def _squares(self, design: Tensor, base: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        weighted = design * self.weight[:, None]
        gram, pulled = (weighted.T @ design).double(), (weighted.T @ (self.y - base)).double()
        for ridge in self.ridges:
            lower = torch.linalg.cholesky(gram + ridge * torch.eye(len(gram)).to(gram))
            yield torch.cholesky_solve(pulled, lower), base

    def _descents(self, design: Tensor, base: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        gram = (design * self.weight[:, None]).T @ design * stiffness(self.link, self.y, self.weight)
        at = design.new_zeros(design.shape[1], self.y.shape[1]), base
        for ridge in FEWER:
            root, failed = torch.linalg.cholesky_ex(gram + ridge * torch.eye(len(gram)).to(gram))
            if failed:
                return
            at = descend(self.link, design, self.y, self.weight, ridge, at, root)
            yield at


@dataclass(frozen=True)
class Found:
    """A model, its loss on rows left out, and where it was found."""

    loss: float
    length: float
    metric: Tensor  # before it is divided by the length
    model: Smooth


def learn_metric(
    problem: Problem, shape: str, diagonal: bool, chosen: Tensor, last: tuple[float, ...] = LENGTHS
) -> Found:
    """Rounds of fitting and of looking where the fit is steep; the best of them."""
    metric = torch.eye(problem.x.shape[1]).to(problem.x)
    best: Found | None = None
    lengths: tuple[float, ...] = (1.0,)
    for turn in range(ROUNDS):
        found = problem.best(shape, metric / median_distance(problem.x @ metric), chosen, lengths)
        if best is None or found.loss < best.loss:
            best = found
        outer = found.model.slopes(problem.x)
        if turn + 1 == ROUNDS or not bool(outer.diagonal().sum() > 0):
            break
        metric, lengths = root_of(outer, diagonal), lengths if turn + 2 < ROUNDS else last
    assert best is not None
    return best


def _kind(problem: Problem, few: Tensor) -> tuple[str, bool]:
    """The shape of the kernel, and whether its directions are the columns, by what fewer rows say."""
    losses = {shape: learn_metric(problem, shape, True, few, (1.0,)).loss for shape in SHAPES}
    shape = min(losses, key=lambda own: losses[own])
    return shape, learn_metric(problem, shape, False, few, (1.0,)).loss > losses[shape]


def median_distance(z: Tensor) -> float:
    """Between some of the rows."""
    some = z[:: max(1, len(z) // 200)][:200]
    return max(float(squared_distances(some, some).sqrt().median()), 1e-6)


def root_of(outer: Tensor, diagonal: bool) -> Tensor:
    """The metric that slopes ask for."""
    if diagonal:
        own = outer.diagonal()
        return torch.diag(own.clamp(min=1e-6 * float(own.max())).sqrt())
    values, vectors = torch.linalg.eigh(outer.double())
    return (vectors * values.clamp(min=1e-6 * float(values.max())).sqrt()).to(outer)


def fit_kernel(task: Task) -> Member:
    """A sum of kernels for each fold; the first fold finds the shape, and whether directions are columns."""
    if task.best is not None and task.table.smooth[0].shape[1] > WIDE:
        raise NoHelp
    target = torch.as_tensor(task.target, dtype=torch.float32)
    # The metric is learned by least squares, whatever the link.
    working = (target + 0.375).sqrt() if task.link == "log" else target
    if task.link == "softmax" and task.outputs == 2:
        working = target[:, 1:]  # one column says all
    weight = torch.as_tensor(task.weight, dtype=torch.float32)
    random = torch.Generator().manual_seed(task.random_state)
    draws = [
        tuple(torch.from_numpy(some)[torch.randperm(len(some), generator=random)[:ROWS]] for some in (learned, held))
        for _, learned, held in task.splits()
    ]

    def scouting(task: Task, fold: int) -> tuple[Problem, Problem, Tensor]:
        x, (rows, judges) = task.table.smooth[fold], draws[fold]
        device = x.device
        plain = Problem(
            x[rows], working[rows].to(device), weight[rows].to(device),
            x[judges], working[judges].to(device), weight[judges].to(device),
        )  # fmt: skip
        fewer = replace(plain, x=plain.x[:LOOK], y=plain.y[:LOOK], weight=plain.weight[:LOOK])
        return plain, fewer, torch.arange(min(SCOUTS, len(rows)))

    kind = _kind(*scouting(task, 0)[1:])

    def fit(task: Task, fold: int, learned: Index, held: Index) -> Smooth:
        plain, fewer, few = scouting(task, fold)
        rows, judges = draws[fold]
        device = plain.x.device
        found = learn_metric(fewer, *kind, few)
        exact = task.link == "identity" and found.loss < EXACT * float(plain.y.var(correction=0))
        best = task.best if task.link == "identity" and not exact else None
        ahead = best is not None and found.loss < FAR * float(task.losses(best[held], held).mean())
        shape, many = kind[0], torch.arange(min(MANY if ahead else CENTRES, len(rows)))
        own = replace(plain, y=target[rows].to(device), held_y=target[judges].to(device), link=task.link, ridges=RIDGES)
        if exact:
            parts = ("x", "y", "weight", "held_x", "held_y", "held_weight")
            own = replace(own, **{name: getattr(own, name).double() for name in parts})
        return own.best(shape, found.metric.to(own.x), many, (found.length,)).model

    return cross_fit(task, fit)
