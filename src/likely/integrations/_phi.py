"""Names and values of the likelihood parameters in a module, for loggers, and warnings where one collapses or lags."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from likely._training_checks import trouble
from likely._validation import may_look
from likely.losses import LikelihoodLoss
from likely.parameters import Data, Fixed, Global, Parameter, Predicted


def learned(module: nn.Module) -> Iterator[tuple[str, Parameter]]:
    """Yield the name of every Global, Data and Predicted parameter, and the parameter."""
    for name, part in module.named_modules():
        if isinstance(part, Parameter) and not isinstance(part, Fixed):
            yield name or "parameter", part


class Caught:
    """The latest values of all parameters; those of Data and Predicted parameters are of the last training batch."""

    def __init__(self, module: nn.Module) -> None:
        self.parameters = dict(learned(module))
        self.last: dict[str, Tensor] = {}
        self.warned: set[str] = set()
        self.batches: dict[LikelihoodLoss, tuple[Any, Any]] = {}
        self.handles: list[RemovableHandle] = []
        for name, parameter in self.parameters.items():
            if isinstance(parameter, Data | Predicted):
                self.handles.append(parameter.register_forward_hook(partial(self._catch, name)))
        for part in module.modules():
            if isinstance(part, LikelihoodLoss):
                self.handles.append(part.register_forward_pre_hook(self._note, with_kwargs=True))

    def _note(self, loss: Any, args: Any, kwargs: Any) -> None:
        # Elsewhere a loss follows its parameters by itself.
        if loss.training and len(args) == 2 and not may_look(args[0], loss.validate_args):
            prediction, target = args
            self.batches[loss] = (prediction.detach(), target), kwargs  # without the graph behind it

    @torch.no_grad()
    def _follow(self) -> None:
        """Let losses compare their shared parameters with the last batch, where they do not look at values."""
        for loss, ((prediction, target), kwargs) in self.batches.items():
            predicted = [part for part in loss.children() if isinstance(part, Predicted) and part.training]
            for part in predicted:  # their statistics have learned from this batch already
                part.eval()
            phi = loss._phi(prediction, kwargs.get("features"), kwargs.get("index"))
            for part in predicted:
                part.train()
            loss._value_check.warn_if_behind(loss, phi, prediction, target)
        self.batches.clear()

    def _catch(self, name: str, parameter: nn.Module, _args: object, value: Tensor) -> None:
        if parameter.training:
            self.last[name] = value.detach()

    def values(self) -> dict[str, Tensor]:
        """Detached values by the name of their parameter."""
        values = {name: p.value.detach() for name, p in self.parameters.items() if isinstance(p, Global)}
        return {**values, **self.last}

    def report(self) -> dict[str, float]:
        """Return numbers for a logger, and warn once of each parameter that collapses."""
        numbers: dict[str, float] = {}
        self._follow()
        for name, value in self.values().items():
            numbers |= summary(f"likelihood/{name}", value)
            wrong = None if name in self.warned else trouble(name, self.parameters[name], value)
            if wrong:
                self.warned.add(name)
                warnings.warn(f"{name} {wrong}", UserWarning, stacklevel=3)
        return numbers

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self.handles:
            handle.remove()


def summary(name: str, value: Tensor) -> dict[str, float]:
    """One number under its name; for several numbers their mean, minimum and maximum."""
    if value.numel() == 1:
        return {name: float(value)}
    kinds = {"mean": value.mean(), "min": value.min(), "max": value.max()}
    return {f"{name}/{kind}": float(number) for kind, number in kinds.items()}
