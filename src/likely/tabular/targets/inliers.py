"""Gross errors in the targets: rows far from the prediction of the others are left out, where that helps the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from likely._solvers.selection import held_out_gain
from likely._typing import Array
from likely.tabular.members.boosting import Growth, fit_boosting
from likely.tabular.members.task import StackMember, Task
from likely.tabular.targets.noise import Noise, learn_noise, nll_of

GROSS_SCALES = 5.0  # residual, in scales, above which a target may be a gross error
MAX_ROUNDS = 3  # a gross error can hide another, which the next round finds
MARGIN = 2.0  # standard errors by which the remaining rows must gain
MAX_TREE_ROWS = 50_000  # largest number of rows that the trees learn from
GROWTH = Growth(rate=0.1, leaves=16, rounds=200, patience=15)


def find_inliers(task: Task) -> tuple[NDArray[np.bool_], Array | None]:
    """Find gross errors in the targets, by boosted trees that are quick to fit.

    A heavy tail of correct targets is no reason to leave rows out: they are left out only where a fit without them
    predicts the remaining rows better than the fit with them, by more than the standard error.
    """
    task = replace(task, folds=task.folds % 2, deadline=np.inf)
    sample = task.subsample(-(-len(task.folds) // MAX_TREE_ROWS))
    inliers, member, noise = _find_inliers(sample)
    if sample is task:
        return inliers, member.out_of_fold
    if inliers.all():
        return np.ones(len(task.folds), dtype=bool), None
    prediction: Array = np.empty(task.target.shape)
    log_scale = np.empty(len(prediction))
    for fold, _, held_out in task.splits():
        view = task.table.view(fold, held_out)
        prediction[held_out] = member.models[fold](view)
        log_scale[held_out] = noise.shape.shift
        if noise.trees is not None:
            log_scale[held_out] += noise.shape.gain * noise.trees.models[fold](view)[:, 0]
    return np.abs(task.target - prediction)[:, 0] <= GROSS_SCALES * np.exp(log_scale), None


def _find_inliers(task: Task) -> tuple[NDArray[np.bool_], StackMember, Noise]:
    target = task.target[:, 0]

    def fit(inliers: NDArray[np.bool_]) -> tuple[StackMember, Array]:
        member = fit_boosting(task.of_inliers(inliers), GROWTH)
        return member, target - member.out_of_fold[:, 0]

    inliers: NDArray[np.bool_] = np.ones(len(target), dtype=bool)
    member, residual = fit(inliers)
    noise = learn_noise(task, residual, "student_t")
    for _ in range(MAX_ROUNDS):
        near = np.abs(residual) <= GROSS_SCALES * np.exp(noise.out_of_fold)
        if (near == inliers).all():
            break
        new_member, new_residual = fit(near)
        if not is_better(task, near, noise, new_residual):
            break
        inliers, member, residual = near, new_member, new_residual
        noise = learn_noise(task.of_inliers(inliers), residual, "student_t")
    return inliers, member, noise


def is_better(task: Task, near: NDArray[np.bool_], noise: Noise, residual: Array) -> bool:
    """Whether a fit to the rows ``near`` alone predicts them better, with certainty, than the fit to all rows."""
    log_square = noise.trees.out_of_fold[:, 0] if noise.trees is not None else np.zeros_like(residual)
    gain = noise.nll - nll_of(residual, log_square, noise.shape)
    shared = near & (task.weight > 0)
    return bool(held_out_gain(gain[shared], task.weight[shared]).sure(MARGIN) > 0)
