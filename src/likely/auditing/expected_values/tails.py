"""How rare a deviation is: a generalised Pareto tail fitted to deviations."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from likely._typing import Array

RARE = 3.0  # nats from which a value is rare: one in twenty has more
_BEYOND = 0.05  # share of the rows in the tail
_THINNEST = 0.3  # the least scale of a tail
_HEAVIEST = 0.5  # the greatest shape parameter; from here on the variance is infinite
_FEWEST = 10  # least number of deviations to which a tail is fitted
_ROWS = 2000  # weight, in rows, of the prior that the shape is zero


class Tail(NamedTuple):
    """A generalised Pareto tail beyond the 95% quantile, by three quantiles, which a few outliers do not move.

    Deviations of a heavy-tailed column are large and yet not rare.

    >>> rng = np.random.default_rng(0)
    >>> light, heavy = Tail.of(rng.normal(size=5000)), Tail.of(rng.standard_t(2, size=5000))
    >>> bool(light.nats(np.array(7.0)) > 12), bool(heavy.nats(np.array(7.0)) < 5)
    (True, True)
    """

    start: float
    scale: float
    shape: float
    share: float = 1.0  # share of the rows that deviate at all

    @classmethod
    def of(cls, deviations: Array, share: float = 1.0) -> Self:
        """Fit the upper tail of deviations; ``share`` is the share of the rows that deviate at all."""
        if len(deviations) < _FEWEST:  # too few to estimate how rare larger ones are
            return cls(0.5, np.inf, 0.0, share)
        start, middle, far = (float(np.quantile(deviations, 1 - _BEYOND / part)) for part in (1, 2, 4))
        near, next_one = middle - start, far - middle
        known = len(deviations) / (len(deviations) + _ROWS)
        # Each half of the tail is wider than the one before if it is heavier than an exponential.
        shape = known * float(min(np.log2(next_one / near), _HEAVIEST)) if next_one > near > 0 else 0.0
        growth = (2**shape - 1) / shape if shape > 1e-6 else float(np.log(2))
        return cls(max(start, 0.5), max(near / growth, _THINNEST), shape, share)

    def nats(self, deviations: Array) -> Array:
        """Minus the log of the share of deviations that are as large."""
        nats = np.asarray(-np.log(self.share) - np.log(_BEYOND) * np.clip(deviations / self.start, 0, 1))
        far = deviations > self.start
        beyond = (deviations[far] - self.start) / self.scale
        nats[far] += np.log1p(self.shape * beyond) / self.shape if self.shape > 1e-6 else beyond
        return nats


class Tails(NamedTuple):
    """The tails of a column on both sides: how rare a deviation is depends on its sign."""

    below: Tail
    above: Tail

    @classmethod
    def of(cls, deviations: Array, share: float = 1.0) -> Self:
        """Fit both tails of signed deviations; ``share`` is the share of the rows that deviate at all."""
        return cls(Tail.of(-deviations, share), Tail.of(deviations, share))

    def nats(self, deviations: Array) -> Array:
        """Minus the log of the share of deviations that are as large, on the same side.

        >>> tails = Tails.of(np.random.default_rng(0).exponential(size=5000))
        >>> tails.nats(np.array([-7.0, 7.0])).round().astype(int).tolist()
        [25, 7]
        """
        nats = self.above.nats(deviations)
        down = deviations < 0
        nats[down] = self.below.nats(-deviations[down])
        return nats


class ColumnTails(NamedTuple):
    """The tails of each column of numbers; a missing value, and the mode of a column, deviate by nothing.

    >>> z, none = np.random.default_rng(0).normal(size=(500, 1)), np.array([np.nan])
    >>> tails, some = ColumnTails.of(z, z, [False], none), np.array([[0.0], [1.0], [-9.0]])
    >>> tails.nats(some, some).round(0).astype(int).ravel().tolist()
    [0, 2, 14]
    """

    modes: Array  # NaN where a column has none
    tails: dict[int, Tails]

    @classmethod
    def of(cls, deviations: Array, z: Array, words: list[bool], modes: Array) -> Self:
        """Fit them to the deviations of values that are there and are not the mode."""
        seen, tails = ~np.isnan(z) & (z != modes), dict[int, Tails]()
        for j in np.flatnonzero(~np.array(words)).tolist():
            share = 1.0 if np.isnan(modes[j]) else max(float(seen[:, j].mean()), 1 / (len(z) + 1))
            tails[j] = Tails.of(deviations[seen[:, j], j], share)
        return cls(modes, tails)

    def nats(self, deviations: Array, z: Array) -> Array:
        """Minus the log of the share of rows that deviate as much on the same side; zero of categories."""
        surprises = np.zeros(z.shape)
        for j, tails in self.tails.items():
            surprises[:, j] = tails.nats(deviations[:, j])
        return np.where(np.isnan(z) | (z == self.modes), 0.0, surprises)


def surprise(nats: Array) -> Array:
    """How surprising each row is: the nats by which its values exceed ``RARE``, summed over columns."""
    return np.asarray(np.maximum(nats - RARE, 0).sum(-1))
