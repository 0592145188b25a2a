"""Warnings about a likelihood parameter that collapses, diverges, or has not reached its optimum after many steps.

None of these raises an error by itself: a scale at its lower bound has lost its gradient, a temperature of hundreds
makes all predictions uniform, and a scale that lags behind makes likelihoods wrong. A loss checks its values once in a
hundred training steps, on the CPU, where that is cheap; :mod:`likely.integrations` has monitors for every device.
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
_MANY = 20  # checks before a shared value is said to lag
_SHARE = 0.2  # weight of the last check in the running mean of slopes
_STEEP = 0.4  # slope of a scale that is 1.3 times too large
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
    if least and highest <= least:
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
    """One per loss; every training forward pass asks whether a check is ``due``. It warns once of each kind."""

    def __init__(self) -> None:
        self.steps, self.done, self.told = 0, False, False
        self.slopes: dict[str, float] = {}  # running means of the NLL's slope in the raw values

    def due(self) -> bool:
        """Whether to check this time: the first, then once in a hundred."""
        self.steps += 1
        return self.steps == 1 or (self.steps % EVERY == 0 and not (self.done and self.told))

    def look(self, loss: Any, phi: Mapping[str, Any], prediction: Tensor, target: Tensor) -> None:
        """Check the values of one batch, and warn if something is wrong."""
        if not may_look(prediction, loss.validate_args) or not prediction.numel():
            return
        if self.steps == 1:
            if mistake := loss._mistake(prediction.detach()):
                warnings.warn(f"{type(loss).__name__}: {mistake}", UserWarning, stacklevel=5)
            return
        for name, value in () if self.done else phi.items():
            parameter = getattr(loss, name)
            enough = isinstance(parameter, Global) or value.numel() >= FEWEST
            if isinstance(parameter, Fixed) or not enough:
                continue
            wrong = trouble(name, parameter, value.detach(), float(prediction.detach().abs().amax()))
            if wrong:
                self.done = self.told = True
                warnings.warn(f"{name} of {type(loss).__name__} {wrong}", UserWarning, stacklevel=5)
                return
        self.follow(loss, phi, prediction.detach(), target)

    def follow(self, loss: Any, phi: Mapping[str, Any], prediction: Tensor, target: Tensor) -> None:
        """Warn if, after many steps, the slope of the NLL in a shared value is still far from zero."""
        if self.told:
            return
        shared = {name: p for name in phi if isinstance(p := getattr(loss, name), Global) and p.raw.requires_grad}
        if not shared:
            self.told = True
            return
        with torch.enable_grad():
            values = {name: loss._placed(name, p(), loss._outer(prediction)) for name, p in shared.items()}
            nll = loss._nll(prediction, target, {**phi, **values}).mean()
            slopes = torch.autograd.grad(nll, [p.raw for p in shared.values()])
        for name, slope in zip(shared, slopes, strict=True):
            mean = float(slope.sum())
            self.slopes[name] = self.slopes.get(name, mean) + _SHARE * (mean - self.slopes.get(name, mean))
            if self.steps >= _MANY * EVERY and abs(self.slopes[name]) > _STEEP:
                self.told = True
                way = "large" if self.slopes[name] > 0 else "small"
                warnings.warn(
                    f"{name} of {type(loss).__name__} is still too {way} for the errors of the model after "
                    f"{self.steps} steps: hand the optimizer likely.param_groups(model, loss_fn, lr=…), or set it at "
                    "the end by loss_fn.calibrate((model(x), y) for x, y in loader)",
                    UserWarning,
                    stacklevel=6,
                )
                return
