"""Notices a likelihood parameter that has run to its floor, or a temperature that has run away.

Neither stops a training: a scale at its floor has lost its gradient, and a temperature of hundreds turns every
prediction into chance. A loss looks at its values once in a hundred training steps, on the CPU, where the look is
cheap; :mod:`likely.integrations` has monitors that look on every device.
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

EVERY = 100  # training steps between looks
FEWEST = 16  # values of different rows; fewer may lie at the floor by themselves
_NEAR = 1.05  # a value within 5% of its floor has all but lost its gradient
_HOTTEST = 100.0  # logits over this differ by less than any network means by them


def trouble(name: str, parameter: Parameter, value: Tensor) -> str | None:
    """What is wrong with a parameter's values, with the remedy; None if nothing is.

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
            return f"{fits} labels perfectly; learn it on rows held out (likely.calibration), or hold it at 1"
        return (
            f"{fits} rows perfectly, or targets want standardising; hold out rows, or name a constraint with a lower "
            "floor"
        )
    if is_temperature and float(value.min()) >= _HOTTEST:
        return (
            f"has grown to {float(value.min()):.4g}, and predictions are all but uniform: check that labels belong to "
            "their inputs, lower its learning rate (multiplier= of likely.param_groups), or hold it (temperature=1.0)"
        )
    return None


def _floor(parameter: Parameter) -> float | None:
    """The lower end of a half-line, as scales and temperatures live on."""
    domain = parameter.constraint.codomain if parameter.constraint is not None else None
    if isinstance(domain, domains.greater_than) and math.isfinite(domain.lower_bound):
        return float(domain.lower_bound)
    return None


class Guard:
    """One per loss; every training forward pass asks whether a look is ``due``. It warns once."""

    def __init__(self) -> None:
        self.steps, self.done = 0, False

    def due(self) -> bool:
        """Whether to look this time: once in a hundred."""
        self.steps += 1
        return self.steps % EVERY == 0 and not self.done

    def look(self, loss: nn.Module, phi: Mapping[str, Any], validate_args: bool | None) -> None:
        """Look at the values of one batch."""
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
