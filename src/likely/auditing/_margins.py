"""How rare a value is in its own column, whatever the others of its row say."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from likely._typing import Array
from likely.auditing._tails import Tails


class Margins(NamedTuple):
    """The tails of each column of numbers, below and above its median.

    >>> rng = np.random.default_rng(0)
    >>> margins = Margins.of(rng.normal(size=(500, 1)), [False], np.array([np.nan]))
    >>> margins.nats(np.array([[0.0], [1.0], [-9.0]])).round(0).astype(int).ravel().tolist()
    [0, 2, 14]
    """

    centres: Array
    modes: Array
    tails: dict[int, Tails]

    @classmethod
    def of(cls, z: Array, words: list[bool], modes: Array) -> Self:
        """Of a table."""
        centres, tails = np.zeros(z.shape[1]), dict[int, Tails]()
        for j, word in enumerate(words):
            values = z[~np.isnan(z[:, j]) & (z[:, j] != modes[j]), j]
            if not word and len(values):
                centres[j] = np.median(values)
                share = max(len(values) / len(z), 1 / (len(z) + 1))
                share = share if not np.isnan(modes[j]) else 1.0
                tails[j] = Tails.of(values - centres[j], share)
        return cls(centres, modes, tails)

    def nats(self, z: Array) -> Array:
        """Minus the log of the share of rows whose value is as far out on its side; zero of categories and gaps."""
        surprises = np.zeros(z.shape)
        for j, tails in self.tails.items():
            surprises[:, j] = tails.nats(z[:, j] - self.centres[j])
        return np.where(np.isnan(z) | (z == self.modes), 0.0, surprises)
