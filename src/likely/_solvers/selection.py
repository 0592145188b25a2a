"""Whether a gain on held-out rows is real: whether it exceeds a number of its standard errors."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from likely._typing import Values


class HeldOutGain(NamedTuple):
    """The sum of the gains of held-out rows, and the standard error of that sum."""

    total: float
    error: float

    def sure(self, margin: float) -> float:
        """Return the part of the gain that exceeds ``margin`` standard errors; negative where there is none."""
        return self.total - margin * self.error

    @property
    def errors(self) -> float:
        """The gain in standard errors."""
        return self.total / self.error if self.error > 0 else math.copysign(math.inf, self.total)


def held_out_gain(gain: Tensor | Values, weight: Tensor | Values | None = None) -> HeldOutGain:
    """Sum the gains of held-out rows.

    Example:
        >>> import numpy as np
        >>> gain = held_out_gain(np.array([0.4, 0.2, 0.3, 0.3]))
        >>> round(gain.total, 3), round(gain.error, 3), round(gain.sure(2.0), 3)
        (1.2, 0.141, 0.917)
    """
    values = torch.as_tensor(gain)
    counts = torch.ones_like(values) if weight is None else torch.as_tensor(weight).to(values)
    total = float((counts * values).sum())
    mean = total / float(counts.sum())
    return HeldOutGain(total, math.sqrt(float((counts * (values - mean).square()).sum())))
