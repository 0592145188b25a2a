"""What loggers want to know of the likelihood parameters in a module: their names, values and whether they collapse."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.distributions import constraints as domains
from torch.utils.hooks import RemovableHandle

from likely.parameters import Data, Fixed, Global, Parameter, Predicted

_NEAR = 1.05  # a value within 5% of its floor has all but lost its gradient


def learned(module: nn.Module) -> Iterator[tuple[str, Parameter]]:
    """Every Global, Data and Predicted parameter by its name."""
    for name, found in module.named_modules():
        if isinstance(found, Parameter) and not isinstance(found, Fixed):
            yield name or "parameter", found


class Caught:
    """The latest values of all parameters: a Global's own, a Data's and a Predicted's of the last training batch."""

    def __init__(self, module: nn.Module) -> None:
        self.parameters = dict(learned(module))
        self.last: dict[str, Tensor] = {}
        self.handles: list[RemovableHandle] = [
            parameter.register_forward_hook(self._catcher(name))
            for name, parameter in self.parameters.items()
            if isinstance(parameter, Data | Predicted)
        ]

    def _catcher(self, name: str) -> Callable[..., None]:
        def catch(parameter: nn.Module, _args: object, value: Tensor) -> None:
            if parameter.training:
                self.last[name] = value.detach()

        return catch

    def values(self) -> dict[str, Tensor]:
        """By name, detached."""
        own = {name: p.value.detach() for name, p in self.parameters.items() if isinstance(p, Global)}
        return {**own, **self.last}

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self.handles:
            handle.remove()


def summary(name: str, value: Tensor) -> dict[str, float]:
    """One number under the name itself, or the mean, least and greatest of many."""
    if value.numel() == 1:
        return {name: float(value)}
    kinds = {"mean": value.mean(), "min": value.min(), "max": value.max()}
    return {f"{name}/{kind}": float(number) for kind, number in kinds.items()}


def trouble(parameter: Parameter, value: Tensor) -> str | None:
    """What is wrong with a parameter's values, if all is not well."""
    if not bool(torch.isfinite(value).all()):
        return "is not finite: lower the learning rate, or look for NaN in inputs and targets"
    floor = _floor(parameter)
    if floor is not None and float(value.max()) <= floor * _NEAR + 1e-6:
        return (
            f"lies at the floor {floor:.4g} of its constraint and cannot fall further: the model fits its training "
            "rows perfectly, or targets want standardising; hold out rows, or name a constraint with a lower floor"
        )
    return None


def _floor(parameter: Parameter) -> float | None:
    """The lower end of a half-line, as scales and temperatures live on."""
    domain = parameter.constraint.codomain if parameter.constraint is not None else None
    if isinstance(domain, domains.greater_than) and math.isfinite(domain.lower_bound):
        return float(domain.lower_bound)
    return None
