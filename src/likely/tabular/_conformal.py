"""Conformal intervals: how far targets are from the median, in levels of the predicted distribution."""

from __future__ import annotations

import numpy as np
import torch
from torch.distributions import Distribution

from likely._typing import Array
from likely.likelihoods._numeric import quantile


def reach_of(conformity: Array, coverage: float) -> float:
    """Return the smallest score that holds ``coverage`` of n + 1 rows; ∞ where there are too few rows for that."""
    rank = int(np.ceil(coverage * (len(conformity) + 1)))
    return float(np.sort(conformity)[rank - 1]) if rank <= len(conformity) else np.inf


def level_conformity(distribution: Distribution, y: Array) -> Array:
    """Return the distance of each target's level F(y) from ½, in [0, ½]."""
    return np.abs(np.asarray(distribution.cdf(torch.as_tensor(y))) - 0.5)


def level_interval(distribution: Distribution, reach: float) -> tuple[Array, Array]:
    """Return the quantiles at the levels ½ ± ``reach``."""
    if reach >= 0.5:
        shape = tuple(distribution.batch_shape)
        return np.full(shape, -np.inf), np.full(shape, np.inf)
    return quantile(distribution, 0.5 - reach), quantile(distribution, 0.5 + reach)
