r"""One solver: a likelihood parameter linear in features, its ridge learned by evidence.

Row :math:`i` has a negative log-likelihood :math:`\ell_i(u_i)` with :math:`u_i = b + x_i \cdot w`, and the prior is
:math:`w_j \sim N(0, 1/\lambda)` on standardised features. Fisher scoring makes each :math:`\ell_i` a parabola; in
the eigenbasis of the weighted Gram matrix the evidence of every :math:`\lambda` is then a sum, so the best one is a
one-dimensional search over the whole line, not a fixed-point iteration that may end anywhere:

.. math:: \log p(\lambda) = \tfrac12 \sum_j \left(\frac{r_j^2}{e_j + \lambda} - \log(1 + e_j / \lambda)\right)
          - \text{rate} \cdot s - \tfrac12 (s / \text{scale})^2, \qquad s = \sqrt{d / \lambda}.

:math:`s` is how far the prior lets :math:`u` spread over the rows. Its own prior (exponential, half-normal, or both)
has its mode at the base model :math:`w = 0`: on few rows evidence alone overstates the spread, and that is what hurts.
Where no spread is worth its price the answer is :math:`w = 0` exactly, :math:`\lambda = \infty`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy import linalg, optimize
from torch import Tensor

from likely._rows.blocks import Rows, moments
from likely._typing import Array

Evaluate = Callable[[slice, Tensor], tuple[Tensor, Tensor, Tensor]]
_SAMPLE = 5000  # rows that a first fit is made on
_LEAP = 100.0  # the furthest that one step may move the intercept


@dataclass
class Solution:
    """u = intercept + ((x - mean) / deviation) · coef."""

    mean: Array
    deviation: Array
    coef: Array
    intercept: float
    precision: float  # λ of the prior; ∞ where the features are not worth using
    n_iter: int

    def __call__(self, features: Tensor) -> Tensor:
        """u of every row."""
        slope = self.coef / self.deviation
        if not slope.any():
            return features.new_full((len(features),), self.intercept)
        weights = torch.as_tensor(slope, dtype=features.dtype, device=features.device)
        return features @ weights + (self.intercept - float(self.mean @ slope))


def fit_linear(
    features: Rows,
    evaluate: Evaluate,
    *,
    rate: float = 0.0,
    scale: float = math.inf,
    quasi: bool = True,
    penalty: str | float | None = "evidence",
    sample_weight: Array | None = None,
    max_iter: int = 50,
    tol: float = 1e-6,
) -> Solution:
    """Minimise Σ ℓ(b + x·w) + λ/2 |w|² and choose λ by evidence (or take the number given; None is no penalty).

    ``evaluate(rows, u)`` returns ℓ, its slope and its expected curvature (Fisher information) in u for those rows.
    ``quasi`` divides the likelihood by its dispersion, for slopes that vary more than the model says. It stops after a
    step worth less than ``tol`` in the mean loss. Long tables are first fitted on a regular sample of their rows,
    which leaves two passes or so over all of them.
    """
    weight = np.ones(len(features)) if sample_weight is None else sample_weight
    mean, deviation = moments(features, weight)
    design = _Design(features, mean, deviation, weight)
    state = _State(np.zeros(design.width), 0.0, math.inf if penalty == "evidence" else float(penalty or 0.0))
    ridge = _Ridge(design.spread, rate, scale) if penalty == "evidence" else None
    stride = max(1, len(features) // max(_SAMPLE, 4 * design.width))
    stages = [(stride, 100 * tol), (1, tol)] if stride > 1 else [(1, tol)]
    n_iter = 0
    for step, enough in stages:
        # What an effect explains is no longer noise, so the dispersion is taken again once there is one.
        for again in range(2 if ridge and quasi else 1):
            if ridge and quasi and not design.temper(evaluate, state, step) and again:
                break
            n_iter += _score(design, evaluate, state, ridge, step, max_iter, enough)
    if ridge and math.isfinite(state.precision):
        # The parabolas chose among ridges; whether any is worth having is decided by the losses themselves.
        base = design.loss(evaluate, np.zeros(design.width), 0.0)
        if base - state.penalised(design.loss(evaluate, state.w, state.b)) <= ridge.cost(state.values, state.precision):
            state = _State(np.zeros(design.width), 0.0, math.inf)
    return Solution(mean, deviation, design.back(state.w), float(state.b), float(state.precision), n_iter)


@dataclass
class _State:
    w: Array
    b: float
    precision: float
    values: Array = field(default_factory=lambda: np.zeros(0))  # the curvature's eigenvalues, last seen
    radius: float = 2.0  # how far log λ may move at once
    direction: float = 0.0

    def move(self, precision: float) -> None:
        """Take a new precision. Each change of direction halves the radius, so that log λ cannot swing for ever."""
        if math.isfinite(self.precision) and math.isfinite(precision):
            direction = math.log(precision / self.precision)
            self.radius *= 0.5 if direction * self.direction < 0 else 1.0
            self.direction = direction
        self.precision = precision

    def penalised(self, loss: float) -> float:
        return loss + (0.5 * self.precision * float(self.w @ self.w) if math.isfinite(self.precision) else 0.0)


def _score(
    design: "_Design",
    evaluate: Evaluate,
    state: _State,
    ridge: "_Ridge | None",
    stride: int,
    max_iter: int,
    tol: float,
) -> int:
    """Fisher scoring from ``state``, in place, on every ``stride``-th row; the number of passes it took."""
    best, step_w, step_b, iteration = math.inf, np.zeros_like(state.w), 0.0, 0
    while iteration < max_iter:
        iteration += 1
        loss, slope_w, slope_b, gram, cross, mass = design.pass_over(evaluate, state.w, state.b, stride)
        if state.penalised(loss) > best + 1e-10 * abs(best) and np.abs(step_w).max(initial=abs(step_b)) > 1e-10:
            step_w, step_b = 0.5 * step_w, 0.5 * step_b
            state.w, state.b = state.w - step_w, state.b - step_b
            continue
        # The intercept is profiled out: it has no prior.
        gram.addr_(torch.as_tensor(cross), torch.as_tensor(cross), alpha=-1 / mass)
        hessian = gram.numpy().T  # symmetric, and in the order that LAPACK can overwrite
        pull = hessian @ state.w - (slope_w - cross * (slope_b / mass))
        values, vectors = linalg.eigh(hessian, overwrite_a=True)
        state.values = values.clip(min=0)
        response = vectors.T @ pull
        if ridge:
            state.move(ridge.best(state.values, response, around=state.precision, radius=state.radius))
        best = state.penalised(loss)
        step_w = vectors @ _shrunk(response, state.values, state.precision) - state.w
        # Where labels are noise the loss is flat in the intercept, and one step would leave the numbers there are.
        step_b = min(max(-(slope_b + float(cross @ step_w)) / mass, -_LEAP), _LEAP)
        state.w, state.b = state.w + step_w, state.b + step_b
        curvature = state.values + (state.precision if math.isfinite(state.precision) else 0.0)
        gain = curvature @ (vectors.T @ step_w) ** 2 + mass * (step_b + cross @ step_w / mass) ** 2
        # The next step would gain a thousandth of this one.
        if 0.5 * gain <= tol * design.total:
            break
    return iteration


@dataclass(frozen=True)
class _Ridge:
    """The prior of the weights' precision, and the precision of most evidence."""

    spread: float  # what s² is at precision one
    rate: float
    scale: float

    def cost(self, values: Array, precision: float) -> float:
        """What a ridge costs in nats: the volume of weights it opens, and the prior of their spread."""
        s = math.sqrt(self.spread / precision)
        return float(0.5 * np.log1p(values / precision).sum() + self.rate * s + 0.5 * (s / self.scale) ** 2)

    def best(
        self,
        values: Array,
        response: Array,
        *,
        around: float = math.inf,
        radius: float = 2.0,
    ) -> float:
        """The λ of most evidence for a parabola, ∞ if no finite one beats it; or the best in the vicinity of one.

        From w = 0 all of the line is searched. From elsewhere the parabola is no guide to what happens near zero.
        """
        top = float(values.max(initial=0.0))
        if top <= 0:
            return math.inf

        def loss(log_precision: float) -> float:
            precision = math.exp(log_precision)
            return self.cost(values, precision) - float(0.5 * (response**2 / (values + precision)).sum())

        if math.isfinite(around):
            bounds = (math.log(around) - radius, math.log(around) + radius)
        else:
            grid = np.linspace(math.log(top) - 16, math.log(top) + 12, 113)
            losses = [loss(x) for x in grid]
            k = int(np.argmin(losses))
            if losses[k] >= 0:
                return math.inf
            bounds = (grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)])
        return math.exp(optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6}).x)


def _shrunk(response: Array, values: Array, precision: float) -> Array:
    if not math.isfinite(precision):
        return np.zeros_like(response)
    # Without a penalty, directions the data does not see are left alone, as a pseudo-inverse does.
    floor = values.max(initial=0.0) * len(values) * np.finfo(float).eps
    safe = np.where(values + precision > floor, values + precision, np.inf)
    return response / safe


class _Design:
    """The standardised features, rotated onto their own span where there are more of them than rows."""

    def __init__(self, features: Rows, mean: Array, deviation: Array, weight: Array) -> None:
        self.features, self.mean, self.deviation = features, mean, deviation
        self.given, self.total = torch.as_tensor(weight), float(weight.sum())
        self.weight = self.given
        self.dispersion: float | None = None
        n, d = features.shape
        self.rotation: Array | None = None
        self.spread = float(d)
        if d >= n:
            x = (features[slice(0, n)].double().cpu().numpy() - mean) / deviation
            values, vectors = linalg.eigh(x @ x.T)
            kept = values > values[-1] * n * np.finfo(float).eps
            self.rotation = x.T @ (vectors[:, kept] / np.sqrt(values[kept]))
        self.width = d if self.rotation is None else self.rotation.shape[1]

    def block(self, rows: slice) -> Tensor:
        x = self.features[rows]
        x = (x - torch.as_tensor(self.mean).to(x)) / torch.as_tensor(self.deviation).to(x)
        return x if self.rotation is None else x @ torch.as_tensor(self.rotation).to(x)

    def back(self, w: Array) -> Array:
        return w if self.rotation is None else self.rotation @ w

    def evaluated(
        self, evaluate: Evaluate, w: Array, b: float, stride: int = 1
    ) -> Iterator[tuple[slice, Tensor, tuple[Tensor, Tensor, Tensor]]]:
        """Block by block: the rows, their features, and what ``evaluate`` says of them at (w, b)."""
        for rows in self.features.blocks(stride):
            x = self.block(rows)
            yield rows, x, evaluate(rows, x @ torch.as_tensor(w).to(x) + b)

    def loss(self, evaluate: Evaluate, w: Array, b: float) -> float:
        """The loss alone."""
        parts = self.evaluated(evaluate, w, b)
        return sum(float((each * self.weight[rows].to(x)).double().sum()) for rows, x, (each, _, _) in parts)

    def temper(self, evaluate: Evaluate, state: _State, stride: int) -> bool:
        """Divide the likelihood by its dispersion; whether that changed it enough to fit again.

        The dispersion is how much the slopes vary beyond what the curvature says. Under the true model the two agree.
        Where they do not, something the model misses moves the slopes, and evidence would take that for an effect of
        whatever features there are. Dividing by the excess (quasi-likelihood) prices it as noise.
        """
        squares = curvatures = 0.0
        for rows, _, (_, slope, curvature) in self.evaluated(evaluate, state.w, state.b, stride):
            weight = self.given[rows].to(slope)
            squares += float((weight * slope.square()).double().sum())
            curvatures += float((weight * curvature).double().sum())
        dispersion = max(1.0, squares / curvatures) if curvatures > 0 else 1.0
        changed = self.dispersion is None or dispersion < 0.95 * self.dispersion
        if changed:
            self.dispersion, self.weight = dispersion, self.given / dispersion
        return changed

    def pass_over(self, evaluate: Evaluate, w: Array, b: float, stride: int) -> tuple[Any, ...]:
        """Loss, slopes and curvature at (w, b), in one pass over the rows, each standing for ``stride`` of them."""
        loss = slope_b = mass = 0.0
        slope_w, cross = np.zeros(self.width), np.zeros(self.width)
        gram = torch.zeros((self.width, self.width), dtype=torch.float64, device=self.features.device)
        for rows, x, terms in self.evaluated(evaluate, w, b, stride):
            weight = stride * self.weight[rows].to(x)
            each, slope, curvature = (t.to(x) * weight for t in terms)  # logits may be wider than the features
            loss += float(each.double().sum())
            slope_b += float(slope.double().sum())
            mass += float(curvature.double().sum())
            slope_w += (slope @ x).double().cpu().numpy()
            cross += (curvature @ x).double().cpu().numpy()
            gram += x.T @ (curvature[:, None] * x)
        return loss, slope_w, slope_b, gram.cpu(), cross, max(mass, np.finfo(float).tiny)
