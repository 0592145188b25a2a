"""Losses are likelihoods: free their parameters and learn them with the model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from likely import auditing as auditing
    from likely import calibration as calibration
    from likely import constraints as constraints
    from likely import distributions as distributions
    from likely import functional as functional
    from likely import integrations as integrations
    from likely import likelihoods as likelihoods
    from likely import linear as linear
    from likely import losses as losses
    from likely import metrics as metrics
    from likely import optim as optim
    from likely import outliers as outliers
    from likely import paper as paper
    from likely import parameters as parameters
    from likely import plots as plots
    from likely import priors as priors
    from likely import row_store as row_store
    from likely import tabular as tabular
    from likely.auditing import audit as audit
    from likely.functional import linear_softmax_nll as linear_softmax_nll
    from likely.indexed import IndexedDataset as IndexedDataset
    from likely.losses import *
    from likely.optim import Supervised as Supervised
    from likely.optim import clip_gradients as clip_gradients
    from likely.optim import param_groups as param_groups
    from likely.parameters import Data as Data
    from likely.parameters import Fixed as Fixed
    from likely.parameters import Global as Global
    from likely.parameters import Predicted as Predicted

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
