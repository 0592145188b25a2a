"""Numbers of a column: their scale, the values it may hold, and the units that are mistaken for each other."""

from typing import Any, NamedTuple, Self

import numpy as np

from likely._typing import Array, Mask

_NORMAL = 3.82  # times the median deviation, the deviation that one normal value in a hundred exceeds
_LINEAR = 5.0  # deviations up to which differences are nearly kept where tails are light
_FAR = 1e150  # further out is not told apart, so that squares and ratios stay finite
_RULE = 0.97  # least share of values that are whole (or not negative) for that to be a rule of the column
_MOST = 5.0  # most nats that an exception to such a rule counts
# Factors that bring a value with a wrong unit, or sign, back, with their names.
FACTORS = {
    0.1: "÷10",
    10.0: "×10",
    0.001: "÷1,000",
    1000.0: "×1,000",
    -1.0: "the other sign",
    0.01: "÷100",
    100.0: "×100",
}


class AsinhScale(NamedTuple):
    """y ↦ k asinh((y - median) / (k spread)): nearly linear in the middle, logarithmic far out.

    A value with a wrong unit is then a few steps away instead of thousands, and a factor is a step.

    >>> scale = AsinhScale.of(np.array([1.0, 2.0, 3.0, 4.0, 3000.0]))
    >>> scale(np.array([3.0, 3000.0])).round(1).tolist(), scale.back(scale(np.array([7.0]))).round(6).tolist()
    ([0.0, 8.3], [7.0])
    """

    centre: float
    spread: float
    linear: float = 1.0  # k: the deviations at which the middle ends

    @classmethod
    def of(cls, values: Array, *, by_tails: bool = False) -> Self:
        """By the median and the median deviation of the values that are there.

        ``by_tails`` lets the middle end at five deviations where tails are light, so that sums stay sums.
        """
        seen = np.clip(values[~np.isnan(values)], -_FAR, _FAR)
        if not len(seen):
            return cls(0.0, 1.0)
        centre = float(np.median(seen))
        off = np.abs(seen - centre)
        usual = float(np.median(off))
        spread = max(1.4826 * usual or float(np.mean(off)) or 1.0, 1 / _FAR)
        if not by_tails:
            return cls(centre, spread)
        heavy = float(np.quantile(off, 0.99)) / (_NORMAL * usual) if usual > 0 else _LINEAR
        return cls(centre, spread, float(np.clip(_LINEAR / max(heavy, 1e-9) ** 2, 1.0, _LINEAR)))

    def __call__(self, values: Any) -> Any:
        """Return the values on this scale."""
        return self.linear * np.arcsinh((np.clip(values, -_FAR, _FAR) - self.centre) / (self.linear * self.spread))

    def back(self, u: Array) -> Array:
        """The value that is u on this scale."""
        return np.sinh(u / self.linear) * self.linear * self.spread + self.centre


class ColumnLimits(NamedTuple):
    """The range of a column, and how rare values in it are that are not whole, or that are negative.

    A tenth of a count of 7 is no count, and no percentage is negative.

    >>> counts = ColumnLimits.of(np.array([*range(100), 5.2]))
    >>> counts(np.array([52.0, 0.7, -7.0])).tolist(), counts.nats(np.array([52.0, 5.2])).round(1).tolist()
    ([True, False, False], [0.0, 4.2])
    """

    low: float
    high: float
    broken: float  # surprise, in nats, of a value that is not whole; zero where that is usual
    negative: float  # surprise, in nats, of a negative value

    @classmethod
    def of(cls, values: Array) -> Self:
        """Read the limits from the values of a column, NaN where one is missing."""
        seen = values[~np.isnan(values)]
        if not len(seen):
            return cls(0.0, 0.0, 0.0, 0.0)
        rules = list[float]()
        for exceptions in (_broken(seen).sum(), (seen < 0).sum()):
            surprise = min(-float(np.log((exceptions + 0.5) / (len(seen) + 1))), _MOST)
            rules.append(surprise if exceptions <= (1 - _RULE) * len(seen) else 0.0)
        return cls(float(seen.min()), float(seen.max()), *rules)

    def __call__(self, values: Array) -> Mask:
        """Whether the column may hold each value."""
        inside = (values >= self.low) & (values <= self.high)
        return inside & ~_broken(values) if self.broken else inside

    def nats(self, values: Array) -> Array:
        """How surprising it is, in nats, that each value is not whole, or negative."""
        return self.broken * _broken(values) + self.negative * (values < 0)


def _broken(values: Array) -> Mask:
    """Whether each value is not whole, but for rounding."""
    return np.abs(values - np.round(values)) > 1e-6 * np.maximum(1.0, np.abs(values) * 1e-3)
