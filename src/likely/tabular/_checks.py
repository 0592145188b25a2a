"""Checks of the arguments of the regressor that restrict one another."""

from __future__ import annotations

from typing import Any

from likely.tabular._choice import NAMED
from likely.tabular._network_path import NETWORK_LIKELIHOODS, OBJECTIVES


def check_likelihood(estimator: Any) -> None:
    """Raise an error for an unknown likelihood or objective, or a scale that the objective does not support."""
    names, scale, objective = ["auto", *NAMED, *NETWORK_LIKELIHOODS], estimator.scale, estimator.objective
    if estimator.likelihood not in names:
        raise ValueError(f"likelihood must be one of {', '.join(names)}; got {estimator.likelihood!r}")
    if objective not in ("auto", *OBJECTIVES):
        raise ValueError(f"objective must be one of auto, {', '.join(OBJECTIVES)}; got {objective!r}")
    if objective == "auto" and scale not in ("predicted", "global"):
        raise ValueError(
            f"scale must be 'predicted' or 'global'; 'data' and 'fixed' need objective='joint'; got {scale!r}"
        )


def check_network(estimator: Any, groups: Any) -> None:
    """Raise an error for arguments that a single network would ignore."""
    model, objective = estimator.model, estimator.objective
    why = f"likelihood={estimator.likelihood!r}" if objective == "auto" else f"objective={objective!r}"
    if isinstance(model, list | tuple) or (isinstance(model, str) and model not in ("auto", "network")):
        raise ValueError(f"{why} trains a network: model must be 'auto' or a module, got {model!r}")
    if groups is not None:
        raise ValueError(f"{why} trains a network, which does not support groups: leave groups=None")
