"""Names and values of the likelihood parameters in a module, for loggers, and a warning where one collapses."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from likely._collapse import trouble
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
        """Detached values by the name of their parameter."""
        values = {name: p.value.detach() for name, p in self.parameters.items() if isinstance(p, Global)}
        return {**values, **self.last}

    def report(self) -> dict[str, float]:
        """Return numbers for a logger, and warn once of each parameter that collapses."""
        numbers: dict[str, float] = {}
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
