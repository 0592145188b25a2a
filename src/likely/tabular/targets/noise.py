r"""The distribution of residuals: a Student's t, skewed if need be, with a scale that boosted trees predict.

The likelihood of a residual r under a normal of variance v is that of r² under a Gamma of mean v, up to constants: so
trees with the Gamma's deviance learn the scale, and :math:`\log \sigma(x) = b + g \log \hat\sigma(x)` with the degrees
of freedom and the skew of a t is fitted to their out-of-fold predictions :math:`\log \hat\sigma`.
"""

from dataclasses import astuple, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from likely._numerics.significance import held_out_gain
from likely._typing import Array
from likely.functional import skew_student_t_nll
from likely.tabular.members.estimators import Growth, fit_boosting
from likely.tabular.members.task import MemberTable, StackMember, Task, minimised

MAX_RESIDUAL = 5.0  # largest residual, in scales, that the trees learn from: the t's tails account for larger ones
MIN_RESIDUAL = 1e-2  # smallest residual that the trees learn from: an exact prediction is chance
MIN_DF, MAX_DF = 2.0, 200.0  # degrees of freedom: with fewer there is no variance, with more it is a normal
MAX_GAIN = 0.75  # largest gain: above ½, which turns a log square into a log scale, because trees shrink
FITTED = 6  # numbers fitted to the same residuals, which are smaller for it: a scale, a shape, weights of members
FEW_ROWS = 100  # fewer rows show neither a skew nor that a scale varies; with more, FITTED matters little
MAX_SKEW = 1.5  # largest skew, in absolute value
MIN_SCALE = 1e-9  # smallest scale, in spreads of the target: below it the fit is perfect
MAX_FIT_ROWS = 100_000  # largest number of rows for fitting a few parameters
FAMILIES = ("normal", "student_t", "skew_student_t")
# Without heavier tails than a normal's where residuals are logarithms, since these would leave the target no mean.
AUTOMATIC = {"auto": ("student_t", "skew_student_t"), "auto of logarithms": ("normal", "skew_normal")}
GROWTH = Growth(leaves=8, least=20, share=0.7, ridge=5.0, rounds=150, patience=10)


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

    trees: StackMember | None  # None: one scale for all rows
    shape: Shape
    out_of_fold: Array  # the log scale of each training row, from trees fitted without it
    nll: Array  # of each training row

    def log_scale(self, fold: int, table: MemberTable) -> Array:
        """Predict the log scale of each row, shape (rows,), by the trees of one fold."""
        log_square = 0.0 if self.trees is None else self.trees.models[fold](table.view(fold))[:, 0]
        return self.shape.shift + self.shape.gain * log_square + np.zeros(len(table.plain))


def learn_noise(
    task: Task, residual: Array, family: str = "auto", varying: bool = True, weight: Array | None = None
) -> Noise:
    """Learn the distribution of out-of-fold residuals."""
    trees, log_square = None, np.zeros_like(residual)
    weight = task.weight if weight is None else weight
    few = weight.sum() < FEW_ROWS
    varying = varying and not few
    if varying:
        shift = fit_shape(residual, None, task.weight, "student_t").shift
        square = np.square(np.clip(np.abs(residual) * np.exp(-shift), MIN_RESIDUAL, MAX_RESIDUAL))
        trees = fit_squares(task, square)
        log_square = trees.out_of_fold[:, 0]
    families = AUTOMATIC.get(family, (family,))[: 1 if few else None]
    shapes = [fit_shape(residual, log_square if varying else None, weight, name) for name in families]
    losses = [nll_of(residual, log_square, shape) for shape in shapes]
    best = 0
    if len(shapes) > 1 and held_out_gain(losses[0] - losses[1], weight).sure() > 0:
        best = 1
    return Noise(trees, shapes[best], shapes[best].shift + shapes[best].gain * log_square, losses[best])


def fit_squares(task: Task, square: Array) -> StackMember:
    """Fit trees to the squares of standardized residuals, by the deviance of the Gamma."""
    growth = replace(GROWTH, least=max(GROWTH.least, len(square) // 100))
    return fit_boosting(replace(task, target=square[:, None], link="gamma", best=None, deadline=np.inf), growth)


def fit_shape(residual: Array, log_square: Array | None, weight: Array, family: str) -> Shape:
    """Fit the shape of a family, and shift and gain of the log scale, by maximum likelihood."""
    step = -(-len(residual) // MAX_FIT_ROWS)
    r, mass = torch.as_tensor(residual[::step]), torch.as_tensor(weight[::step] / weight[::step].sum())
    predicted = torch.zeros_like(r) if log_square is None else torch.as_tensor(log_square[::step])
    rows = float(weight.sum())

    def cost(parameters: Tensor) -> Tensor:
        return (_nll(r, predicted, MIN_DF + parameters[0].exp(), *parameters[1:]) * mass).sum()

    middle = np.log(max(float(np.sqrt(np.median(np.square(residual)))) * 1.4826, MIN_SCALE))
    gain = (0.0, 0.0) if log_square is None else (0.0, MAX_GAIN)
    tails = (np.log(MAX_DF),) * 2 if family.endswith("normal") else (-3.0, np.log(min(MAX_DF, rows)))
    skew = (-MAX_SKEW, MAX_SKEW) if family.startswith("skew") else (0.0, 0.0)
    start = np.array([min(max(np.log(6.0), tails[0]), tails[1]), middle, gain[1] / 3, 0.0])
    bounds = [tails, (max(middle - 20, np.log(MIN_SCALE)), middle + 20), gain, skew]
    optimum = minimised(cost, start, bounds)
    if rows < FEW_ROWS:
        optimum[1] += 0.5 * np.log(rows / max(rows - FITTED, 1))
    return Shape(MIN_DF + float(np.exp(optimum[0])), *(float(value) for value in optimum[1:]))


def nll_of(residual: Array, log_square: Array, shape: Shape) -> Array:
    """Return the NLL of each row."""
    parameters = (torch.as_tensor(np.float64(value)) for value in astuple(shape))
    return np.asarray(_nll(torch.as_tensor(residual), torch.as_tensor(log_square), *parameters))


def mean_distance(df: Tensor) -> Tensor:
    """Return the mean of |t|."""
    gammas = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2)
    return 2 * (df / torch.pi).sqrt() / (df - 1) * gammas.exp()


def _nll(residual: Tensor, log_square: Tensor, df: Tensor, shift: Tensor, gain: Tensor, skew: Tensor) -> Tensor:
    """Return the NLL of residuals from the mean, which a skew moves away from the mode."""
    log_scale = shift + gain * log_square
    scale = log_scale.exp()
    mode = -2 * torch.sinh(skew) * mean_distance(df) * scale
    return skew_student_t_nll(mode, residual, df=df, skew=skew, scale=scale, reduction="none", validate_args=False)
