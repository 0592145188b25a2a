r"""How far off rows are: boosted trees learn the size of residuals, and a t, skewed if need be, their tails.

The likelihood of a residual r under a normal of variance v is that of r² under a Gamma of mean v, up to constants: so
trees with the Gamma's deviance learn the scale, and :math:`\log \sigma(x) = b + g \log \hat\sigma(x)` with the degrees
of freedom and the skew of a t is fitted to what they say of rows that they had not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from likely._solvers.selection import held_out_gain
from likely._typing import Array
from likely.functional import skew_student_t_nll
from likely.tabular.members._task import Member, Table, Task
from likely.tabular.members.boosting import Growth, fit_boosting

FAR = 5.0  # scales from which a residual counts no further for the trees: the t's tails are for those
NEAR = 1e-2  # the same from below: a row that is hit exactly is luck
LEAST, MOST = 2.0, 200.0  # degrees of freedom: with fewer there is no variance, with more it is a normal
STEEPEST = 0.75  # of what trees say of the square: more than the half that makes a scale, for they shrink it
ASKEW = 1.5  # the largest skew, either way
MARGIN = 2.0  # standard errors of the gain that a skew must bring
FLOOR = 1e-9  # of the target's spread: a smaller scale is a perfect fit
ROWS = 100_000  # that few numbers are found by
FAMILIES = ("normal", "student_t", "skew_student_t")
GROWTH = Growth(leaves=8, least=20, share=0.7, ridge=5.0, rounds=300, patience=20)


@dataclass(frozen=True)
class Shape:
    """The distribution of residuals in units that vary with the row."""

    df: float
    shift: float
    gain: float
    skew: float


@dataclass(frozen=True)
class Noise:
    """The scale of each row's residual, and the shape of all."""

    trees: Member | None  # none: one scale for all rows
    shape: Shape
    blind: Array  # the log scale of every training row, by trees that have not seen it
    nll: Array  # of every training row

    def log_scale(self, fold: int, table: Table) -> Array:
        """(rows,), by the trees of one fold."""
        told = 0.0 if self.trees is None else self.trees.models[fold](table.view(fold))[:, 0]
        return self.shape.shift + self.shape.gain * told + np.zeros(len(table.plain))


def learn_noise(
    task: Task, residual: Array, family: str = "auto", varying: bool = True, weight: Array | None = None
) -> Noise:
    """From residuals of rows that were not seen; ``task`` has what may tell their size.

    ``weight`` is that of rows for the tails, where it is not the task's: rows that nobody believes are part of these.
    """
    trees, told = None, np.zeros_like(residual)
    weight = task.weight if weight is None else weight
    if varying:
        shift = find_shape(residual, None, task.weight, "student_t").shift
        square = np.square(np.clip(np.abs(residual) * np.exp(-shift), NEAR, FAR))
        growth = replace(GROWTH, least=max(GROWTH.least, len(residual) // 100))
        trees = fit_boosting(replace(task, target=square[:, None], link="gamma", best=None, deadline=np.inf), growth)
        told = trees.blind[:, 0]
    families = ("student_t", "skew_student_t") if family == "auto" else (family,)
    shapes = [find_shape(residual, told if varying else None, weight, own) for own in families]
    losses = [nll_of(residual, told, shape) for shape in shapes]
    best = 0
    if len(shapes) > 1 and held_out_gain(losses[0] - losses[1], weight).sure(MARGIN) > 0:
        best = 1
    return Noise(trees, shapes[best], shapes[best].shift + shapes[best].gain * told, losses[best])


def find_shape(residual: Array, log_square: Array | None, weight: Array, family: str) -> Shape:
    """The likeliest shape of a family, and shift and gain of the log scale."""
    step = -(-len(residual) // ROWS)
    r, mass = torch.as_tensor(residual[::step]), torch.as_tensor(weight[::step] / weight[::step].sum())
    told = torch.zeros_like(r) if log_square is None else torch.as_tensor(log_square[::step])

    def cost(at: Array) -> tuple[float, Array]:
        parameters = torch.as_tensor(at).requires_grad_()
        loss = (_nll(r, told, LEAST + parameters[0].exp(), *parameters[1:]) * mass).sum()
        (slope,) = torch.autograd.grad(loss, parameters)
        return float(loss.detach()), slope.numpy()

    middle = np.log(max(float(np.sqrt(np.median(np.square(residual)))) * 1.4826, FLOOR))
    steep = (0.0, 0.0) if log_square is None else (0.0, STEEPEST)
    tails = (np.log(MOST),) * 2 if family == "normal" else (-3.0, np.log(MOST))
    askew = (-ASKEW, ASKEW) if family == "skew_student_t" else (0.0, 0.0)
    start = np.array([min(max(np.log(6.0), tails[0]), tails[1]), middle, steep[1] / 3, 0.0])
    bounds = [tails, (max(middle - 20, np.log(FLOOR)), middle + 20), steep, askew]
    found = minimize(cost, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    return Shape(LEAST + float(np.exp(found[0])), *(float(own) for own in found[1:]))


def nll_of(residual: Array, log_square: Array, shape: Shape) -> Array:
    """Of each row."""
    own = (torch.as_tensor(np.float64(value)) for value in (shape.df, shape.shift, shape.gain, shape.skew))
    return np.asarray(_nll(torch.as_tensor(residual), torch.as_tensor(log_square), *own))


def mean_distance(df: Tensor) -> Tensor:
    """The mean of |t|."""
    gammas = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2)
    return 2 * (df / torch.pi).sqrt() / (df - 1) * gammas.exp()


def _nll(residual: Tensor, told: Tensor, df: Tensor, shift: Tensor, gain: Tensor, skew: Tensor) -> Tensor:
    """Of residuals about the mean."""
    log_scale = shift + gain * told
    scale = log_scale.exp()
    mode = -2 * torch.sinh(skew) * mean_distance(df) * scale
    return skew_student_t_nll(mode, residual, df=df, skew=skew, scale=scale, reduction="none", validate_args=False)
