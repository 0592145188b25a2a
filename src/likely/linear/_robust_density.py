"""The densities of a residual that robust regression accepts, and the weights they give to rows in least squares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from likely._typing import Array
from likely.likelihoods import LIKELIHOODS, Residuals

SYMMETRIC = {name: likelihood.residuals for name, likelihood in LIKELIHOODS.items() if likelihood.residuals}


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
        """Return the density of that name; a shape of None is learned, where the density has one."""
        if likelihood not in SYMMETRIC:
            raise ValueError(f"likelihood must be one of {', '.join(SYMMETRIC)}; got {likelihood!r}")
        residuals = SYMMETRIC[likelihood]
        if residuals.shape is None:
            return cls(likelihood)
        if shape is None:
            return cls(likelihood, residuals.start, learn=True)
        lowest = 0.0 if LIKELIHOODS[likelihood].loss.slots[residuals.shape].zero_allowed else np.finfo(float).tiny
        if not lowest <= shape <= residuals.largest:
            raise ValueError(f"shape must be between 0 and {residuals.largest:g} for {likelihood!r}, got {shape}")
        return cls(likelihood, float(shape))

    @property
    def residuals(self) -> Residuals:
        """The density's entry in the registry."""
        return SYMMETRIC[self.likelihood]

    def nll(self, residual: Array, scale: Array | float) -> Array:
        """Return minus the log density of each residual."""
        return self._nll(residual, scale, self.shape)

    def _nll(self, residual: Array, scale: Array | float, shape: Array | float) -> Array:
        target = torch.from_numpy(residual)
        parameters = {"scale": torch.as_tensor(scale, dtype=target.dtype)}
        if self.residuals.shape is not None:
            parameters[self.residuals.shape] = torch.as_tensor(shape, dtype=target.dtype)
        nll = LIKELIHOODS[self.likelihood].nll
        return nll(target.new_zeros(()), target, **parameters, reduction="none", validate_args=False).numpy()

    def loss(self, z: Array) -> Array:
        """Return the NLL without its constants, which expectation–maximisation needs often and for few rows."""
        return self.residuals.loss(z, self.shape)

    def weight(self, z: Array) -> Array:
        """Return the slope of the loss over z: a row's weight in the least squares whose parabola touches the loss."""
        return self.residuals.weight(z, self.shape)

    def refitted(self, residual: Array, scale: Array | float, weight: Array) -> Density:
        """Return the same density at the shape that makes these residuals likeliest; itself if no shape is learned."""
        if not self.learn:
            return self
        shapes = np.append(self.residuals.shapes, self.shape)
        costs = self._nll(residual, scale, shapes[:, None]) @ weight
        return replace(self, shape=float(shapes[costs.argmin()]))

    def distribution(self, loc: Tensor, scale: Tensor) -> Distribution:
        """Return the density as a torch distribution, around ``loc`` at ``scale``."""
        phi = {"scale": scale}
        if self.residuals.shape is not None:
            phi[self.residuals.shape] = torch.full_like(loc, self.shape)
        return LIKELIHOODS[self.likelihood].loss(validate_args=False).distribution_of(loc, phi)

    @property
    def deviation(self) -> float:
        """The standard deviation at scale one; infinite where the tails are too heavy."""
        return self.residuals.deviation(self.shape)

    @property
    def information(self) -> float:
        """The Fisher information of log σ in one residual."""
        return _information(self)


@lru_cache(maxsize=64)
def _information(density: Density) -> float:
    z = np.sinh(np.linspace(-12, 12, 2001))
    mass = np.exp(-density.nll(z, 1.0)) * np.cosh(np.arcsinh(z))
    slope = 1 - density.weight(z) * z * z
    return float((mass * slope**2).sum() / mass.sum())
