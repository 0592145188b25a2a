"""The densities of a residual that robust regression can start from, and how each reweights least squares."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, Laplace, Normal

from likely._typing import Array
from likely.distributions import Robust, StudentT
from likely.functional import laplace_nll, normal_nll, robust_nll, robust_rho, student_t_nll

LIKELIHOODS = ("normal", "laplace", "student_t", "robust")
# Shapes that are tried where the shape is learned: degrees of freedom, and Barron's α from the Cauchy to the normal.
_SHAPES = {"student_t": np.geomspace(0.5, 64, 15), "robust": np.linspace(0, 2, 21)}
_START = {"student_t": 4.0, "robust": 1.0}


@dataclass(frozen=True)
class Density:
    r"""A symmetric density of :math:`z = r / \sigma` whose loss grows no faster than a parabola.

    ``shape`` is Student's degrees of freedom or Barron's α, and ``learn`` lets :meth:`refitted` choose it.

    >>> from likely.linear._robust_density import Density
    >>> Density.of("student_t", 4.0).weight(np.array([0.0, 4.0]))
    array([1.25, 0.25])
    """

    likelihood: str
    shape: float = 0.0
    learn: bool = False

    @classmethod
    def of(cls, likelihood: str, shape: float | None = None) -> Density:
        """The density of that name; a shape that is None is learned, where there is one."""
        if likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {', '.join(LIKELIHOODS)}; got {likelihood!r}")
        if likelihood not in _SHAPES:
            return cls(likelihood)
        if shape is not None and not (shape > 0 or (shape == 0 and likelihood == "robust")):
            raise ValueError(f"shape must be positive, got {shape}")
        if shape is not None and likelihood == "robust" and shape > 2:
            raise ValueError(f"shape must be from 0 to 2 for the robust likelihood, got {shape}")
        return cls(likelihood, _START[likelihood] if shape is None else float(shape), shape is None)

    def nll(self, residual: Array, scale: Array | float) -> Array:
        """Minus the log density of each residual."""
        return self._nll(residual, scale, self.shape)

    def _nll(self, residual: Array, scale: Array | float, shape: Array | float) -> Array:
        target, sigma = torch.from_numpy(residual), torch.as_tensor(scale, dtype=torch.double)
        origin, free = target.new_zeros(()), torch.as_tensor(shape, dtype=target.dtype)
        if self.likelihood == "normal":
            nll = normal_nll(origin, target, scale=sigma, reduction="none", validate_args=False)
        elif self.likelihood == "laplace":
            nll = laplace_nll(origin, target, scale=sigma, reduction="none", validate_args=False)
        elif self.likelihood == "student_t":
            nll = student_t_nll(origin, target, df=free, scale=sigma, reduction="none", validate_args=False)
        else:
            nll = robust_nll(origin, target, alpha=free, scale=sigma, reduction="none", validate_args=False)
        return nll.numpy()

    def loss(self, z: Array) -> Array:
        """The NLL less its constants. Expectation–maximisation asks for little else, often and of few rows."""
        if self.likelihood == "normal":
            return 0.5 * z * z
        if self.likelihood == "laplace":
            return np.abs(z)
        if self.likelihood == "student_t":
            return 0.5 * (self.shape + 1) * np.log1p(z * z / self.shape)
        return robust_rho(torch.from_numpy(z), alpha=self.shape).numpy()

    def weight(self, z: Array) -> Array | float:
        """The slope of the loss over z: what a row weighs in the least squares whose parabola touches the loss."""
        if self.likelihood == "normal":
            return 1.0
        if self.likelihood == "laplace":
            return 1 / np.maximum(np.abs(z), 1e-4)
        if self.likelihood == "student_t":
            return (self.shape + 1) / (self.shape + z * z)
        width = max(2 - self.shape, 1e-8)
        return (z * z / width + 1) ** (-width / 2)

    def refitted(self, residual: Array, scale: Array | float, weight: Array) -> Density:
        """The same density at the shape that makes these residuals likeliest."""
        if not self.learn:
            return self
        shapes = np.append(_SHAPES[self.likelihood], self.shape)
        costs = self._nll(residual, scale, shapes[:, None]) @ weight
        return replace(self, shape=float(shapes[costs.argmin()]))

    def distribution(self, loc: Tensor, scale: Tensor) -> Distribution:
        """Return the density as a torch distribution, around ``loc`` at ``scale``."""
        if self.likelihood == "normal":
            return Normal(loc, scale)
        if self.likelihood == "laplace":
            return Laplace(loc, scale)
        if self.likelihood == "student_t":
            return StudentT(torch.full_like(loc, self.shape), loc, scale)
        return Robust(torch.full_like(loc, self.shape), loc, scale)

    @property
    def deviation(self) -> float:
        """The standard deviation at scale one; infinite where the tails are too heavy."""
        if self.likelihood == "student_t":
            return math.sqrt(self.shape / (self.shape - 2)) if self.shape > 2 else math.inf
        if self.likelihood == "robust":
            return math.sqrt(Robust(alpha=torch.tensor(self.shape), loc=0.0, scale=1.0).variance.item())
        return math.sqrt(2) if self.likelihood == "laplace" else 1.0

    @property
    def information(self) -> float:
        """The Fisher information of log σ: how sharply the scale shows in one residual."""
        return _information(self)


@lru_cache(maxsize=64)
def _information(density: Density) -> float:
    z = np.sinh(np.linspace(-12, 12, 2001))
    mass = np.exp(-density.nll(z, 1.0)) * np.cosh(np.arcsinh(z))
    slope = 1 - density.weight(z) * z * z
    return float((mass * slope**2).sum() / mass.sum())
