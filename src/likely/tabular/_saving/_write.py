"""Conversion of fitted objects to JSON and arrays."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from torch import Tensor, nn

from likely.tabular._council import Council
from likely.tabular._saving._boosting import PlainBoosting
from likely.tabular._saving._forest import PlainForest
from likely.tabular._saving._kinds import KINDS
from likely.tabular._views import Views
from likely.tabular.members.estimator import Foreign
from likely.tabular.networks.modules import MLP

OTHERWISE = "leave it out by model=[…], or save the whole model with joblib or skops"
SIMPLE = "biufU"  # kinds of arrays that are stored unchanged


class Unsaved(TypeError):
    """Raised for an object that a file cannot hold."""


class Writer:
    """Turns values into JSON, and collects the arrays that it names."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}

    def write(self, value: Any) -> Any:
        """Return a value as JSON: JSON's own types and lists unchanged, all else as a record with its kind."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"kind": "float", "value": str(value)}
        if isinstance(value, list | tuple):
            items = [self.write(item) for item in value]
            return items if isinstance(value, list) else {"kind": "tuple", "items": items}
        if isinstance(value, dict):
            return {"kind": "dict", "items": [[self.write(key), self.write(item)] for key, item in value.items()]}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, Tensor):
            return {"kind": "tensor", "at": self._add_array(value.detach().cpu().numpy())}
        return self._part(value)

    def _part(self, value: Any) -> Any:
        """Return a part of a model as JSON."""
        if isinstance(value, Council):
            return self._object(value, members=self._members(value))
        if isinstance(value, Views):
            return self._object(replace(value, device="cpu"))
        if KINDS.get(type(value).__name__) is type(value):
            return self._object(value)
        if isinstance(value, ExtraTreesRegressor | ExtraTreesClassifier):
            return self._object(PlainForest.of(value))
        if isinstance(value, HistGradientBoostingRegressor | HistGradientBoostingClassifier):
            return self._object(_boosting(value))
        if type(value).__module__.split(".")[0] == "lightgbm":
            text = np.frombuffer(value.model_to_string().encode(), dtype=np.uint8)
            return {"kind": "booster", "at": self._add_array(text)}
        if isinstance(value, MLP):
            tensors = {name: self._add_array(tensor.cpu().numpy()) for name, tensor in value.state_dict().items()}
            return {"kind": "network", "tensors": tensors}
        raise Unsaved(_reason(value))

    def _members(self, council: Council) -> dict[str, Any]:
        """Return the members as JSON; an error names the one that cannot be saved."""
        items = []
        for name, member in council.members.items():
            try:
                items.append([name, self.write(member)])
            except Unsaved as error:
                raise Unsaved(f"the member {name!r} cannot be saved without pickle: {error}") from None
        return {"kind": "dict", "items": items}

    def _object(self, value: Any, **written: Any) -> dict[str, Any]:
        """Return an object as JSON; ``written`` are fields that already are."""
        names = [field.name for field in fields(value) if field.name not in written]
        content = written | {name: self.write(getattr(value, name)) for name in names}
        return {"kind": "object", "class": type(value).__name__, "fields": content}

    def _array(self, value: np.ndarray[Any, Any]) -> dict[str, Any]:
        if value.dtype.kind in SIMPLE:
            return {"kind": "array", "at": self._add_array(value)}
        if value.dtype.kind == "O":
            return {"kind": "values", "shape": list(value.shape), "items": [self.write(item) for item in value.flat]}
        raise Unsaved(f"it holds an array of {value.dtype}; {OTHERWISE}")

    def _add_array(self, value: np.ndarray[Any, Any]) -> str:
        name = f"array_{len(self.arrays)}"
        self.arrays[name] = value
        return name


def _boosting(model: Any) -> PlainBoosting:
    try:
        return PlainBoosting.of(model)
    except Exception as error:
        raise Unsaved(
            f"this version of scikit-learn stores its boosted trees in another way ({error}); "
            f"install likely[boosting] and fit again, or {OTHERWISE}"
        ) from error


def _reason(value: Any) -> str:
    kind, shown = type(value).__name__, repr(value)[:60]
    if isinstance(value, Foreign):
        return f"it is a {type(value.estimator).__name__}, an estimator of another library; {OTHERWISE}"
    if isinstance(value, nn.Module):
        return f"it is a {kind}, a module of your own; save its state_dict, or {OTHERWISE}"
    return (
        f"it holds {shown} of the type {kind}, and a file holds only numbers, strings and booleans; "
        "convert such columns or labels to text before the fit, or save the model with joblib or skops"
    )
