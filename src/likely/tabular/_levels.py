"""Quantiles of a distribution at fixed levels, for moments that have no closed form."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

LEVELS = (np.arange(200) + 0.5) / 200  # the mean and variance of these quantiles approximate the distribution's


def level_quantiles(distribution: Distribution) -> Tensor:
    """Return the quantiles at ``LEVELS``, of shape (levels, *batch)."""
    levels = torch.as_tensor(LEVELS).view(-1, *[1] * len(distribution.batch_shape))
    return distribution.icdf(levels.expand(-1, *distribution.batch_shape))
