"""The arguments of an estimator in JSON's types, and the version of the package that wrote a file."""

from __future__ import annotations

import inspect
import math
import sys
from typing import Any

import numpy as np
import torch

from likely._saving.record import Record


def written_parameters(estimator: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the arguments in JSON's types; any other, such as a random generator, is left at its default."""
    named = {name: _plain(value) for name, value in estimator.get_params(deep=False).items() if name not in without}
    return {name: value for name, value in named.items() if value is not NotImplemented}


def unfitted(kind: type, parameters: Record, **others: Any) -> Any:
    """Return an estimator with the parameters of a file; ``others`` are arguments that no file may name."""
    named = parameters.content
    unknown = set(named) - (set(inspect.signature(kind).parameters) - set(others))
    if unknown or any(_plain(value) is NotImplemented for value in named.values()):
        raise ValueError(f"{parameters.name} are not those of {kind.__name__}: {sorted(named)}")
    return kind(**others, **named)


def check_format(header: Record, newest: int) -> None:
    """Raise an error for a file of a later format than this version reads."""
    form, writer = header.whole("format", 1), header.text("likely")
    if form > newest:
        raise ValueError(
            f"{header.name} has format {form}, written by likely {writer[:20]}; this is likely {package_version()}, "
            f"which reads format {newest}: install a later one"
        )


def package_version() -> str:
    """Return the version of the package, which is on a higher floor but always loaded by now."""
    return str(sys.modules["likely"].__version__)


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    value = str(value) if isinstance(value, torch.device) else value
    if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
        return list(value)
    plain = value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
    return value if plain else NotImplemented
