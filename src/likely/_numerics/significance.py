"""Whether what was seen is more than chance: gains on held-out rows, and p-values of many tests."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from likely._typing import Array

SURE = 0.01  # the chance of a false alarm among all tests of a kind


class HeldOutGain(NamedTuple):
    """The sum of the gains of held-out rows, and the standard error of that sum."""

    total: float
    error: float

    def sure(self, margin: float = 2.0) -> float:
        """Return the part of the gain that exceeds ``margin`` standard errors; negative where there is none."""
        return self.total - margin * self.error

    @property
    def errors(self) -> float:
        """The gain in standard errors."""
        return self.total / self.error if self.error > 0 else math.copysign(math.inf, self.total)


def held_out_gain(gain: ArrayLike, weight: ArrayLike | None = None) -> HeldOutGain:
    """Sum the gains of held-out rows.

    Example:
        >>> gain = held_out_gain(np.array([0.4, 0.2, 0.3, 0.3]))
        >>> round(gain.total, 3), round(gain.error, 3), round(gain.sure(2.0), 3)
        (1.2, 0.141, 0.917)
    """
    values = np.asarray(gain, np.float64)
    counts = np.ones_like(values) if weight is None else np.asarray(weight)
    total = counts @ values
    mean = total / counts.sum()
    return HeldOutGain(float(total), float(np.sqrt(counts @ np.square(values - mean))))


def holm(p_values: ArrayLike) -> Array:
    """Correct p-values for their number (Holm 1979); NaN stands for a test that was not made, and stays NaN.

    >>> holm([0.01, 0.04, np.nan, 0.03])
    array([0.03, 0.06,  nan, 0.06])
    """
    p = np.asarray(p_values, np.float64)
    corrected = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return corrected
