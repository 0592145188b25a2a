r"""The fit of a likelihood parameter that is linear in features, with a ridge learned by evidence.

Row :math:`i` has a negative log-likelihood :math:`\ell_i(u_i)` with :math:`u_i = b + x_i \cdot w`, and the prior is
:math:`w_j \sim N(0, 1/\lambda)` on standardised features. Fisher scoring approximates each :math:`\ell_i` by a
parabola, for which :class:`~likely._solvers.ridge.Ridge` chooses :math:`\lambda`. Where the evidence does not support a
varying :math:`u` the result is exactly :math:`w = 0`, :math:`\lambda = \infty`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import linalg
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from likely._rows.blocks import Rows, moments
from likely._solvers.ridge import Ridge
from likely._typing import Array

Evaluate = Callable[[slice, Tensor], tuple[Tensor, Tensor, Tensor]]
_SAMPLE_ROWS = 5000  # rows of the first fit
_MAX_INTERCEPT_STEP = 100.0  # maximum change of the intercept in one step


class Solution(NamedTuple):
    """u = intercept + ((x - mean) / deviation) · coef."""

    mean: Array
    deviation: Array
    coef: Array
    intercept: float
    precision: float  # λ of the prior; ∞ where coef is zero
    n_iter: int

    def __call__(self, features: Tensor) -> Tensor:
        """Return u of every row."""
        slope = self.coef / self.deviation
        if not slope.any():
            return torch.full_like(features[:, 0], self.intercept)
        weights = torch.as_tensor(slope, dtype=features.dtype, device=features.device)
        return features @ weights + (self.intercept - float(self.mean @ slope))


def fit_linear(
    features: Rows,
    evaluate: Evaluate,
    *,
    rate: float = 0.0,
    quasi: bool = True,
    penalty: str | float | None = "evidence",
    sample_weight: Array | None = None,
    directions: int = 0,
    max_iter: int = 50,
    tol: float = 1e-6,
) -> Solution:
    """Minimise Σ ℓ(b + x·w) + λ/2 |w|² and choose λ by evidence.

    Long tables are first fitted on a regular sample of their rows, after which about two passes over all rows suffice.
    """
    weight = np.ones(len(features)) if sample_weight is None else sample_weight
    mean, deviation = moments(features, weight)
    design = _Design(features, mean, deviation, weight, directions if penalty == "evidence" else 0)
    state = _State(np.zeros(design.width), 0.0, math.inf if penalty == "evidence" else float(penalty or 0.0))
    ridge = Ridge(design.spread, rate) if penalty == "evidence" else None
    stride = max(1, len(features) // max(_SAMPLE_ROWS, 4 * design.width))
    stages = [(stride, 100 * tol), (1, tol)] if stride > 1 else [(1, tol)]
    n_iter = 0
    for step, enough in stages:
        # Variation explained by an effect is no longer noise, so the dispersion is then estimated again.
        for again in range(2 if ridge and quasi else 1):
            if ridge and quasi and not design.temper(evaluate, state, step) and again:
                break
            n_iter += _score(design, evaluate, state, ridge, step, max_iter, enough)
    if ridge and math.isfinite(state.precision):
        # The parabolas select the ridge; whether it improves on w = 0 is decided by the losses themselves.
        base = design.loss(evaluate, np.zeros(design.width), 0.0)
        if base - state.penalised(design.loss(evaluate, state.w, state.b)) <= ridge.cost(state.values, state.precision):
            state = _State(np.zeros(design.width), 0.0, math.inf)
    return Solution(mean, deviation, design.back(state.w), float(state.b), float(state.precision), n_iter)


@dataclass
class _State:
    """The state of the scoring."""

    w: Array
    b: float
    precision: float
    values: Array = field(default_factory=lambda: np.zeros(0))  # the curvature's eigenvalues, last seen
    radius: float = 2.0  # how far log λ may move at once
    direction: float = 0.0

    def move(self, precision: float) -> None:
        """Set a new precision. Each change of direction halves the radius, so that log λ cannot oscillate for ever."""
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
    ridge: Ridge | None,
    stride: int,
    max_iter: int,
    tol: float,
) -> int:
    """Run Fisher scoring from ``state``, in place, on every ``stride``-th row; return the number of passes."""
    best, step_w, step_b, iteration = math.inf, np.zeros_like(state.w), 0.0, 0
    while iteration < max_iter:
        iteration += 1
        here = design.expanded(evaluate, state.w, state.b, stride)
        overshot = state.penalised(here.loss) > best + 1e-10 * abs(best)
        if overshot and np.abs(step_w).max(initial=abs(step_b)) > 1e-10:
            step_w, step_b = 0.5 * step_w, 0.5 * step_b
            state.w, state.b = state.w - step_w, state.b - step_b
            continue
        state.values, vectors, response = here.diagonalised(state.w)
        if ridge:
            state.move(ridge.best(state.values, response, around=state.precision, radius=state.radius))
        best = state.penalised(here.loss)
        step_w = vectors @ _shrunk(response, state.values, state.precision) - state.w
        # Where labels are noise the loss is flat in the intercept, and one step could overflow.
        step_b = -(here.slope_b + float(here.cross @ step_w)) / here.mass
        step_b = min(max(step_b, -_MAX_INTERCEPT_STEP), _MAX_INTERCEPT_STEP)
        state.w, state.b = state.w + step_w, state.b + step_b
        curvature = state.values + (state.precision if math.isfinite(state.precision) else 0.0)
        gain = curvature @ (vectors.T @ step_w) ** 2 + here.mass * (step_b + here.cross @ step_w / here.mass) ** 2
        # The next step would gain a thousandth of this one.
        if 0.5 * gain <= tol * design.total:
            break
        del here, vectors  # matrices that would be held while the next ones are summed up
    return iteration


def _shrunk(response: Array, values: Array, precision: float) -> Array:
    if not math.isfinite(precision):
        return np.zeros_like(response)
    # Without a penalty, directions in which the data do not vary stay zero, as with a pseudo-inverse.
    floor = values.max(initial=0.0) * len(values) * np.finfo(float).eps
    safe = np.where(values + precision > floor, values + precision, np.inf)
    return response / safe


@dataclass
class _Parabola:
    """The loss at (w, b), its slopes and its expected curvature: sums over rows."""

    loss: float
    slope_w: Array
    slope_b: float
    gram: Tensor  # curvature in w
    cross: Array  # between w and b
    mass: float  # in b

    def diagonalised(self, w: Array) -> tuple[Array, Array, Array]:
        """Return eigenvalues and eigenvectors of the parabola in w alone, and the response along these.

        The Gram matrix is overwritten.
        """
        # The intercept is profiled out: it has no prior.
        cross = torch.as_tensor(self.cross)
        self.gram.addr_(cross, cross, alpha=-1 / self.mass)
        hessian = self.gram.numpy().T  # symmetric, and in the order that LAPACK can overwrite
        pull = hessian @ w - (self.slope_w - self.cross * (self.slope_b / self.mass))
        values, vectors = linalg.eigh(hessian, overwrite_a=True)
        return values.clip(min=0), vectors, vectors.T @ pull


class _Design:
    """The standardised features; rotated onto their span where they are more than the rows, or their leading part."""

    def __init__(self, features: Rows, mean: Array, deviation: Array, weight: Array, directions: int) -> None:
        self.counts, self.total = torch.as_tensor(weight), float(weight.sum())
        self.dispersion: float | None = None
        n, d = features.shape
        self.rotation: Array | None = None
        self.spread = float(d)
        few = 0 < directions < d
        if few or d >= n:
            some = slice(0, n, max(1, n // _SAMPLE_ROWS) if few else 1)
            x = (features[some].double().cpu().numpy() - mean) / deviation * np.sqrt(weight[some])[:, None]
            _, sizes, axes = randomized_svd(x, min(directions, len(x)) if few else n, n_iter=2, random_state=0)
            self.rotation = axes[sizes > sizes[0] * n * np.finfo(float).eps].T
            self.spread = float(sizes @ sizes / weight[some].sum())
        self.width = d if self.rotation is None else self.rotation.shape[1]

        def standardised(_: Any, x: Tensor) -> Tensor:
            x = (x - torch.as_tensor(mean).to(x)) / torch.as_tensor(deviation).to(x)
            return x if self.rotation is None else x @ torch.as_tensor(self.rotation).to(x)

        self.features = features.mapped(standardised, self.width)
        if few and n <= _SAMPLE_ROWS:
            self.features = Rows(self.features.whole())

    def back(self, w: Array) -> Array:
        return w if self.rotation is None else self.rotation @ w

    def weight(self, rows: Any) -> Tensor:
        """Return the weights of some rows, over the dispersion."""
        counts: Tensor = self.counts[rows]
        return counts if self.dispersion is None else counts / self.dispersion

    def evaluated(self, evaluate: Evaluate, w: Array, b: float, rows: Any) -> tuple[Tensor, Any]:
        """Return the features of some rows, and what ``evaluate`` returns for them at (w, b)."""
        x = self.features[rows]
        return x, evaluate(rows, x @ torch.as_tensor(w).to(x) + b)

    def loss(self, evaluate: Evaluate, w: Array, b: float) -> float:
        """Return the loss alone."""

        def loss_of(rows: Any) -> float:
            x, (losses, _, _) = self.evaluated(evaluate, w, b, rows)
            return float((losses * self.weight(rows).to(x)).double().sum())

        return self.features.total(loss_of)

    def temper(self, evaluate: Evaluate, state: _State, stride: int) -> bool:
        """Divide the likelihood by its dispersion; return whether that changed it enough to fit again.

        The dispersion is the variance of the slopes relative to the curvature. Under the true model the two agree.
        Where the slopes vary more, something the model lacks moves them, which the evidence would attribute to any
        features there are. Dividing by the excess (quasi-likelihood) treats it as noise.
        """

        def sums(rows: Any) -> tuple[float, float]:
            _, (_, slope, curvature) = self.evaluated(evaluate, state.w, state.b, rows)
            weight = self.counts[rows].to(slope)
            return float((weight * slope.square()).double().sum()), float((weight * curvature).double().sum())

        squares, curvatures = self.features.total(sums, stride=stride)
        dispersion = max(1.0, squares / curvatures) if curvatures > 0 else 1.0
        changed = self.dispersion is None or dispersion < 0.95 * self.dispersion
        if changed:
            self.dispersion = dispersion
        return changed

    def expanded(self, evaluate: Evaluate, w: Array, b: float, stride: int) -> _Parabola:
        """Return the parabola at (w, b), in one pass over the rows, each standing for ``stride`` of them."""

        def sums(rows: Any) -> tuple[Any, ...]:
            x, terms = self.evaluated(evaluate, w, b, rows)
            weight = stride * self.weight(rows).to(x)
            losses, slope, curvature = (t.to(x) * weight for t in terms)  # logits may be wider than the features
            numbers = (float(term.double().sum()) for term in (losses, slope, curvature))
            slopes = ((term @ x).double().cpu().numpy() for term in (slope, curvature))
            return *numbers, *slopes, (x.T @ (curvature[:, None] * x)).double()

        loss, slope_b, mass, slope_w, cross, gram = self.features.total(sums, stride=stride)
        return _Parabola(loss, slope_w, slope_b, gram.cpu(), cross, max(mass, np.finfo(float).tiny))
