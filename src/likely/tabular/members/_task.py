"""What a member of a stack is given to learn, and what it gives back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from likely._typing import Array, Index
from likely.tabular.members._glm import loss_of

MIXES = (0.1, 0.25, 0.5, 0.75, 1.0)  # shares of a new member beside the best one
WORTH = 2e-3  # share of the loss that one of them must save on the first fold


class OutOfTime(Exception):
    """The time is up before a member was whole."""


class NoHelp(Exception):
    """The first fold says that a member would not be heard."""


@dataclass(frozen=True)
class View:
    """Some rows as the model of one fold reads them."""

    plain: Array  # (rows, numbers): NaN where a value is missing, a category as the code of its level
    smooth: Tensor  # (rows, inputs): no gaps, standard units
    source: Any  # the table as it was given
    place: Index  # of each row in it

    @property
    def given(self) -> Any:
        """The rows as they were given."""
        return _safe_indexing(self.source, self.place)


@dataclass(frozen=True)
class Table:
    """Rows as members read them."""

    plain: Array
    smooth: Sequence[Tensor]  # for the model of each fold
    categories: tuple[int, ...]  # the numbers of ``plain`` that are categories
    source: Any
    place: Index

    def view(self, fold: int, rows: Index | None = None) -> View:
        """All rows, or some."""
        if rows is None:
            return View(self.plain, self.smooth[fold], self.source, self.place)
        smooth = self.smooth[fold]
        return View(self.plain[rows], smooth[torch.from_numpy(rows).to(smooth.device)], self.source, self.place[rows])


@dataclass(frozen=True)
class Task:
    """Rows to learn from, and the fold of each: the model of a fold learns from all rows but those of the fold.

    ``link`` says what a prediction means: ``"identity"`` the target itself, ``"log"`` the logarithm of its mean,
    ``"softmax"`` the logarithm of each class's probability, up to a constant, ``"gamma"`` as ``"log"`` for the
    squares of residuals.
    """

    table: Table
    target: Array  # (rows, outputs); for classes, indicators
    weight: Array
    folds: Index
    link: str
    random_state: int = 0
    threads: int = 1
    jobs: int | None = None  # folds that are fitted at once, as joblib counts them
    spread: bool = False  # whether joblib fits the folds, each on one thread
    deadline: float = np.inf  # on time.monotonic's clock
    best: Array | None = field(default=None, repr=False)  # what the best member so far said blindly

    @property
    def n_folds(self) -> int:
        """How many models a member has."""
        return int(self.folds.max()) + 1

    @property
    def outputs(self) -> int:
        """How many numbers are predicted for each row."""
        return self.target.shape[1]

    def splits(self) -> Iterator[tuple[int, Index, Index]]:
        """Each fold's number, the rows that its model learns from, and those of the fold."""
        for fold in range(self.n_folds):
            yield fold, np.flatnonzero((self.folds != fold) & (self.weight > 0)), np.flatnonzero(self.folds == fold)

    def losses(self, prediction: Array, rows: Index | slice = slice(None)) -> Array:
        """The loss of each of the predictions (rows, outputs), by the weight of its row."""
        own = loss_of(self.link)(torch.from_numpy(prediction), torch.from_numpy(self.target[rows])).numpy()
        weight = self.weight[rows]
        return own * weight / max(float(weight.mean()), 1e-300)

    def loss(self, prediction: Array) -> float:
        """The mean loss of predictions (rows, outputs)."""
        return float(self.losses(prediction).mean())

    def without(self, believed: NDArray[np.bool_]) -> Task:
        """The same where some rows do not count."""
        return replace(self, weight=self.weight * believed)

    def some(self, step: int) -> Task:
        """Every so many rows."""
        if step == 1:
            return self
        table = self.table
        part = Table(
            table.plain[::step],
            [own[::step] for own in table.smooth],
            table.categories,
            table.source,
            table.place[::step],
        )
        return replace(
            self, table=part, target=self.target[::step], weight=self.weight[::step], folds=self.folds[::step]
        )

    def having(self, target: Array, link: str) -> Task:
        """The same rows with another target."""
        return replace(self, target=target, link=link)

    def check_time(self) -> None:
        """Stop where the time is up."""
        if time.monotonic() > self.deadline:
            raise OutOfTime

    def check_help(self, said: Array, held: Index) -> None:
        """Stop where no mix of a new member with the best one is better than the best one alone."""
        if self.best is None:
            return
        best = self.best[held]
        alone = self.losses(best, held)
        gains = [alone - self.losses(best + share * (said - best), held) for share in MIXES]
        # Of classes that are told apart nearly always, a fold has a handful of rows that say anything: be generous.
        hope = [np.sqrt(np.square(gain - gain.mean()).sum()) if self.link == "softmax" else 0.0 for gain in gains]
        if max(gain.sum() + own for gain, own in zip(gains, hope, strict=True)) < WORTH * alone.sum():
            raise NoHelp


class Model(Protocol):
    """What one fold's model says of rows."""

    def __call__(self, view: View) -> Array:
        """Predictions of shape (rows, outputs)."""
        ...


@dataclass(frozen=True)
class Member:
    """The models of one kind, one for each fold, and what each said of the rows that it had not seen."""

    models: tuple[Model, ...]
    blind: Array  # (rows, outputs)

    def __call__(self, table: Table) -> Array:
        """Predictions of shape (folds, rows, outputs)."""
        return np.stack([model(table.view(fold)) for fold, model in enumerate(self.models)])


class FitFold(Protocol):
    """Fits one fold's model."""

    def __call__(self, task: Task, fold: int, learned: Index, held: Index) -> Model:
        """The model, from rows ``learned`` and judged on rows ``held``; of ``task`` it has this fold's view only."""
        ...


def cross_fit(task: Task, fit: FitFold) -> Member:
    """A model for each fold by ``fit(task, fold, learned, held)``, which may run in another process.

    Where there is a best member so far, the first fold comes before all others, which may not be worth their time.
    """
    blind = np.empty(task.target.shape)
    models = []
    splits = list(task.splits())
    for part in [splits] if task.best is None else [splits[:1], splits[1:]]:
        for (fold, _, held), (model, said) in zip(part, _fit_folds(task, fit, part), strict=True):
            blind[held] = said
            models.append(model)
            if fold == 0:
                task.check_help(said, held)
    return Member(tuple(models), blind)


def _fit_folds(task: Task, fit: FitFold, splits: list[tuple[int, Index, Index]]) -> Iterable[tuple[Model, Array]]:
    if not task.spread:
        return (_fit_fold(task, fit, *split) for split in splits)
    # Arrays travel as copies: those that joblib maps into memory cannot be written to.
    parallel = joblib.Parallel(n_jobs=task.jobs, max_nbytes=None)
    with one_thread():
        return list(parallel(joblib.delayed(_fit_apart)(*_packed(task, split[0]), fit, *split) for split in splits))


def _fit_fold(task: Task, fit: FitFold, fold: int, learned: Index, held: Index) -> tuple[Model, Array]:
    if fold > 0:
        task.check_time()
    model = fit(task, fold, learned, held)
    return model, model(task.table.view(fold, held))


def _packed(task: Task, fold: int) -> tuple[Task, float, int]:
    """What one fold reads of a task, the seconds that are left to it, and the process that it comes from."""
    smooth = [view if number == fold else torch.empty(0) for number, view in enumerate(task.table.smooth)]
    part = replace(task, table=replace(task.table, smooth=smooth), threads=1, spread=False)
    return part, task.deadline - time.monotonic(), os.getpid()


def _fit_apart(task: Task, left: float, sender: int, fit: FitFold, *split: Any) -> tuple[Model, Array]:
    task = replace(task, deadline=time.monotonic() + left)  # clocks of other machines differ
    with nullcontext() if os.getpid() == sender else one_thread():
        return _fit_fold(task, fit, *split)


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, this process computes on one thread per job, so that rounding does not depend on the number of jobs."""
    before = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
