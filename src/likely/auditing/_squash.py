"""Numbers in robust units in which a factor is a step."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

_FAR = 1e150  # further out is not told apart, so that squares and ratios stay finite


class Squash(NamedTuple):
    """asinh of robust deviations from the median: nearly linear in the middle, logarithmic far out.

    >>> squash = Squash.of(np.array([1.0, 2.0, 3.0, 4.0, 3000.0]))
    >>> squash(np.array([3.0, 3000.0])).round(1).tolist()
    [0.0, 8.3]
    """

    centre: float
    spread: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Self:
        """The median, and 1.48 times the median deviation from it."""
        seen = np.clip(values[~np.isnan(values)], -_FAR, _FAR)
        if not len(seen):
            return cls(0.0, 1.0)
        centre = float(np.median(seen))
        off = np.abs(seen - centre)
        return cls(centre, max(1.4826 * float(np.median(off)) or float(np.mean(off)) or 1.0, 1 / _FAR))

    def __call__(self, values: Any) -> Any:
        return np.arcsinh((np.clip(values, -_FAR, _FAR) - self.centre) / self.spread)
