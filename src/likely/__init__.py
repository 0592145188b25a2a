"""Losses are likelihoods: free their parameters and learn them with the model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = ("losses", "parameters", "optim", "indexed")


def __getattr__(name: str) -> Any:
    """Load a name when it is first asked for, so that `likely --help` need not wait for torch."""
    if name not in __all__:
        raise AttributeError(f"module 'likely' has no attribute {name!r}")
    homes = (import_module(f"likely.{home}") for home in _HOMES)
    found = next((getattr(home, name) for home in homes if name in home.__all__), None)
    globals()[name] = found or import_module(f"likely.{name}")
    return globals()[name]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
