"""Which rows are believed: a target far off what the other rows say is left out, where that tells the others better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from likely._solvers.selection import held_out_gain
from likely._typing import Array
from likely.tabular._noise import Noise, learn_noise, nll_of
from likely.tabular.members._task import Member, Task
from likely.tabular.members.boosting import Growth, fit_boosting

FAR = 5.0  # scales off, from which a target is doubted
TURNS = 3  # of doubting, for doubtful rows hide each other
MARGIN = 2.0  # standard errors of the gain of the other rows
ROWS = 50_000  # that trees learn from to tell
GROWTH = Growth(rate=0.1, leaves=16, rounds=200, patience=15)


def believe(task: Task) -> tuple[NDArray[np.bool_], Array | None]:
    """Whether each row is believed, and what quick trees that have not seen it say of it, (rows, 1).

    Where there are many rows, the trees learn from some, and of the others nothing is said.

    Doubt is mutual where targets are wrong, and a heavy tail of right ones is no reason for it: rows are left out only
    where a fit without them tells the rows that nobody doubts better than the fit with them, surely.
    """
    task = replace(task, folds=task.folds % 2, deadline=np.inf)
    some = task.some(-(-len(task.folds) // ROWS))
    believed, member, noise = _believe(some)
    if some is task:
        return believed, member.blind
    if believed.all():
        return np.ones(len(task.folds), dtype=bool), None
    said: Array = np.empty(task.target.shape)
    log_scale = np.empty(len(said))
    for fold, _, held in task.splits():
        view = task.table.view(fold, held)
        said[held] = member.models[fold](view)
        log_scale[held] = noise.shape.shift
        if noise.trees is not None:
            log_scale[held] += noise.shape.gain * noise.trees.models[fold](view)[:, 0]
    return np.abs(task.target - said)[:, 0] <= FAR * np.exp(log_scale), None


def _believe(task: Task) -> tuple[NDArray[np.bool_], Member, Noise]:
    target = task.target[:, 0]

    def fit(believed: NDArray[np.bool_]) -> tuple[Member, Array]:
        member = fit_boosting(task.without(believed), GROWTH)
        return member, target - member.blind[:, 0]

    believed: NDArray[np.bool_] = np.ones(len(target), dtype=bool)
    member, residual = fit(believed)
    noise = learn_noise(task, residual, "student_t")
    for _ in range(TURNS):
        near = np.abs(residual) <= FAR * np.exp(noise.blind)
        if (near == believed).all():
            break
        other, others = fit(near)
        if not surely_better(task, near, noise, others):
            break
        believed, member, residual = near, other, others
        noise = learn_noise(task.without(believed), residual, "student_t")
    return believed, member, noise


def surely_better(task: Task, near: NDArray[np.bool_], noise: Noise, residual: Array) -> bool:
    """Whether residuals of a fit without the other rows are likelier than those the noise was learned from."""
    told = noise.trees.blind[:, 0] if noise.trees is not None else np.zeros_like(residual)
    gain = noise.nll - nll_of(residual, told, noise.shape)
    shared = near & (task.weight > 0)
    return bool(held_out_gain(gain[shared], task.weight[shared]).sure(MARGIN) > 0)
