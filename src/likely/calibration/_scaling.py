r"""Affine maps of the logits, a step beyond temperatures: vector and structured matrix scaling.

With the fitted global temperature :math:`T_0` and :math:`x`, the logits over :math:`T_0` less their mean in the row,
the calibrated logits are

.. math:: z / T_0 + \delta \circ x + b + W x.

All zeros is Global Scaling, the point the ridges pull towards. δ, b and W each have a ridge of their own whose
strength maximises the evidence under a penalised-complexity prior. There
:math:`\lambda_g |\theta_g|^2 = \gamma_g + \text{rate} \sqrt{k_g / \lambda_g}`, with :math:`\gamma_g` of the group's
:math:`k_g` parameters determined by the data. Few parameters are fitted by Newton's method on the written-out
Hessian; many by L-BFGS, with a Hessian that is a Kronecker product to precondition it and to count γ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg, optimize
from torch import Tensor

from likely._rows.blocks import Rows
from likely.calibration._base import Calibrator
from likely.calibration._inverse import fit_inverse_temperature

Vector = NDArray[np.float64]
# Nats a unit of spread costs, as for the temperatures: chosen on LeNet-5, SVHN and the two cleanlab sets, where
# 1 lets a split of 250 rows lose .008 and 4 gives away a tenth of the gain at 2,500.
RATE = 2.0
_FLOOR = -100.0  # a class at e⁻¹⁰⁰ of the best is ruled out, and -∞ becomes a number
_BLOCK = 2**19  # numbers a block: several temporaries of a block live at once
_DENSE = 450  # at most so many parameters have their Hessian written out
_NONE, _NEVER = 1e-6, 1e7  # penalties that are none, and that leave nothing


class VectorScaling(Calibrator):
    r"""Vector Scaling (VS; with its learned ridges, structured vector scaling, SVS): a factor and a bias a class.

    The calibrated logits are :math:`z / T_0 + \delta \circ x + b`, with x the centred logits over the global
    temperature. ``penalty="evidence"`` learns one ridge for δ and one for b; a number sets both; ``None`` is Guo's
    unregularised method. Unlike a temperature, it may change which class is on top.

    >>> import numpy as np
    >>> from likely.calibration import GlobalTemperature, VectorScaling
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 2000)
    >>> logits = 3 * np.eye(3)[y] + 2 * rng.normal(size=(2000, 3)) + [4, 0, 0]    # too fond of class 0
    >>> VectorScaling().fit(logits, y).bias_.round()
    array([-2.,  1.,  1.])
    """

    _matrix = False

    def __init__(self, *, penalty: str | float | None = "evidence", inputs: str = "logits") -> None:
        super().__init__(inputs=inputs)
        self.penalty = penalty

    def _fit(
        self, logits: Rows, y: NDArray[np.int64], features: Rows | None, weight: NDArray[np.float64] | None
    ) -> None:
        if isinstance(self.penalty, str) and self.penalty != "evidence":
            raise ValueError(f"penalty must be 'evidence', None or a number ≥ 0, got {self.penalty!r}")
        inverse = fit_inverse_temperature(logits, y, weight).value
        problem = _Problem(logits, y, weight, inverse, self._matrix)
        dense = problem.size <= _DENSE
        theta, strengths = (_newton if dense else _lbfgs)(problem, self.penalty)
        classes = self.n_classes_
        self.global_temperature_ = 1 / inverse
        self.factors_ = 1 + theta[:classes]
        # A constant added to all biases changes nothing.
        self.bias_ = theta[classes : 2 * classes] - theta[classes : 2 * classes].mean()
        self.mixing_ = theta[2 * classes :].reshape(-1, classes)
        self.precision_ = np.where(strengths >= _NEVER, np.inf, strengths)

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        tempered = logits / self.global_temperature_
        x = _centred(tempered)
        shift = x * torch.as_tensor(self.factors_ - 1).to(x) + torch.as_tensor(self.bias_).to(x)
        return tempered + (torch.addmm(shift, x, torch.as_tensor(self.mixing_.T).to(x)) if self.mixing_.size else shift)


class StructuredMatrixScaling(VectorScaling):
    r"""Structured Matrix Scaling (SMS): vector scaling and a matrix W that lets classes inform each other.

    As :class:`VectorScaling`, with :math:`W x` added under a ridge of its own (Berta, Holzmüller, Jordan and Bach,
    2025, fix the three strengths; here they are learned). A number as ``penalty`` goes to δ and b, and C - 1
    times that number to W, as there.

    >>> import numpy as np
    >>> from likely.calibration import StructuredMatrixScaling, VectorScaling
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, 4000)
    >>> evidence = 3 * np.eye(4)[y] + 2 * rng.normal(size=(4000, 4))
    >>> logits = evidence + 0.8 * np.roll(evidence, 1, axis=1)                 # each class leaks into the next
    >>> fitted = [c.fit(logits, y) for c in (VectorScaling(), StructuredMatrixScaling())]
    >>> [round(float((c.predict(logits) == y).mean()), 2) for c in fitted]
    [0.52, 0.71]
    """

    _matrix = True


def _centred(tempered: Tensor) -> Tensor:
    shifted = (tempered - tempered.amax(1, keepdim=True)).clamp(min=_FLOOR)
    return shifted - shifted.mean(1, keepdim=True)


@dataclass
class _Problem:
    """The softmax NLL of θ = (δ, b, W) and its derivatives, in passes over blocks of rows."""

    logits: Rows
    y: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    inverse: float
    matrix: bool

    def __post_init__(self) -> None:
        self.classes = self.logits.shape[1]
        sizes = [self.classes, self.classes] + ([self.classes**2] if self.matrix else [])
        self.size = sum(sizes)
        self.group = np.repeat(np.arange(len(sizes)), sizes)
        self.sizes = np.array(sizes, dtype=float)

    def strengths(self, penalty: float) -> Vector:
        """A strength a group: W has a parameter for every class where δ and b have one."""
        return penalty * np.array([1, 1] + ([self.classes - 1] if self.matrix else []), dtype=float)

    def blocks(self, width: int) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        step = max(1, _BLOCK // width)
        for start in range(0, len(self.logits), step):
            rows = slice(start, min(start + step, len(self.logits)))
            z = self.logits[rows] * self.inverse
            labels = torch.as_tensor(self.y[rows], device=z.device)
            weight = torch.ones(len(z)) if self.weight is None else torch.as_tensor(self.weight[rows])
            # A row whose own class is ruled out has an infinite NLL under every θ, and tells nothing of it.
            possible = z.gather(1, labels[:, None])[:, 0].isfinite()
            z = torch.where(possible[:, None], z, 0.0)
            yield z, _centred(z), labels, weight.to(z) * possible

    def probabilities(self, theta: Vector, z: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        c = self.classes
        t = torch.as_tensor(theta).to(x)
        u = torch.addcmul(z + t[c : 2 * c], x, t[:c])
        if self.matrix:
            u = torch.addmm(u, x, t[2 * c :].view(c, c).T)
        log_p = torch.log_softmax(u, 1)
        return log_p, log_p.exp()

    def value(self, theta: Vector) -> tuple[float, Vector]:
        """The NLL and its gradient."""
        loss, slope, c = 0.0, np.zeros(self.size), self.classes
        for z, x, labels, weight in self.blocks(4 * c):
            log_p, residual = self.probabilities(theta, z, x)
            loss -= float(log_p.gather(1, labels[:, None])[:, 0].double() @ weight.double())
            residual.scatter_add_(1, labels[:, None], -torch.ones_like(residual[:, :1]))
            residual *= weight[:, None]
            slope[c : 2 * c] += residual.sum(0).double().cpu().numpy()
            slope[:c] += (residual * x).sum(0).double().cpu().numpy()
            if self.matrix:
                slope[2 * c :] += (residual.T @ x).ravel().double().cpu().numpy()
        return loss, slope

    def hessian(self, theta: Vector) -> Vector:
        """Σ Jᵀ (diag p - p pᵀ) J: what is diagonal in the classes, less the Gram matrix of pᵀJ."""
        c, total = self.classes, np.zeros((self.size, self.size))
        wide = self.size
        for z, x, _, weight in self.blocks(3 * wide):
            z, x, weight = z.double(), x.double(), weight.double()
            p = self.probabilities(theta, z, x)[1]
            q = torch.cat([p * x, p] + ([(p[:, :, None] * x[:, None, :]).flatten(1)] if self.matrix else []), 1)
            total -= (q.T @ (weight[:, None] * q)).cpu().numpy()
            q *= weight[:, None]
            # Classes meet only in the Gram matrix: class by class, the design is (x_c, 1, x).
            for k in range(c):
                own = [k, c + k, *range(2 * c + k * c, 2 * c + (k + 1) * c)] if self.matrix else [k, c + k]
                design = torch.stack([x[:, k], torch.ones_like(x[:, k])] + (list(x.T) if self.matrix else []))
                total[np.ix_(own, own)] += ((design * (weight * p[:, k])) @ design.T).cpu().numpy()
        return total

    def factors(self, theta: Vector) -> tuple[Vector, Vector, Vector]:
        """Diagonal curvature of (δ, b), and eigenvalues and vectors of a Kronecker-factored one for W."""
        c = self.classes
        diagonal, gram = np.zeros(2 * c), np.zeros((c, c) if self.matrix else (0, 0))
        for z, x, _, weight in self.blocks(4 * c):
            p = self.probabilities(theta, z, x)[1]
            mass = (p - p.square()) * weight[:, None]
            diagonal[c:] += mass.sum(0).double().cpu().numpy()
            diagonal[:c] += (mass * x.square()).sum(0).double().cpu().numpy()
            if self.matrix:
                gram += (x.T @ (mass.mean(1)[:, None] * x)).double().cpu().numpy()
        if not self.matrix:
            return diagonal, np.zeros(0), gram
        values, vectors = linalg.eigh(gram)
        share = diagonal[c:] / max(diagonal[c:].mean(), np.finfo(float).tiny)
        return np.concatenate([diagonal, np.outer(share, values.clip(min=0)).ravel()]), values, vectors


def _newton(problem: _Problem, penalty: str | float | None, max_iter: int = 30) -> tuple[Vector, Vector]:
    learned = penalty == "evidence"
    strengths = problem.strengths(2.0 * problem.classes if learned else max(float(penalty or 0), _NONE))
    theta = np.zeros(problem.size)
    loss, slope = problem.value(theta)
    for _ in range(max_iter):
        hessian = problem.hessian(theta)
        response = hessian @ theta - slope
        if learned:
            strengths = _most_evident(hessian, response, problem, strengths)
        ridge = strengths[problem.group]
        goal = linalg.solve(hessian + np.diag(ridge), response, assume_a="pos")
        goal[ridge >= _NEVER] = 0.0
        step, before = goal - theta, loss + 0.5 * ridge @ theta**2
        for _ in range(20):
            loss, slope = problem.value(theta + step)
            if loss + 0.5 * ridge @ (theta + step) ** 2 <= before + 1e-9 * (1 + abs(before)):
                break
            step *= 0.5
        theta = theta + step
        if np.abs(step).max() < 1e-5:
            break
    return theta, strengths


def _most_evident(hessian: Vector, response: Vector, problem: _Problem, start: Vector) -> Vector:
    """The strengths that maximise the evidence of the quadratic problem."""

    def cost(log_strengths: Vector) -> tuple[float, Vector]:
        strengths = np.exp(log_strengths)
        ridge = strengths[problem.group]
        factor = linalg.cho_factor(hessian + np.diag(ridge), lower=True)
        inverse = linalg.cho_solve(factor, np.eye(len(ridge)))
        mean = inverse @ response
        value = np.log(np.diag(factor[0])).sum() - 0.5 * np.log(ridge).sum() - 0.5 * response @ mean
        determined = problem.sizes - strengths * np.bincount(problem.group, np.diag(inverse))
        price = RATE * np.sqrt(problem.sizes / strengths)
        slope = 0.5 * (strengths * np.bincount(problem.group, mean**2) - determined - price)
        return float(value + price.sum()), slope

    low, high = math.log(1e-3), math.log(_NEVER)
    begin = np.log(start).clip(low, high - 6)  # at the top the evidence is flat, and a search would stay there
    found = optimize.minimize(
        cost, begin, jac=True, method="L-BFGS-B", bounds=[(low, high)] * len(begin), options={"ftol": 1e-10}
    ).x
    # Beyond every eigenvalue a ridge leaves nothing, and the search stops on the plateau.
    ceiling = math.log(1e3 * max(float(np.diag(hessian).max()), 1.0))
    return np.exp(np.where(found > min(ceiling, high - 1e-3), high, found))


def _lbfgs(problem: _Problem, penalty: str | float | None, rounds: int = 8) -> tuple[Vector, Vector]:
    learned = penalty == "evidence"
    strengths = problem.strengths(2.0 * problem.classes if learned else max(float(penalty or 0), _NONE))
    c, theta = problem.classes, np.zeros(problem.size)

    for turn in range(rounds if learned else 1):
        curvature, _, vectors = problem.factors(theta)
        ridge = strengths[problem.group]
        scale = 1 / np.sqrt(curvature + ridge)

        def natural(phi: Vector, scale: Vector = scale, vectors: Vector = vectors) -> Vector:
            out = phi * scale
            if problem.matrix:
                out[2 * c :] = (out[2 * c :].reshape(c, c) @ vectors.T).ravel()
            return out

        def objective(
            phi: Vector, scale: Vector = scale, vectors: Vector = vectors, ridge: Vector = ridge
        ) -> tuple[float, Vector]:
            theta = natural(phi)
            loss, slope = problem.value(theta)
            slope += ridge * theta
            if problem.matrix:
                slope[2 * c :] = (slope[2 * c :].reshape(c, c) @ vectors).ravel()
            return loss + 0.5 * float(ridge @ theta**2), slope * scale

        start = theta.copy()
        if problem.matrix:
            start[2 * c :] = (start[2 * c :].reshape(c, c) @ vectors).ravel()
        exact = not learned or turn == rounds - 1
        options = {"maxcor": 10 if problem.size < 1e5 else 2, "maxiter": 100 if exact else 10, "gtol": 1e-3}
        theta = natural(optimize.minimize(objective, start / scale, jac=True, method="L-BFGS-B", options=options).x)
        if exact:
            break
        determined = np.bincount(problem.group, curvature / (curvature + ridge))
        price = RATE * np.sqrt(problem.sizes / strengths)
        new = ((determined + price) / np.bincount(problem.group, theta**2).clip(min=1e-300)).clip(1e-3, _NEVER)
        if np.abs(np.log(new / strengths)).max() < 0.05:
            break
        strengths = new
    theta[strengths[problem.group] >= _NEVER] = 0.0
    return theta, strengths
