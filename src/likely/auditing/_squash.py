"""Numbers in robust units in which a factor is a step."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

_NORMAL = 3.82  # times the median deviation, the deviation that one normal value in a hundred exceeds
_LINEAR = 5.0  # deviations up to which differences are nearly kept where tails are light
_FAR = 1e150  # further out is not told apart, so that squares and ratios stay finite


class Squash(NamedTuple):
    """asinh of robust deviations from the median: nearly linear in the middle, logarithmic far out.

    Where tails are heavy the middle ends at one deviation, where they are light at five: there sums stay sums.

    >>> squash = Squash.of(np.array([1.0, 2.0, 3.0, 4.0, 3000.0]))
    >>> squash(np.array([3.0, 3000.0])).round(1).tolist()
    [0.0, 8.3]
    """

    centre: float
    spread: float
    linear: float = 1.0

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Self:
        """The median, 1.48 times the median deviation from it, and how many of these are the middle."""
        seen = np.clip(values[~np.isnan(values)], -_FAR, _FAR)
        if not len(seen):
            return cls(0.0, 1.0)
        centre = float(np.median(seen))
        off = np.abs(seen - centre)
        usual = float(np.median(off))
        spread = max(1.4826 * usual or float(np.mean(off)) or 1.0, 1 / _FAR)
        heavy = float(np.quantile(off, 0.99)) / (_NORMAL * usual) if usual > 0 else _LINEAR
        return cls(centre, spread, float(np.clip(_LINEAR / max(heavy, 1e-9) ** 2, 1.0, _LINEAR)))

    def __call__(self, values: Any) -> Any:
        return self.linear * np.arcsinh((np.clip(values, -_FAR, _FAR) - self.centre) / (self.linear * self.spread))
