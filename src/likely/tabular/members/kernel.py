r"""Kernel ridge regression with a learned metric, for smooth functions of a few directions.

A prediction is :math:`f(x) = b + \sum_j a_j\,k(Px, Pc_j)` over some of the rows, the centres c. The metric P starts
as the identity; then it is the root of the mean outer product of the gradients of f, so that directions in which f
is steep count for more and those in which it is flat for nothing, and f is fitted again (Radhakrishnan et al., Science
2024). Shape of the kernel, length, ridge and number of rounds are those of the lowest held-out loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from likely._rows.blocks import row_blocks
from likely._typing import Array, Index
from likely.tabular._columns import MAX_INDICATORS
from likely.tabular.members.linear import base_rate, descend, stiffness
from likely.tabular.members.task import MemberTable, NoHelp, StackMember, Task, View, cross_fit, loss_of

SHAPES = ("normal", "matern", "laplace")
LENGTHS = (0.7, 1.0, 1.5)  # in median distances between rows
RIDGES = (30.0, 3.0, 0.3, 0.03, 0.003)
FEWER = RIDGES[1:4]  # while the metric is learned
ROUNDS = 3
SCOUTS = 300  # number of centres while the metric is learned
CENTRES = 600  # and in the final model
MORE_CENTRES = 1500  # where the loss is far below that of the best member so far
AHEAD = 0.5  # share of that loss
METRIC_ROWS = 2000  # largest number of rows for learning the metric
MAX_INPUTS = 2000  # largest number of inputs for which a metric is learned
MAX_LEVELS = 100  # of a category that has an indicator per level
MAX_FIT_ROWS = 20_000  # largest number of rows per fit: more hardly change so few coefficients
CHUNK_ROWS = 4096  # predicted at once
JITTER = {torch.float32: 1e-4, torch.float64: 1e-8}
EXACT_SHARE = 0.01  # share of the variance that is left, below which double precision is used


def kernel(shape: str, square: Tensor) -> tuple[Tensor, Tensor]:
    """Return the kernel at squared distances, and minus twice its derivative by them."""
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
    """Return the squared distances of all pairs of rows."""
    return torch.addmm(b.square().sum(1), a, b.T, alpha=-2).add_(a.square().sum(1, keepdim=True)).clamp_(min=0)


@dataclass(frozen=True)
class LevelIndicators:
    """One input per level of each category of which the other smooth members read the mean target of a level only.

    A kernel finds the function of the other columns within a level, such as the trend of each country.
    """

    counts: tuple[tuple[int, int], ...]  # position of each category among the numbers of a row, and number of levels
    apart: bool  # whether indicators are in units of their deviation, and rows of two levels far apart at first

    @classmethod
    def of(cls, table: MemberTable) -> tuple[LevelIndicators, ...]:
        """Return the indicators to choose from."""
        levels = [(j, int(np.nanmax(table.plain[:, j], initial=-1)) + 1) for j in table.categories]
        counts = tuple((j, count) for j, count in levels if MAX_INDICATORS < count <= MAX_LEVELS)
        return (cls(counts, False), cls(counts, True)) if counts else (cls((), False),)

    def beside(self, smooth: Tensor, plain: Array) -> Tensor:
        """Return the inputs of smooth members, and the indicators after them."""
        parts = [(plain[:, [j]] == np.arange(n)) * (n**0.5 if self.apart else 1.0) for j, n in self.counts]
        return torch.hstack([smooth, *(torch.from_numpy(part).to(smooth) for part in parts)])


@dataclass(frozen=True)
class Smooth:
    """A sum of kernels."""

    shape: str
    metric: Tensor  # (inputs, directions), the length included
    centres: Tensor  # in the metric
    coef: Tensor  # (centres, outputs)
    bias: Tensor  # (outputs,)
    levels: LevelIndicators

    def features(self, x: Tensor) -> Tensor:
        """Return the kernel of each row with each centre."""
        return kernel(self.shape, squared_distances(x @ self.metric, self.centres))[0]

    def slopes(self, x: Tensor) -> Tensor:
        """Return the sum over rows and outputs of the outer products of the gradients in the inputs."""
        z = x @ self.metric
        steep = kernel(self.shape, squared_distances(z, self.centres))[1]
        total = x.new_zeros(x.shape[1], x.shape[1])
        for coef in self.coef.T:
            pull = steep * coef
            slope = (pull @ self.centres - pull.sum(1, keepdim=True) * z) @ self.metric.T
            total += slope.T @ slope
        return total

    def __call__(self, view: View) -> Array:
        """Predict, in the link's units, of shape (rows, outputs)."""
        chunks = []
        for rows in row_blocks(len(view.plain), numbers=CHUNK_ROWS):
            x = self.levels.beside(view.smooth[rows], view.plain[rows]).to(self.coef)
            chunks.append(torch.addmm(self.bias, self.features(x), self.coef))
        return np.asarray(torch.cat(chunks).double().cpu())


class Part(NamedTuple):
    """Some of the rows."""

    x: Tensor
    y: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Problem:
    """The rows that a fold's model learns from, and the held-out rows that select it."""

    rows: Part
    held_out: Part
    levels: LevelIndicators
    link: str = "identity"
    ridges: tuple[float, ...] = FEWER

    def best(self, shape: str, metric: Tensor, chosen: Tensor, lengths: tuple[float, ...]) -> Candidate:
        """Return the model of the lowest held-out loss over lengths and ridges."""
        held_out_x, held_out_y, held_out_weight = self.held_out
        loss, share, candidates = loss_of(self.link), held_out_weight / held_out_weight.sum(), []
        for length in lengths:
            features = None
            for model in self.models(shape, metric / length, chosen):
                features = model.features(held_out_x) if features is None else features
                losses = loss(torch.addmm(model.bias, features, model.coef), held_out_y)
                candidates.append(Candidate(float((losses * share).sum()), length, metric, model))
        return min(candidates, key=lambda candidate: candidate.loss)

    def models(self, shape: str, metric: Tensor, chosen: Tensor) -> Iterator[Smooth]:
        """Yield the constant model, then one model per ridge."""
        x, y, weight = self.rows
        centres, base = x[chosen] @ metric, base_rate(self.link, y, weight)
        model = Smooth(shape, metric, centres, y.new_zeros(len(chosen), y.shape[1]), base, self.levels)
        yield model
        # In the basis where the prior is the identity, the system is well conditioned for every ridge.
        prior = kernel(shape, squared_distances(centres, centres))[0]
        prior.diagonal().add_(JITTER[prior.dtype])
        lower, failed = torch.linalg.cholesky_ex(prior)
        if failed:
            return
        design = torch.linalg.solve_triangular(lower, model.features(x).T, upper=False).T
        fits = self._squares(design, base) if self.link == "identity" else self._descents(design, base)
        for coef, bias in fits:
            yield replace(model, coef=torch.linalg.solve_triangular(lower.T, coef.to(lower), upper=True), bias=bias)

    def _squares(self, design: Tensor, base: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        weighted = design * self.rows.weight[:, None]
        gram, pulled = (weighted.T @ design).double(), (weighted.T @ (self.rows.y - base)).double()
        for ridge in self.ridges:
            lower = torch.linalg.cholesky(gram + ridge * torch.eye(len(gram)).to(gram))
            yield torch.cholesky_solve(pulled, lower), base

    def _descents(self, design: Tensor, base: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        _, y, weight = self.rows
        gram = (design * weight[:, None]).T @ design * stiffness(self.link, y, weight)
        solution = design.new_zeros(design.shape[1], y.shape[1]), base
        for ridge in FEWER:
            root, failed = torch.linalg.cholesky_ex(gram + ridge * torch.eye(len(gram)).to(gram))
            if failed:
                return
            solution = descend(self.link, design, y, weight, ridge, solution, root)
            yield solution


@dataclass(frozen=True)
class Candidate:
    """A model, its held-out loss, and its length and metric."""

    loss: float
    length: float
    metric: Tensor  # before it is divided by the length
    model: Smooth


def learn_metric(
    problem: Problem, shape: str, diagonal: bool, chosen: Tensor, last_lengths: tuple[float, ...] = LENGTHS
) -> Candidate:
    """Alternate between fitting a model and learning the metric from its gradients; return the best model."""
    x = problem.rows.x
    metric = torch.eye(x.shape[1]).to(x)
    best: Candidate | None = None
    lengths: tuple[float, ...] = (1.0,)
    for round_number in range(ROUNDS):
        candidate = problem.best(shape, metric / median_distance(x @ metric), chosen, lengths)
        if best is None or candidate.loss < best.loss:
            best = candidate
        outer = candidate.model.slopes(x)
        if round_number + 1 == ROUNDS or not bool(outer.diagonal().sum() > 0):
            break
        metric, lengths = root_of(outer, diagonal), lengths if round_number + 2 < ROUNDS else last_lengths
    assert best is not None
    return best


class Kind(NamedTuple):
    """What the first fold chooses, and the held-out loss by which it does."""

    loss: float
    shape: str
    diagonal: bool
    levels: LevelIndicators

    @classmethod
    def best(cls, problem: Problem, chosen: Tensor) -> Kind:
        """Choose the shape of the kernel, and whether the metric is diagonal, on a part of the rows."""
        losses = {shape: learn_metric(problem, shape, True, chosen, (1.0,)).loss for shape in SHAPES}
        shape = min(losses, key=losses.__getitem__)
        full = learn_metric(problem, shape, False, chosen, (1.0,)).loss
        return cls(min(full, losses[shape]), shape, full > losses[shape], problem.levels)


def median_distance(z: Tensor) -> float:
    """Return the median distance between about 200 of the rows."""
    sample = z[:: max(1, len(z) // 200)][:200]
    return max(float(squared_distances(sample, sample).sqrt().median()), 1e-6)


def root_of(outer: Tensor, diagonal: bool) -> Tensor:
    """Return the root of a sum of outer products of gradients, or of its diagonal: the new metric."""
    if diagonal:
        squares = outer.diagonal()
        return torch.diag(squares.clamp(min=1e-6 * float(squares.max())).sqrt())
    values, vectors = torch.linalg.eigh(outer.double())
    return (vectors * values.clamp(min=1e-6 * float(values.max())).sqrt()).to(outer)


def fit_kernel(task: Task) -> StackMember:
    """Fit one model per fold; the first fold chooses the shape of the kernel, the indicators and the kind of metric."""
    if task.best is not None and task.table.smooth[0].shape[1] > MAX_INPUTS:
        raise NoHelp
    target = torch.as_tensor(task.target, dtype=torch.float32)
    # The metric is learned by least squares, whatever the link.
    working = (target + 0.375).sqrt() if task.link == "log" else target
    if task.link == "softmax" and task.outputs == 2:
        working = target[:, 1:]  # the other column is its complement
    weight = torch.as_tensor(task.weight, dtype=torch.float32)
    random = torch.Generator().manual_seed(task.random_state)
    draws = [
        tuple(
            torch.from_numpy(rows)[torch.randperm(len(rows), generator=random)[:MAX_FIT_ROWS]]
            for rows in (train, held_out)
        )
        for _, train, held_out in task.splits()
    ]

    def parts(task: Task, fold: int, target: Tensor, levels: LevelIndicators) -> list[Part]:
        """Return the rows that a fold's model learns from, and the held-out rows, with this target."""
        smooth, plain = task.table.smooth[fold], task.table.plain
        return [
            Part(levels.beside(smooth[rows], plain[rows.numpy()]), target[rows].to(smooth), weight[rows].to(smooth))
            for rows in draws[fold]
        ]

    def scouting(task: Task, fold: int, levels: LevelIndicators) -> tuple[Problem, Tensor]:
        rows, held_out = parts(task, fold, working, levels)
        fewer = Part(*(t[:METRIC_ROWS] for t in rows))
        return Problem(fewer, held_out, levels), torch.arange(min(SCOUTS, len(rows.x)))

    kinds = [Kind.best(*scouting(task, 0, levels)) for levels in LevelIndicators.of(task.table)]
    _, kernel_shape, diagonal, levels = min(kinds, key=lambda kind: kind.loss)

    def fit(task: Task, fold: int, train: Index, held_out: Index) -> Smooth:
        fewer, scouts = scouting(task, fold, levels)
        rows, held_out_rows = parts(task, fold, target, levels)
        learned = learn_metric(fewer, kernel_shape, diagonal, scouts)
        exact = task.link == "identity" and learned.loss < EXACT_SHARE * float(rows.y.var(correction=0))
        best = task.best if task.link == "identity" and not exact else None
        ahead = best is not None and learned.loss < AHEAD * float(task.losses(best[held_out], held_out).mean())
        centres = torch.arange(min(MORE_CENTRES if ahead else CENTRES, len(rows.x)))
        if exact:
            rows, held_out_rows = (Part(*(t.double() for t in part)) for part in (rows, held_out_rows))
        problem = Problem(rows, held_out_rows, levels, task.link, RIDGES)
        return problem.best(kernel_shape, learned.metric.to(rows.x), centres, (learned.length,)).model

    return cross_fit(task, fit)
