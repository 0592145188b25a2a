"""Losses are likelihoods: free their parameters and learn them with the model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from likely import (
        auditing,
        calibration,
        constraints,
        distributions,
        functional,
        integrations,
        linear,
        losses,
        metrics,
        optim,
        outliers,
        parameters,
        plots,
        priors,
        row_store,
        tabular,
    )
    from likely.auditing import audit
    from likely.functional import linear_softmax_nll
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
        TokenTemperature,
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
    "TokenTemperature",
    "audit",
    "auditing",
    "calibration",
    "clip_gradients",
    "constraints",
    "distributions",
    "functional",
    "integrations",
    "linear",
    "linear_softmax_nll",
    "losses",
    "metrics",
    "optim",
    "outliers",
    "param_groups",
    "parameters",
    "plots",
    "priors",
    "row_store",
    "tabular",
]

_HOMES = {
    name: home
    for home, names in {
        "auditing": ["audit"],
        "functional": ["linear_softmax_nll"],
        "indexed": ["IndexedDataset"],
        "losses": ["TokenTemperature"],
        "optim": ["Supervised", "clip_gradients", "param_groups"],
        "parameters": ["Data", "Fixed", "Global", "Predicted"],
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first asked for, so that `likely --help` need not wait for torch."""
    if name not in __all__:
        raise AttributeError(f"module 'likely' has no attribute {name!r}")
    home = "losses" if name.endswith("Loss") else _HOMES.get(name)
    found = getattr(import_module(f"likely.{home}"), name) if home else import_module(f"likely.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
