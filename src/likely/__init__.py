"""Losses are likelihoods: free their parameters and learn them with the model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from likely import (
        auditing as auditing,
        calibration as calibration,
        constraints as constraints,
        distributions as distributions,
        functional as functional,
        integrations as integrations,
        likelihoods as likelihoods,
        linear as linear,
        losses as losses,
        metrics as metrics,
        optim as optim,
        outliers as outliers,
        paper as paper,
        parameters as parameters,
        plots as plots,
        priors as priors,
        row_store as row_store,
        tabular as tabular,
    )
    from likely.auditing import audit as audit
    from likely.functional import linear_softmax_nll as linear_softmax_nll
    from likely.indexed import IndexedDataset as IndexedDataset
    from likely.losses import *
    from likely.optim import Supervised as Supervised, clip_gradients as clip_gradients, param_groups as param_groups
    from likely.parameters import Data as Data, Fixed as Fixed, Global as Global, Predicted as Predicted

__version__ = "0.1.0"

_MODULES = {
    *("auditing", "calibration", "constraints", "distributions", "functional", "integrations", "likelihoods", "linear"),
    *("losses", "metrics", "optim", "outliers", "paper", "parameters", "plots", "priors", "row_store", "tabular"),
}
_HOMES = {
    name: home
    for home, names in {
        "auditing": ["audit"],
        "functional": ["linear_softmax_nll"],
        "indexed": ["IndexedDataset"],
        "losses": ["TokenTemperature", "from_torch"],
        "optim": ["Supervised", "clip_gradients", "param_groups"],
        "parameters": ["Data", "Fixed", "Global", "Predicted"],
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first asked for, so that `likely --help` need not wait for torch."""
    if name == "__all__":
        value: Any = sorted([*_MODULES, *_HOMES, *_losses()])
    elif name in _MODULES:
        value = import_module(f"likely.{name}")
    elif name in _HOMES:
        value = getattr(import_module(f"likely.{_HOMES[name]}"), name)
    elif name.endswith("Loss") and name in _losses():
        value = getattr(import_module("likely.losses"), name)
    else:
        raise AttributeError(f"module 'likely' has no attribute {name!r}")
    globals()[name] = value
    return value


def _losses() -> list[str]:
    """The losses, one of each likelihood."""
    return [name for name in import_module("likely.losses").__all__ if name.endswith("Loss")]


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__version__"]
