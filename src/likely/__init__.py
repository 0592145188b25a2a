"""Losses are likelihoods: free their parameters and learn them with the model."""

from likely import constraints, distributions, functional, losses, optim, parameters, tables
from likely.indexed import IndexedDataset
from likely.losses import (
    BernoulliLoss,
    HuberLoss,
    LaplaceLoss,
    LikelihoodLoss,
    MultiTaskLoss,
    NegativeBinomialLoss,
    NormalLoss,
    PoissonLoss,
    RobustLoss,
    SoftmaxLoss,
    StudentTLoss,
)
from likely.optim import Supervised, clip_gradients, param_groups
from likely.parameters import Data, Fixed, Global, Predicted

__version__ = "0.1.0.dev0"

__all__ = [
    "BernoulliLoss",
    "Data",
    "Fixed",
    "Global",
    "HuberLoss",
    "IndexedDataset",
    "LaplaceLoss",
    "LikelihoodLoss",
    "MultiTaskLoss",
    "NegativeBinomialLoss",
    "NormalLoss",
    "PoissonLoss",
    "Predicted",
    "RobustLoss",
    "SoftmaxLoss",
    "StudentTLoss",
    "Supervised",
    "clip_gradients",
    "constraints",
    "distributions",
    "functional",
    "losses",
    "optim",
    "param_groups",
    "parameters",
    "tables",
]
