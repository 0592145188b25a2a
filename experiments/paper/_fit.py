"""Fitting small things: a loss's own parameters to fixed predictions."""

from __future__ import annotations

from torch import Tensor

from likely._solvers.training import fit_constants
from likely.losses import LikelihoodLoss


def descend(loss_fn: LikelihoodLoss, prediction: Tensor, target: Tensor) -> float:
    """Minimise the loss over its parameters, in place and in double, and return it at the minimum."""
    return fit_constants(loss_fn, lambda: loss_fn(prediction.double(), target))
