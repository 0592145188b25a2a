"""Warnings about a likelihood parameter that has reached its lower bound, or a temperature that diverges.

Neither raises an error by itself: a scale at its lower bound has lost its gradient, and a temperature of hundreds makes
all predictions uniform. A loss checks its values once in a hundred training steps, on the CPU, where that is cheap;
:mod:`likely.integrations` has monitors for every device.
"""

import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import constraints as domains

from likely._validation import may_look
from likely.parameters import Fixed, Global, Parameter

EVERY = 100  # training steps between checks
FEWEST = 16  # values of different rows; fewer may lie at the floor by chance
_NEAR = 1.05  # a value within 5% of its floor has almost lost its gradient
_HOTTEST = 100.0  # logits divided by this give nearly uniform predictions


def trouble(name: str, parameter: Parameter, value: Tensor) -> str | None:
    """A description of what is wrong with a parameter's values, and the remedy; None if nothing is.

    >>> import torch, likely
    >>> scale = likely.NormalLoss().scale
    >>> trouble("scale", scale, torch.tensor(1.0)), trouble("scale", scale, torch.tensor(0.0143))[:33]
    (None, 'lies at the floor 0.01422 of its ')
    """
    if not bool(torch.isfinite(value).all()):
        return "is not finite: lower the learning rate, or look for NaN in inputs and targets"
    floor, is_temperature = _floor(parameter), name.rpartition(".")[2] == "temperature"
    if floor is not None and float(value.max()) <= floor * _NEAR + 1e-6:
        fits = f"lies at the floor {floor:.4g} of its constraint and cannot fall further: the model fits its training"
        if is_temperature:
            return f"{fits} labels perfectly; learn it on held-out rows (likely.calibration), or hold it fixed at 1"
        return (
            f"{fits} rows perfectly, or targets need standardising; hold out rows, or choose a constraint with a lower "
            "floor"
        )
    if is_temperature and float(value.min()) >= _HOTTEST:
        return (
            f"has grown to {float(value.min()):.4g}, and predictions are almost uniform: check that labels match their "
            "inputs, lower its learning rate (multiplier= of likely.param_groups), or hold it fixed (temperature=1.0)"
        )
    return None


def _floor(parameter: Parameter) -> float | None:
    """The lower bound of the parameter's values, where there is no upper one, as for scales and temperatures."""
    domain = parameter.constraint.codomain if parameter.constraint is not None else None
    if isinstance(domain, domains.greater_than) and math.isfinite(domain.lower_bound):
        return float(domain.lower_bound)
    return None


class Guard:
    """One per loss; every training forward pass asks whether a check is ``due``. It warns once."""

    def __init__(self) -> None:
        self.steps, self.done = 0, False

    def due(self) -> bool:
        """Whether to check this time: once in a hundred."""
        self.steps += 1
        return self.steps % EVERY == 0 and not self.done

    def look(self, loss: nn.Module, phi: Mapping[str, Any], validate_args: bool | None) -> None:
        """Check the values of one batch, and warn if something is wrong."""
        for name, value in phi.items():
            parameter = getattr(loss, name)
            enough = isinstance(parameter, Global) or value.numel() >= FEWEST
            if isinstance(parameter, Fixed) or not enough or not may_look(value, validate_args):
                continue
            wrong = trouble(name, parameter, value.detach())
            if wrong:
                self.done = True
                warnings.warn(f"{name} of {type(loss).__name__} {wrong}", UserWarning, stacklevel=5)
                return
