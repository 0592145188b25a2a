r"""Losses that are likelihoods: ``nn.Module`` losses whose parameters can learn.

``loss_fn(prediction, target)`` is the negative log-likelihood. Each parameter of a likelihood is one of
:class:`~likely.Fixed` (or just a number), :class:`~likely.Global` (the default), :class:`~likely.Data` or
:class:`~likely.Predicted`; the last two need ``index=`` or ``features=`` in the call.
"""

from torch import nn

from likely.likelihoods import *
from likely.likelihoods import exported
from likely.likelihoods._from_torch import from_torch as from_torch

__all__ = sorted(["LikelihoodLoss", "Slot", "from_torch", *exported(nn.Module)])


def __dir__() -> list[str]:
    return __all__
