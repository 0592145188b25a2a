r"""Affine maps of the logits, a step beyond temperatures: vector and structured matrix scaling.

With the fitted global temperature :math:`T_0` and :math:`x`, the logits over :math:`T_0` less their mean in the row,
the calibrated logits are

.. math:: z / T_0 + \delta \circ x + b + W x.

All zeros is Global Scaling, the point the ridges pull towards. δ, b and W each have a separate ridge whose
strength maximises the evidence under a penalised-complexity prior. There
:math:`\lambda_g |\theta_g|^2 = \gamma_g + \text{rate} \sqrt{k_g / \lambda_g}`, with :math:`\gamma_g` of the group's
:math:`k_g` parameters determined by the data. Few parameters are fitted by Newton's method on the written-out
Hessian; many by L-BFGS, with its diagonal to precondition the search and to count γ.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import linalg, optimize
from torch import Tensor

from likely._rows.blocks import Rows
from likely._typing import Array
from likely.calibration._calibrator import Calibrator, Labels
from likely.calibration._temperature import fit_inverse_temperature
from likely.likelihoods.softmax import softmax_slopes

# Nats that a unit of spread costs, as for the temperatures: chosen on LeNet-5, SVHN and the two cleanlab sets, where
# 1 lets a split of 250 rows lose .008 and 4 loses a tenth of the gain at 2,500.
RATE = 2.0
_FLOOR = -100.0  # a class at e⁻¹⁰⁰ of the best is excluded, and -∞ becomes finite
_BLOCK = 2**19  # numbers per block: several temporaries of a block exist at once
_DENSE = 450  # maximum number of parameters for which the Hessian is computed
_NONE, _NEVER = 1e-6, 1e7  # penalties that count as none, and as infinite


def centred(tempered: Tensor) -> Tensor:
    """Return logits less their mean in the row, after classes far below the best were brought up to e⁻¹⁰⁰."""
    shifted = (tempered - tempered.amax(1, keepdim=True)).clamp(min=_FLOOR)
    return shifted - shifted.mean(1, keepdim=True)


def affine(z: Tensor, x: Tensor, delta: Tensor, bias: Tensor, mixing: Tensor) -> Tensor:
    """Return z + δ ∘ x + b + W x, the last where W has any rows."""
    moved = torch.addcmul(z + bias, x, delta)
    return torch.addmm(moved, x, mixing.T) if len(mixing) else moved


@dataclass
class AffineProblem:
    """The softmax NLL of θ = (δ, b, W) and its derivatives, in passes over blocks of rows."""

    logits: Rows
    y: Labels
    weight: Array
    inverse: float
    matrix: bool

    def __post_init__(self) -> None:
        self.classes = self.logits.shape[1]
        sizes = [self.classes, self.classes] + ([self.classes**2] if self.matrix else [])
        self.size = sum(sizes)
        self.group = np.repeat(np.arange(len(sizes)), sizes)
        self.sizes = np.array(sizes, dtype=float)

    def block(self, rows: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return tempered logits, these centred, labels and weights of some rows."""
        z = self.logits[rows] * self.inverse
        labels, weight = torch.as_tensor(self.y[rows], device=z.device), torch.as_tensor(self.weight[rows])
        # A row whose true class is excluded has an infinite NLL under every θ, and no information on it.
        possible = z.gather(1, labels[:, None])[:, 0].isfinite()
        z = torch.where(possible[:, None], z, 0.0)
        return z, centred(z), labels, weight.to(z) * possible

    def calibrated(self, theta: Array, z: Tensor, x: Tensor) -> Tensor:
        """Return the logits at θ."""
        t, c = torch.as_tensor(theta).to(x), self.classes
        return affine(z, x, t[:c], t[c : 2 * c], t[2 * c :].view(-1, c))

    def value(self, theta: Array) -> tuple[float, Array]:
        """The NLL and its gradient."""
        c = self.classes

        def sums(rows: Any) -> tuple[float, Array]:
            z, x, labels, weight = self.block(rows)
            nll, residual = softmax_slopes(self.calibrated(theta, z, x), labels)
            residual *= weight[:, None]
            slopes = [(residual * x).sum(0), residual.sum(0)] + ([(residual.T @ x).ravel()] if self.matrix else [])
            return float(nll.double() @ weight.double()), torch.cat(slopes).double().cpu().numpy()

        return self.logits.total(sums, width=4 * c, numbers=_BLOCK)

    def hessian(self, theta: Array) -> Array:
        """Σ Jᵀ (diag p - p pᵀ) J: what is diagonal in the classes, less the Gram matrix of pᵀJ."""
        c = self.classes

        def sums(rows: Any) -> Array:
            z, x, _, weight = (part.double() for part in self.block(rows))
            p = torch.softmax(self.calibrated(theta, z, x), 1)
            q = torch.cat([p * x, p] + ([(p[:, :, None] * x[:, None, :]).flatten(1)] if self.matrix else []), 1)
            total: Array = -(q.T @ (weight[:, None] * q)).cpu().numpy()
            # Classes meet only in the Gram matrix: class by class, the design is (x_c, 1, x).
            for k in range(c):
                index = [k, c + k, *range(2 * c + k * c, 2 * c + (k + 1) * c)] if self.matrix else [k, c + k]
                design = torch.stack([x[:, k], torch.ones_like(x[:, k])] + (list(x.T) if self.matrix else []))
                total[np.ix_(index, index)] += ((design * (weight * p[:, k])) @ design.T).cpu().numpy()
            return total

        return self.logits.total(sums, width=3 * self.size, numbers=_BLOCK)

    def curvature(self, theta: Array) -> tuple[Array, Array]:
        """The diagonal of the Hessian, and its eigenvalues as those of a Kronecker product where there is a matrix."""
        c = self.classes

        def sums(rows: Any) -> tuple[Array, Array]:
            z, x, _, weight = self.block(rows)
            p = torch.softmax(self.calibrated(theta, z, x), 1)
            mass, squares = (p - p.square()) * weight[:, None], x.square()
            parts = [(mass * squares).sum(0), mass.sum(0)] + ([(mass.T @ squares).ravel()] if self.matrix else [])
            gram = x.T @ (mass.mean(1, keepdim=True) * x) if self.matrix else x.new_zeros(0, 0)
            return torch.cat(parts).double().cpu().numpy(), gram.double().cpu().numpy()

        diagonal, gram = self.logits.total(sums, width=4 * c, numbers=_BLOCK)
        share = diagonal[c : 2 * c] / max(diagonal[c : 2 * c].mean(), np.finfo(float).tiny)
        spectrum = np.outer(share, linalg.eigvalsh(gram).clip(min=0)).ravel() if self.matrix else gram.ravel()
        return diagonal, np.append(diagonal[: 2 * c], spectrum)


def _newton(problem: AffineProblem, strengths: Array, learned: bool, max_iter: int = 30) -> tuple[Array, Array]:
    """Newton's method on the written-out Hessian."""
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


def _most_evident(hessian: Array, response: Array, problem: AffineProblem, start: Array) -> Array:
    """The strengths that maximise the evidence of the quadratic problem."""

    def cost(log_strengths: Array) -> tuple[float, Array]:
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
    begin = np.log(start).clip(low, high - 6)  # near the upper end the evidence is flat, and a search would stay there
    best = optimize.minimize(
        cost, begin, jac=True, method="L-BFGS-B", bounds=[(low, high)] * len(begin), options={"ftol": 1e-10}
    ).x
    # Beyond every eigenvalue a ridge sets all to zero, and the search stops on the plateau.
    ceiling = math.log(1e3 * max(float(np.diag(hessian).max()), 1.0))
    return np.exp(np.where(best > min(ceiling, high - 1e-3), high, best))


def _lbfgs(problem: AffineProblem, strengths: Array, learned: bool, rounds: int = 8) -> tuple[Array, Array]:
    """Run rounds of L-BFGS, with strengths that each round learns from the one before; the last one is exact."""
    theta = np.zeros(problem.size)
    for turn in range(rounds):
        last = not learned or turn == rounds - 1
        ridge = strengths[problem.group]
        diagonal, spectrum = problem.curvature(theta)
        theta = _minimise(problem, theta, ridge, 1 / np.sqrt(diagonal + ridge), max_iter=100 if last else 10)
        if last:
            break
        determined = np.bincount(problem.group, spectrum / (spectrum + ridge))
        price = RATE * np.sqrt(problem.sizes / strengths)
        squares = np.bincount(problem.group, theta**2).clip(min=1e-300)
        learnt = ((determined + price) / squares).clip(1e-3, _NEVER)
        if np.abs(np.log(learnt / strengths)).max() < 0.05:
            break
        strengths = learnt
    theta[strengths[problem.group] >= _NEVER] = 0.0
    return theta, strengths


def _minimise(problem: AffineProblem, theta: Array, ridge: Array, scale: Array, max_iter: int) -> Array:
    """Return the θ of lowest loss under a ridge, starting from ``theta``, in units in which all curve alike."""

    def objective(phi: Array) -> tuple[float, Array]:
        loss, slope = problem.value(phi * scale)
        return loss + 0.5 * float(ridge @ (phi * scale) ** 2), (slope + ridge * phi * scale) * scale

    options = {"maxiter": max_iter, "gtol": 1e-3}
    return optimize.minimize(objective, theta / scale, jac=True, method="L-BFGS-B", options=options).x * scale


@dataclass(kw_only=True, eq=False, repr=False)
class VectorScaling(Calibrator):
    r"""Vector scaling (VS): a factor and a bias per class.

    The calibrated logits are :math:`z / T_0 + \delta \circ x + b`, with x the centred logits over the global
    temperature. With learned ridges it is structured vector scaling (SVS). Unlike a temperature it may change which
    class is the most probable.

    Args:
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.
        penalty: ridges on δ and b: ``"evidence"`` learns one for each, a number sets both, and None is Guo's
            unregularised method.

    Attributes:
        global_temperature_: the temperature :math:`T_0`.
        factors_: :math:`1 + \delta`, shape (C,).
        bias_: b, shape (C,), of mean zero.
        precision_: strength of each ridge.
        n_classes_: number C of classes.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import GlobalTemperature, VectorScaling
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 2000)
        >>> logits = 3 * np.eye(3)[y] + 2 * rng.normal(size=(2000, 3)) + [4, 0, 0]    # too fond of class 0
        >>> VectorScaling().fit(logits, y).bias_.round()
        array([-2.,  1.,  1.])

    See Also:
        :class:`StructuredMatrixScaling`, :class:`GlobalTemperature`; :func:`compose`, to follow it by a temperature.
    """

    _matrix = False

    penalty: str | float | None = "evidence"

    def _fit(self, logits: Rows, y: Labels, features: Rows | None, weight: Array) -> None:
        if isinstance(self.penalty, str) and self.penalty != "evidence":
            raise ValueError(f"penalty must be 'evidence', None or a number ≥ 0, got {self.penalty!r}")
        inverse = fit_inverse_temperature(logits, y, weight).value
        problem = AffineProblem(logits, y, weight, inverse, self._matrix)
        classes, learned = self.n_classes_, self.penalty == "evidence"
        strength = 2.0 * classes if learned else max(float(self.penalty or 0), _NONE)  # where the search starts, if any
        # W has a parameter for every class where δ and b have one.
        strengths = strength * np.array([1, 1, classes - 1][: len(problem.sizes)], dtype=float)
        # The Hessian is written out where it is small.
        theta, strengths = (_newton if problem.size <= _DENSE else _lbfgs)(problem, strengths, learned)
        self.precision_ = np.where(strengths >= _NEVER, np.inf, strengths)
        self.global_temperature_ = 1 / inverse
        self.factors_ = 1 + theta[:classes]
        # A constant added to all biases changes nothing.
        self.bias_ = theta[classes : 2 * classes] - theta[classes : 2 * classes].mean()
        self.mixing_ = theta[2 * classes :].reshape(-1, classes)  # without rows where there is no matrix

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        tempered = logits / self.global_temperature_
        x = centred(tempered)
        learned = (torch.as_tensor(part).to(x) for part in (self.factors_ - 1, self.bias_, self.mixing_))
        return affine(tempered, x, *learned)


class StructuredMatrixScaling(VectorScaling):
    r"""Structured matrix scaling (SMS): vector scaling plus a matrix W between classes.

    As :class:`VectorScaling`, with :math:`W x` added under a third ridge (Berta, Holzmüller, Jordan and Bach, 2025, fix
    the three strengths; here they are learned). The fitted W is ``mixing_``, shape (C, C).

    Args:
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.
        penalty: ridges: ``"evidence"`` learns the three, a number is the strength for δ and b and, times C - 1, for W,
            and None is no regularisation.

    Attributes:
        global_temperature_: the temperature :math:`T_0`.
        factors_: :math:`1 + \delta`, shape (C,).
        bias_: b, shape (C,), of mean zero.
        precision_: strength of each ridge.
        n_classes_: number C of classes.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import StructuredMatrixScaling, VectorScaling
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 4, 4000)
        >>> evidence = 3 * np.eye(4)[y] + 2 * rng.normal(size=(4000, 4))
        >>> logits = evidence + 0.8 * np.roll(evidence, 1, axis=1)                 # each class leaks into the next
        >>> fitted = [c.fit(logits, y) for c in (VectorScaling(), StructuredMatrixScaling())]
        >>> [round(float((c.predict(logits) == y).mean()), 2) for c in fitted]
        [0.52, 0.71]

    See Also:
        :class:`VectorScaling`, without the matrix.
    """

    _matrix = True
