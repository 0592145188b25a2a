"""How far off targets were, and intervals that reach so far: by the distribution's levels, where it has no scale."""

from __future__ import annotations

import numpy as np
import torch
from torch.distributions import Distribution

from likely._typing import Array
from likely.likelihoods._numeric import quantile


def reach_of(conformity: Array, coverage: float) -> float:
    """How far intervals must reach to hold a share of new rows: a share of n + 1 rows; ∞ where these are too few."""
    rank = int(np.ceil(coverage * (len(conformity) + 1)))
    return float(np.sort(conformity)[rank - 1]) if rank <= len(conformity) else np.inf


def level_conformity(distribution: Distribution, y: Array) -> Array:
    """How far the level of each target is off the middle, in [0, ½]."""
    return np.abs(np.asarray(distribution.cdf(torch.as_tensor(y))) - 0.5)


def level_interval(distribution: Distribution, reach: float) -> tuple[Array, Array]:
    """The quantiles that are so far off the middle."""
    if reach >= 0.5:
        shape = tuple(distribution.batch_shape)
        return np.full(shape, -np.inf), np.full(shape, np.inf)
    return quantile(distribution, 0.5 - reach), quantile(distribution, 0.5 + reach)
