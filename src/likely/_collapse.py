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
from torch import Tensor
from torch.distributions import constraints as domains

from likely._validation import may_look
from likely.parameters import Fixed, Global, Parameter

EVERY = 100  # training steps between checks
FEWEST = 16  # values of different rows; fewer may be small by chance
_NEAR = 1.05  # a value within 5% of its floor has almost lost its gradient
_SMALLEST = 1e-5  # times the predictions: a scale below is that of rounding errors
_COLDEST, _HOTTEST = 0.01, 100.0  # logits divided by these give certain, or nearly uniform, predictions


def trouble(name: str, parameter: Parameter, value: Tensor, size: float = 0.0) -> str | None:
    """A description of what is wrong with a parameter's values, and the remedy; None if nothing is.

    ``size`` is that of the predictions.

    >>> import torch, likely
    >>> scale = likely.NormalLoss().scale
    >>> trouble("scale", scale, torch.tensor(1.0)), trouble("scale", scale, torch.tensor(1e-4), 100.0)[:20]
    (None, 'has fallen to 0.0001')
    """
    if not bool(torch.isfinite(value).all()):
        return "is not finite: lower the learning rate, or look for NaN in inputs and targets"
    kind, highest = name.rpartition(".")[2], float(value.max())
    is_temperature, floor = kind == "temperature", _floor(parameter)
    least = max(floor * _NEAR, _COLDEST if is_temperature else size * _SMALLEST if kind == "scale" else 0.0)
    if highest <= least:
        place = f"lies at the floor {floor:.4g} of its constraint" if floor else f"has fallen to {highest:.4g}"
        fits = f"{place}: the model fits its training"
        if is_temperature:
            return f"{fits} labels perfectly; learn it on held-out rows (likely.calibration), or hold it fixed at 1"
        return f"{fits} rows perfectly; hold out rows, hold it fixed, or choose a constraint with a lower floor"
    if is_temperature and float(value.min()) >= _HOTTEST:
        return (
            f"has grown to {float(value.min()):.4g}, and predictions are almost uniform: check that labels match their "
            "inputs, lower its learning rate (multiplier= of likely.param_groups), or hold it fixed (temperature=1.0)"
        )
    return None


def _floor(parameter: Parameter) -> float:
    """The positive lower bound of the parameter's values, where there is no upper one; 0 if there is none."""
    domain = parameter.constraint.codomain if parameter.constraint is not None else None
    if isinstance(domain, domains.greater_than) and math.isfinite(domain.lower_bound):
        return max(0.0, float(domain.lower_bound))
    return 0.0


class Guard:
    """One per loss; every training forward pass asks whether a check is ``due``. It warns once."""

    def __init__(self) -> None:
        self.steps, self.done = 0, False

    def due(self) -> bool:
        """Whether to check this time: once in a hundred."""
        self.steps += 1
        return self.steps % EVERY == 0 and not self.done

    def look(self, loss: Any, phi: Mapping[str, Any], prediction: Tensor) -> None:
        """Check the values of one batch, and warn if something is wrong."""
        for name, value in phi.items():
            parameter = getattr(loss, name)
            enough = isinstance(parameter, Global) or value.numel() >= FEWEST
            if isinstance(parameter, Fixed) or not enough or not may_look(value, loss.validate_args):
                continue
            wrong = trouble(name, parameter, value.detach(), float(prediction.detach().abs().amax()))
            if wrong:
                self.done = True
                warnings.warn(f"{name} of {type(loss).__name__} {wrong}", UserWarning, stacklevel=5)
                return
