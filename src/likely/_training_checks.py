"""Warnings about a likelihood parameter that is not optimized, collapses, diverges, or lags behind its optimum.

None of these raises an error by itself. The most common mistake with learned losses is to leave their parameters out of
the optimizer: nothing fails, they just never learn. An optimizer's step raises a tensor's version counter, so it can be
seen, without looking at a single value, that the model moves while φ stands still. A scale at its lower bound has lost
its gradient, a temperature of hundreds makes all predictions uniform, and a scale that lags behind makes likelihoods
wrong: a loss checks its values once in a hundred training steps, on the CPU, where that is cheap;
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

_PATIENCE = 5  # steps of the model without one of φ, so that alternating optimizers are left in peace
_PATIENCE_WITHOUT_MODEL = 25  # backward passes, where no model can be seen moving
_PATIENCE_WITHOUT_GRADIENT = 100  # passes: an optimizer that has them sets gradients to None before each
STEPS_BETWEEN_CHECKS = 100  # training steps between checks
MIN_VALUES = 16  # values of different rows; fewer may be small by chance
_NEAR_FLOOR = 1.05  # a value within 5% of its floor has almost lost its gradient
_MIN_RELATIVE_SCALE = 1e-5  # times the predictions: a scale below is that of rounding errors
_CHECKS_BEFORE_LAG = 20  # checks before a shared value is said to lag
_NEW_WEIGHT = 0.2  # weight of the last check in the running mean of slopes
_STEEP_SLOPE = 0.4  # slope of a scale that is 1.3 times too large
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
    least = max(
        floor * _NEAR_FLOOR, _COLDEST if is_temperature else size * _MIN_RELATIVE_SCALE if kind == "scale" else 0.0
    )
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


class ValueCheck:
    """One per loss; every training forward pass asks whether a check is ``due``. It warns once of each kind."""

    def __init__(self) -> None:
        self.steps, self.done, self.told = 0, False, False
        self.slopes: dict[str, float] = {}  # running means of the NLL's slope in the raw values

    def due(self) -> bool:
        """Whether to check this time: the first, then once in a hundred."""
        self.steps += 1
        return self.steps == 1 or (self.steps % STEPS_BETWEEN_CHECKS == 0 and not (self.done and self.told))

    def warn_if_collapsed(self, loss: Any, phi: Mapping[str, Any], prediction: Tensor, target: Tensor) -> None:
        """Check the values of one batch, and warn if something is wrong."""
        if not may_look(prediction, loss.validate_args) or not prediction.numel():
            return
        if self.steps == 1:
            if mistake := loss.mistake(prediction.detach()):
                warnings.warn(f"{type(loss).__name__}: {mistake}", UserWarning, stacklevel=5)
            return
        for name, value in () if self.done else phi.items():
            parameter = getattr(loss, name)
            enough = isinstance(parameter, Global) or value.numel() >= MIN_VALUES
            if isinstance(parameter, Fixed) or not enough:
                continue
            wrong = trouble(name, parameter, value.detach(), float(prediction.detach().abs().amax()))
            if wrong:
                self.done = self.told = True
                warnings.warn(f"{name} of {type(loss).__name__} {wrong}", UserWarning, stacklevel=5)
                return
        self.warn_if_behind(loss, phi, prediction.detach(), target)

    def warn_if_behind(self, loss: Any, phi: Mapping[str, Any], prediction: Tensor, target: Tensor) -> None:
        """Warn if, after many steps, the slope of the NLL in a shared value is still far from zero."""
        if self.told:
            return
        shared = {name: p for name in phi if isinstance(p := getattr(loss, name), Global) and p.raw.requires_grad}
        if not shared:
            self.told = True
            return
        with torch.enable_grad():
            values = {name: p().reshape(phi[name].shape) for name, p in shared.items()}
            nll = loss.nll_of(prediction, target, {**phi, **values}).mean()
            slopes = torch.autograd.grad(nll, [p.raw for p in shared.values()])
        for name, slope in zip(shared, slopes, strict=True):
            mean = float(slope.sum())
            self.slopes[name] = self.slopes.get(name, mean) + _NEW_WEIGHT * (mean - self.slopes.get(name, mean))
            if self.steps >= _CHECKS_BEFORE_LAG * STEPS_BETWEEN_CHECKS and abs(self.slopes[name]) > _STEEP_SLOPE:
                self.told = True
                way = "large" if self.slopes[name] > 0 else "small"
                warnings.warn(
                    f"{name} of {type(loss).__name__} is still too {way} for the errors of the model after "
                    f"{self.steps} steps: pass likely.param_groups(model, loss_fn, lr=…) to the optimizer, or set it "
                    "at the end by loss_fn.calibrate((model(x), y) for x, y in loader)",
                    UserWarning,
                    stacklevel=6,
                )
                return


class OptimizerCheck:
    """One per loss, which asks it at the start of every training forward pass."""

    def __init__(self) -> None:
        self.done = False
        self.model: list[Tensor] = []  # one leaf of the model's graph, once φ has a gradient
        self.model_version = 0
        self.start: list[tuple[nn.Parameter, int, Tensor]] = []
        self.steps = self.passes = self.looks = 0
        self.parameters: list[nn.Parameter] = []

    def __getstate__(self) -> dict[str, object]:
        return {**OptimizerCheck().__dict__, "done": self.done}

    def warn_if_not_optimized(self, loss: nn.Module, prediction: Tensor) -> None:
        """Warn if parameters receive gradients while only the model's optimizer steps."""
        if self.done or not torch.is_grad_enabled():
            return
        if not self.start:
            self._begin(loss, prediction)
            return
        if any(p._version != version for p, version, _ in self.start):
            self._finish()
            return
        self.passes += 1
        if self.model and self.model[0]._version != self.model_version:
            self.model_version = self.model[0]._version
            self.steps += 1
        if self.steps >= _PATIENCE or (not self.model and self.passes >= _PATIENCE_WITHOUT_MODEL):
            moved = any(not torch.equal(p.detach(), value) for p, _, value in self.start)
            self._finish()
            if not moved:
                names = [name for name, p in loss.named_parameters() if p.grad is not None]
                warnings.warn(
                    f"{', '.join(names)} of {type(loss).__name__} receives gradients but does not change: pass "
                    "likely.param_groups(model, loss_fn, lr=…) to the optimizer instead of model.parameters()",
                    UserWarning,
                    stacklevel=6,
                )

    def _begin(self, loss: nn.Module, prediction: Tensor) -> None:
        self.parameters = self.parameters or list(loss.parameters())
        self.looks += 1
        if graded := [p for p in self.parameters if p.grad is not None and p.requires_grad]:
            self.start = [(p, p._version, p.detach().clone()) for p in graded]
            self.model = _first_leaf(prediction, {id(p) for p in self.parameters})
            self.model_version = self.model[0]._version if self.model else 0
        elif self.looks > _PATIENCE_WITHOUT_GRADIENT or not any(p.requires_grad for p in self.parameters):
            self._finish()

    def _finish(self) -> None:
        self.done, self.start, self.model, self.parameters = True, [], [], []


def _first_leaf(prediction: Tensor, loss_parameters: set[int]) -> list[Tensor]:
    """A trainable leaf behind ``prediction`` that is not one of the loss's own parameters."""
    if prediction.is_leaf:
        return [prediction] if prediction.requires_grad else []
    seen, queue = set(), [prediction.grad_fn]
    while queue:
        node = queue.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in loss_parameters:
            return [leaf]
        queue += [parent for parent, _ in node.next_functions]
    return []
