"""Candidates compared by their losses on rows held out: what automatic choices of either kind share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely._solvers.selection import held_out_gain
from likely.calibration._composition import chain_of
from likely.calibration._cross_fit import CrossFits

# Nats per row: candidates that fall back to the same map differ by rounding, which can be many standard errors.
_ALIKE = 1e-6


@dataclass(frozen=True)
class Comparison:
    """The loss of every row under every candidate fitted without it; candidates are in order, simplest first."""

    losses: dict[str, NDArray[np.float64]]
    weight: NDArray[np.float64] | None

    @classmethod
    def of(cls, candidates: Mapping[str, Any], fits: CrossFits[Any]) -> Comparison:
        """Score candidates on the rows held out."""
        losses = {name: fits.losses(chain_of(candidate)) for name, candidate in candidates.items()}
        return cls(losses, fits.rows.weight)

    @property
    def scores(self) -> dict[str, float]:
        """The mean loss of each candidate."""
        return {name: float(np.average(loss, weights=self.weight)) for name, loss in self.losses.items()}

    @property
    def best(self) -> str:
        """The candidate of lowest mean loss."""
        scores = self.scores
        return min(scores, key=lambda name: scores[name])

    @property
    def behind(self) -> dict[str, float]:
        """How many standard errors of the paired difference each candidate is behind the best."""
        scores, best = self.scores, self.best
        return {
            name: held_out_gain(loss - self.losses[best], self.weight).errors
            if scores[name] - scores[best] > _ALIKE
            else 0.0
            for name, loss in self.losses.items()
        }

    def simplest(self, margin: float) -> str:
        """Return the first candidate that no later one surely beats: each has to by ``margin`` standard errors."""
        choice = next(iter(self.losses))
        for name, loss in self.losses.items():
            if held_out_gain(self.losses[choice] - loss, self.weight).sure(margin) > 0:
                choice = name
        return choice
