"""Fitting small things: a loss's own parameters to fixed predictions, and not in more threads than help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from likely._solvers.training import fit_constants
from likely.losses import LikelihoodLoss


def descend(loss_fn: LikelihoodLoss, prediction: Tensor, target: Tensor) -> float:
    """Minimise the loss over its parameters, in place and in double, and return it at the minimum."""
    return fit_constants(loss_fn, lambda: loss_fn(prediction.double(), target))


@contextmanager
def one_thread() -> Iterator[None]:
    """Small matrices only wait for each other in threads; one thread also sums in one order on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
