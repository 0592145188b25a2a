"""Targets as steps that are alike in the middle and factors far out, and the units that are mistaken for each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from likely._typing import Array

_FAR = 1e150  # further out is not told apart, so that squares and ratios stay finite
UNITS = (0.1, 10.0, 0.01, 100.0, 0.001, 1000.0, -1.0)  # factors that bring a target with a wrong unit, or sign, back


@dataclass(frozen=True)
class Squash:
    """y ↦ asinh((y - median) / spread): nearly linear in the middle, logarithmic far out.

    A target with a wrong unit is then a few steps away instead of thousands, and a factor is a step.

    >>> squash = Squash.of(np.array([1.0, 2.0, 3.0, 4.0, 3000.0]))
    >>> squash(np.array([3.0, 3000.0])).round(1), squash.back(squash(np.array([7.0]))).round(6)
    (array([0. , 8.3]), array([7.]))
    """

    centre: float
    spread: float

    @classmethod
    def of(cls, y: Array) -> Squash:
        """By the median and the median deviation."""
        y = np.clip(y, -_FAR, _FAR)
        centre = float(np.median(y))
        spread = 1.4826 * float(np.median(np.abs(y - centre)))
        return cls(centre, max(spread or float(np.std(y)) or 1.0, 1 / _FAR))

    def __call__(self, y: Array) -> Array:
        return np.arcsinh((np.clip(y, -_FAR, _FAR) - self.centre) / self.spread)

    def back(self, u: Array) -> Array:
        """The target that is u when squashed."""
        return np.asarray(np.sinh(u) * self.spread + self.centre)

    def times(self, u: Array, factor: float) -> Array:
        """The squashed targets after the targets were multiplied.

        >>> squash = Squash(100.0, 10.0)
        >>> squash.back(squash.times(squash(np.array([50.0])), 10.0)).round(6)
        array([500.])
        """
        return self(self.back(u) * factor)

    def log_stretch(self, u: Array, mended: Array, factor: float) -> Array:
        """The logarithm of how much faster ``mended = times(u, factor)`` grows than u."""
        return np.asarray(_log_cosh(u) - _log_cosh(mended) + np.log(abs(factor)))


def _log_cosh(u: Array) -> Array:
    return np.logaddexp(u, -u) - np.log(2.0)
