"""What loggers want to know of the likelihood parameters in a module: their names, values and whether they collapse."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from likely._collapse import trouble
from likely.parameters import Data, Fixed, Global, Parameter, Predicted


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
        self.warned: set[str] = set()
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

    def report(self) -> dict[str, float]:
        """Numbers for a logger; of a parameter that collapses it warns once."""
        numbers: dict[str, float] = {}
        for name, value in self.values().items():
            numbers |= summary(f"likelihood/{name}", value)
            wrong = None if name in self.warned else trouble(name, self.parameters[name], value)
            if wrong:
                self.warned.add(name)
                warnings.warn(f"{name} {wrong}", UserWarning, stacklevel=3)
        return numbers

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
