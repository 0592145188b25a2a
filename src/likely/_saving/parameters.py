"""The arguments of an estimator in JSON's types, and the version of the package that wrote a file."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def written_parameters(estimator: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the arguments in JSON's types; any other, such as a random generator, is left at its default."""
    named = {name: _plain(value) for name, value in estimator.get_params(deep=False).items() if name not in without}
    return {name: value for name, value in named.items() if value is not NotImplemented}


def check_parameters(kind: type, parameters: Mapping[str, Any], name: str, without: tuple[str, ...] = ()) -> None:
    """Raise an error, in which ``name`` are the parameters, unless a class takes them and they are plain values."""
    unknown = set(parameters) - (set(inspect.signature(kind).parameters) - set(without))
    if unknown or any(_plain(value) is NotImplemented for value in parameters.values()):
        raise ValueError(f"{name} are not those of {kind.__name__}: {sorted(parameters)}")


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
