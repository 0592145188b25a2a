"""Likelihood parameters in your own training loop: their values every few steps, and a warning on collapse."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from likely._training_checks import trouble
from likely._validation import check_positive, may_look
from likely.losses import LikelihoodLoss
from likely.parameters import Data, Fixed, Global, Parameter, Predicted

__all__ = ["LikelihoodMonitor"]


class Caught:
    """The latest values of all parameters; those of Data and Predicted parameters are of the last training batch."""

    def __init__(self, module: nn.Module) -> None:
        parts = [(name or "parameter", part) for name, part in module.named_modules() if isinstance(part, Parameter)]
        self.parameters = {name: part for name, part in parts if not isinstance(part, Fixed)}
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
            phi = loss.parameter_values(prediction, kwargs.get("features"), kwargs.get("index"))
            for part in predicted:
                part.train()
            loss.value_check.warn_if_behind(loss, phi, prediction, target)
        self.batches.clear()

    def _catch(self, name: str, parameter: nn.Module, _args: object, value: Tensor) -> None:
        if parameter.training:
            self.last[name] = value.detach()

    def values(self) -> dict[str, Tensor]:
        """Detached values by the name of their parameter."""
        values = {name: p.value.detach() for name, p in self.parameters.items() if isinstance(p, Global)}
        return {**values, **self.last}

    def report(self) -> dict[str, float]:
        """Return numbers for a logger, and warn once of each parameter that collapses.

        One number under the name of its parameter; for several values their mean, minimum and maximum.
        """
        self._follow()
        numbers: dict[str, float] = {}
        for name, value in self.values().items():
            wrong = None if name in self.warned else trouble(name, self.parameters[name], value)
            if wrong:
                self.warned.add(name)
                warnings.warn(f"{name} {wrong}", UserWarning, stacklevel=3)
            if value.numel() == 1:
                numbers[f"likelihood/{name}"] = float(value)
            else:
                kinds = {"mean": value.mean(), "min": value.min(), "max": value.max()}
                numbers |= {f"likelihood/{name}/{kind}": float(number) for kind, number in kinds.items()}
        return numbers

    def remove(self) -> None:
        """Remove the hooks, and what they hold."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self.batches.clear()


class LikelihoodMonitor:
    """Reports every likelihood parameter of a loss every few steps, and warns once when one collapses.

    A single value is reported under its name, ``likelihood/scale``; several as ``likelihood/scale/mean``, ``/min`` and
    ``/max``, for a Data or Predicted parameter over the last training batch. A parameter has collapsed if a value is
    not finite, or if in every row it is at the floor of its constraint or is a temperature above 100. Values are read
    at reports only; on a GPU a report waits for the device. It also warns once of a shared parameter that is still far
    from its optimum, given the predictions, after 2,000 steps. Losses check both by themselves too, once in a hundred
    steps and on the CPU only.

    For Lightning use :class:`likely.integrations.lightning.LikelihoodMonitor`.

    Args:
        loss_fn: a likelihood loss, or any module that contains one.
        every_n_steps: number of calls of :meth:`step` between reports.
        log: function that is called with the numbers (a dict) and the step number, such as ``wandb.log``; None calls
            none.

    Attributes:
        steps: number of calls of :meth:`step` so far.

    >>> import torch, likely
    >>> from likely.integrations.monitor import LikelihoodMonitor
    >>> loss_fn = likely.NormalLoss()
    >>> optimizer = torch.optim.SGD(loss_fn.parameters(), lr=0.1)
    >>> log = lambda numbers, step: print(step, list(numbers))
    >>> with LikelihoodMonitor(loss_fn, every_n_steps=2, log=log) as monitor:
    ...     for _ in range(4):
    ...         optimizer.zero_grad()
    ...         loss_fn(torch.zeros(8), torch.randn(8)).backward()
    ...         optimizer.step()
    ...         numbers = monitor.step()
    2 ['likelihood/scale']
    4 ['likelihood/scale']
    """

    def __init__(
        self,
        loss_fn: nn.Module,
        *,
        every_n_steps: int = 50,
        log: Callable[[dict[str, float], int], object] | None = None,
    ) -> None:
        if not isinstance(loss_fn, nn.Module):
            raise TypeError(f"loss_fn must be a loss module such as likely.NormalLoss(), got {type(loss_fn).__name__}")
        check_positive("every_n_steps", every_n_steps)
        self.every_n_steps, self.log, self.steps = every_n_steps, log, 0
        self._caught = Caught(loss_fn)
        if not self._caught.parameters:
            self._caught.remove()
            raise ValueError(
                f"{type(loss_fn).__name__} has no likelihood parameter that learns: give it a likely.Global, Data or "
                "Predicted"
            )

    def step(self) -> dict[str, float] | None:
        """Count a step, and report if it is time; call it after the optimizer's step.

        Returns:
            The numbers by name at every ``every_n_steps``-th call, else None.
        """
        self.steps += 1
        if self.steps % self.every_n_steps:
            return None
        return self.report()

    def report(self) -> dict[str, float]:
        """Read the parameters now, log them, and warn of those that collapse.

        Returns:
            The numbers by name.
        """
        numbers = self._caught.report()
        if self.log is not None:
            self.log(numbers, self.steps)
        return numbers

    def close(self) -> None:
        """Remove the hooks that record values of Data and Predicted parameters."""
        self._caught.remove()

    def __enter__(self) -> LikelihoodMonitor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
