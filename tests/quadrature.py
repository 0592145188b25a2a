"""Integrals of functions that take many points at once."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

_NODES, _WEIGHTS = (torch.from_numpy(values) for values in np.polynomial.legendre.leggauss(8))


def integral(f: Callable[[Tensor], Tensor], low: float, high: float, panels: int = 4000) -> float:
    """∫ f from ``low`` to ``high`` by Gauss and Legendre's rule of 8 nodes on each of many panels.

    A kink costs about the cube of a panel's width, and nothing where two panels meet.
    """
    half = (high - low) / panels / 2
    centres = low + half * (2 * torch.arange(panels, dtype=torch.float64) + 1)
    values = f((centres[:, None] + half * _NODES).flatten()).reshape(panels, -1)
    return float((values * _WEIGHTS).sum() * half)
