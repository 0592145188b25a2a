r"""Losses that are likelihoods: ``nn.Module`` losses whose parameters are free to learn.

``loss_fn(prediction, target)`` is the negative log-likelihood. Each parameter of a likelihood is one of
:class:`~likely.Fixed` (or just a number), :class:`~likely.Global` (the default), :class:`~likely.Data` or
:class:`~likely.Predicted`; the last two ask for ``index=`` or ``features=`` in the call.
"""

from likely.losses._base import LikelihoodLoss, Slot
from likely.losses._discrete import BernoulliLoss, NegativeBinomialLoss, PoissonLoss, SoftmaxLoss
from likely.losses._language import TokenTemperature
from likely.losses._multitask import MultiTaskLoss
from likely.losses._real import HuberLoss, LaplaceLoss, NormalLoss, RobustLoss, StudentTLoss

__all__ = [
    "BernoulliLoss",
    "HuberLoss",
    "LaplaceLoss",
    "LikelihoodLoss",
    "MultiTaskLoss",
    "NegativeBinomialLoss",
    "NormalLoss",
    "PoissonLoss",
    "RobustLoss",
    "Slot",
    "SoftmaxLoss",
    "StudentTLoss",
    "TokenTemperature",
]
