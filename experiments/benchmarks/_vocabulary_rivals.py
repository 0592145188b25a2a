"""Losses of other packages for large vocabularies, where they are installed; none of them has a temperature."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from torch import Tensor

LIGER, CUT = "Liger, no temperature", "cut-cross-entropy, no temperature"
PACKAGES = {LIGER: "liger_kernel.transformers", CUT: "cut_cross_entropy"}


def installed() -> dict[str, Any]:
    """The modules of the packages that can be imported, by the rival's name."""
    found = {}
    for name, module in PACKAGES.items():
        try:
            found[name] = import_module(module)
        except ImportError:
            continue
    return found


def linear_rivals(states: Tensor, weight: Tensor, target: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Cross-entropy of a linear layer, fused with it.

    Args:
        states: what the layer reads, shape (rows, width).
        weight: the layer's weight, shape (classes, width).
        target: class numbers, shape (rows,).

    Returns:
        By rival, a function that returns the mean loss.
    """
    modules, rivals = installed(), {}
    if LIGER in modules:
        liger = modules[LIGER].LigerFusedLinearCrossEntropyLoss()
        rivals[LIGER] = lambda: liger(weight, states, target)
    if CUT in modules:
        cut = modules[CUT].linear_cross_entropy
        rivals[CUT] = lambda: cut(states, weight, target)
    return rivals


def softmax_rivals(logits: Tensor, target: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Cross-entropy of logits. Liger's writes the gradient over them, so it gets its own copy.

    Args:
        logits: shape (rows, classes).
        target: class numbers, shape (rows,).

    Returns:
        By rival, a function that returns the mean loss.
    """
    modules = installed()
    if LIGER not in modules:
        return {}
    liger, own = modules[LIGER].LigerCrossEntropyLoss(), logits.detach().clone().requires_grad_()

    def loss() -> Tensor:
        own.grad = None
        value: Tensor = liger(own, target)
        return value

    return {LIGER: loss}
