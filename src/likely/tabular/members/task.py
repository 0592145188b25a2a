"""The task that a member of a stack is fitted to, and the fitted member."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import joblib
import numpy as np
import torch
from scipy.optimize import minimize
from sklearn.utils import _safe_indexing
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from likely._typing import Array, Index, Mask
from likely.functional import poisson_nll, softmax_nll

MIXES = (0.1, 0.25, 0.5, 0.75, 1.0)  # shares of a new member that are tried in a mixture with the best one
WORTH = 2e-3  # share of the loss that one of these mixtures must save on the first fold


def loss_of(link: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function of predictions and targets (rows, outputs) that computes each row's loss."""
    if link == "identity":
        return lambda prediction, target: (prediction - target).square().mean(1)
    if link == "log":
        return lambda prediction, target: poisson_nll(prediction, target, reduction="none", validate_args=False).mean(1)
    if link == "gamma":
        return lambda prediction, target: (target * torch.exp(-prediction) + prediction).mean(1)
    options: dict[str, Any] = {"temperature": 1.0, "reduction": "none", "validate_args": False}
    return lambda prediction, target: softmax_nll(prediction, target.argmax(1), **options)


def minimised(
    loss: Callable[[Tensor], Tensor],
    start: Array,
    bounds: Sequence[tuple[float, float]] | None = None,
    max_iter: int = 15_000,
) -> Array:
    """Return the minimum of a differentiable function, by L-BFGS."""

    def objective(values: Array) -> tuple[float, Array]:
        parameters = torch.as_tensor(values).requires_grad_()
        total = loss(parameters)
        (gradient,) = torch.autograd.grad(total, parameters)
        return float(total.detach()), gradient.numpy()

    options = {"maxiter": max_iter}
    return np.asarray(minimize(objective, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options).x)


class OutOfTime(Exception):
    """The time limit was reached before a member was complete."""


class NoHelp(Exception):
    """On the first fold a member does not improve on the best one."""


@dataclass(frozen=True)
class View:
    """Rows as the model of one fold reads them."""

    plain: Array  # (rows, numbers): NaN where a value is missing, a category as the code of its level
    smooth: Tensor  # (rows, inputs): no gaps, standard units
    effects: Index  # columns of ``smooth`` that hold the effects of levels
    source: Any  # the table as the user passed it
    place: Index  # position of each row in it

    @property
    def numbers(self) -> Array:
        """What trees with gaps and categories read: ``plain``, and the effects of levels beside it."""
        return np.column_stack([self.plain, self.smooth[:, self.effects].cpu().numpy()])

    @property
    def source_rows(self) -> Any:
        """The rows as the user passed them."""
        return _safe_indexing(self.source, self.place)


@dataclass(frozen=True)
class MemberTable:
    """Rows as the members read them."""

    plain: Array
    smooth: Sequence[Tensor]  # one per fold, for its model
    categories: tuple[int, ...]  # columns of ``plain`` that are categories
    effects: Index  # columns of ``smooth`` that hold the effects of levels
    source: Any
    place: Index

    def beside(self, *columns: Array) -> MemberTable:
        """Return the same rows with further numbers for the trees."""
        return replace(self, plain=np.column_stack([self.plain, *columns]))

    def view(self, fold: int, rows: Index | None = None) -> View:
        """Return all rows, or some, for the model of a fold."""
        if rows is None:
            return View(self.plain, self.smooth[fold], self.effects, self.source, self.place)
        smooth = self.smooth[fold]
        smooth = smooth[torch.from_numpy(rows).to(smooth.device)]
        return View(self.plain[rows], smooth, self.effects, self.source, self.place[rows])


@dataclass(frozen=True)
class Task:
    """Rows to learn from, and the fold of each: the model of a fold learns from all rows but those of the fold.

    ``link`` is what a prediction means: ``"identity"`` the target itself, ``"log"`` the logarithm of its mean,
    ``"softmax"`` the logarithm of each class's probability, up to a constant, ``"gamma"`` as ``"log"`` for the
    squares of residuals.
    """

    table: MemberTable
    target: Array  # (rows, outputs); for classes, indicators
    weight: Array
    folds: Index
    link: str
    random_state: int = 0
    threads: int = 1
    jobs: int | None = None  # folds that are fitted at once, as joblib counts them
    spread: bool = False  # whether joblib fits the folds, each on one thread
    deadline: float = np.inf  # on time.monotonic's clock
    best: Array | None = field(default=None, repr=False)  # out-of-fold predictions of the best member so far
    lines: Sequence[Any] = field(default=(), repr=False)  # each fold's linear model, where there is one

    @property
    def n_folds(self) -> int:
        """The number of folds, and so of models per member."""
        return int(self.folds.max()) + 1

    @property
    def outputs(self) -> int:
        """The number of predicted values per row."""
        return self.target.shape[1]

    def splits(self) -> Iterator[tuple[int, Index, Index]]:
        """Yield each fold's number, the rows that its model learns from, and the rows of the fold."""
        for fold in range(self.n_folds):
            yield fold, np.flatnonzero((self.folds != fold) & (self.weight > 0)), np.flatnonzero(self.folds == fold)

    def losses(self, prediction: Array, rows: Index | slice = slice(None)) -> Array:
        """Return the weighted loss of each row's prediction; predictions have the shape (rows, outputs)."""
        losses = loss_of(self.link)(torch.from_numpy(prediction), torch.from_numpy(self.target[rows])).numpy()
        weight = self.weight[rows]
        return losses * weight / max(float(weight.mean()), 1e-300)

    def loss(self, prediction: Array) -> float:
        """Return the mean loss of predictions (rows, outputs)."""
        return float(self.losses(prediction).mean())

    def of_inliers(self, inliers: Mask) -> Task:
        """Return the same task with a weight of zero for all other rows."""
        return replace(self, weight=self.weight * inliers)

    def learnable(self, rows: Mask) -> bool:
        """Whether every fold's model has some of these rows to learn from."""
        folds = self.folds[rows & (self.weight > 0)]
        return bool((folds != folds[:1]).any())

    def subsample(self, step: int) -> Task:
        """Return every ``step``-th row."""
        return self if step == 1 else self.take(slice(None, None, step))

    def take(self, rows: Index | slice) -> Task:
        """Return some of the rows."""
        table = self.table
        smooth = [inputs[rows] for inputs in table.smooth]
        part = replace(table, plain=table.plain[rows], smooth=smooth, place=table.place[rows])
        return replace(self, table=part, target=self.target[rows], weight=self.weight[rows], folds=self.folds[rows])

    def check_time(self) -> None:
        """Raise an error if the time limit was reached."""
        if time.monotonic() > self.deadline:
            raise OutOfTime

    def check_help(self, prediction: Array, held_out: Index) -> None:
        """Raise an error if no mixture of a new member with the best one is better than the best one alone."""
        if self.best is None:
            return
        best = self.best[held_out]
        best_losses = self.losses(best, held_out)
        gains = [best_losses - self.losses(best + share * (prediction - best), held_out) for share in MIXES]
        # For classes that are nearly always predicted correctly, only a handful of rows decide: add a standard error.
        margins = [np.sqrt(np.square(gain - gain.mean()).sum()) if self.link == "softmax" else 0.0 for gain in gains]
        if max(gain.sum() + margin for gain, margin in zip(gains, margins, strict=True)) < WORTH * best_losses.sum():
            raise NoHelp


Model = Callable[[View], Array]  # a fitted model of one fold: predictions of shape (rows, outputs)
# Fits one fold's model to the rows ``train`` of a task, which may hold the view of this fold only, and selects it on
# the rows ``held_out``: (task, fold, train, held_out) → model.
FitFold = Callable[[Task, int, Index, Index], Model]


@dataclass(frozen=True)
class StackMember:
    """The models of one kind, one per fold, and their predictions of the rows of their folds."""

    models: tuple[Model, ...]
    out_of_fold: Array  # (rows, outputs)

    def __call__(self, table: MemberTable) -> Array:
        """Return predictions of shape (folds, rows, outputs)."""
        return np.stack([model(table.view(fold)) for fold, model in enumerate(self.models)])


def cross_fit(task: Task, fit: FitFold) -> StackMember:
    """Fit one model per fold by ``fit(task, fold, train, held_out)``, which may run in another process.

    Where there is a best member so far, the first fold is fitted before the others: it decides whether they are.
    """
    out_of_fold = np.empty(task.target.shape)
    models = []
    splits = list(task.splits())
    for part in [splits] if task.best is None else [splits[:1], splits[1:]]:
        for (fold, _, held_out), (model, prediction) in zip(part, _fit_folds(task, fit, part), strict=True):
            out_of_fold[held_out] = prediction
            models.append(model)
            if fold == 0:
                task.check_help(prediction, held_out)
    return StackMember(tuple(models), out_of_fold)


def _fit_folds(task: Task, fit: FitFold, splits: list[tuple[int, Index, Index]]) -> Iterable[tuple[Model, Array]]:
    if not task.spread:
        return (_fit_fold(task, fit, *split) for split in splits)
    # Arrays are sent as copies: those that joblib maps into memory are read-only.
    parallel = joblib.Parallel(n_jobs=task.jobs, max_nbytes=None)
    with one_thread():
        return list(
            parallel(joblib.delayed(_fit_in_worker)(*_part_of_fold(task, split[0]), fit, *split) for split in splits)
        )


def _fit_fold(task: Task, fit: FitFold, fold: int, train: Index, held_out: Index) -> tuple[Model, Array]:
    if fold > 0:
        task.check_time()
    model = fit(task, fold, train, held_out)
    return model, model(task.table.view(fold, held_out))


def _part_of_fold(task: Task, fold: int) -> tuple[Task, float, int]:
    """Return the part of a task that one fold needs, the seconds until the deadline, and the id of this process."""
    smooth = [view if number == fold else torch.empty(0) for number, view in enumerate(task.table.smooth)]
    part = replace(task, table=replace(task.table, smooth=smooth), threads=1, spread=False)
    return part, task.deadline - time.monotonic(), os.getpid()


def _fit_in_worker(task: Task, seconds: float, sender: int, fit: FitFold, *split: Any) -> tuple[Model, Array]:
    task = replace(task, deadline=time.monotonic() + seconds)  # clocks of other machines differ
    with nullcontext() if os.getpid() == sender else one_thread():
        return _fit_fold(task, fit, *split)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread inside, so that rounding does not depend on the number of jobs."""
    before = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
