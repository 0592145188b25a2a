"""Conversion of JSON and arrays to fitted objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any

import numpy as np
import torch

from likely._random import Seeded
from likely.tabular._saving._kinds import KINDS
from likely.tabular.networks.modules import MLP

FLOATS = ("nan", "inf", "-inf")


class Reader:
    """Turns JSON into values, with the arrays that it names."""

    def __init__(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.arrays = arrays

    def read(self, node: Any) -> Any:
        """Return the value that a piece of JSON represents."""
        if isinstance(node, list):
            return [self.read(item) for item in node]
        if not isinstance(node, dict):
            return node
        kind = node.get("kind")
        reader = _READERS.get(kind) if isinstance(kind, str) else None
        if reader is None:
            raise ValueError(f"it has a record of an unknown kind, {_shown(kind)}")
        try:
            return reader(self, node)
        except (KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
            if isinstance(error, RecursionError):
                raise
            raise ValueError(f"its record of kind {kind!r} is damaged ({error})") from error

    def _float(self, node: dict[str, Any]) -> float:
        if node["value"] not in FLOATS:
            raise ValueError(f"it has a damaged number, {_shown(node['value'])}")
        return float(node["value"])

    def _tuple(self, node: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.read(item) for item in node["items"])

    def _dict(self, node: dict[str, Any]) -> dict[Any, Any]:
        return {self.read(key): self.read(value) for key, value in node["items"]}

    def _array(self, node: dict[str, Any]) -> np.ndarray[Any, Any]:
        name = node["at"]
        if name not in self.arrays:
            raise ValueError(f"it lacks the array {_shown(name)}")
        return self.arrays[name]

    def _values(self, node: dict[str, Any]) -> np.ndarray[Any, Any]:
        values = np.empty(len(node["items"]), dtype=object)
        values[:] = [self.read(item) for item in node["items"]]
        return values.reshape(node["shape"])

    def _tensor(self, node: dict[str, Any]) -> torch.Tensor:
        return torch.from_numpy(self._array(node).copy())

    def _object(self, node: dict[str, Any]) -> Any:
        name, content = node["class"], node["fields"]
        if name not in KINDS:
            raise ValueError(f"it has a part of an unknown class, {_shown(name)}")
        members = fields(KINDS[name])
        required = {field.name for field in members if field.default is MISSING and field.default_factory is MISSING}
        if not required <= set(content) <= {field.name for field in members}:
            expected = ", ".join(field.name for field in members)
            raise ValueError(f"its {name} has the fields {', '.join(content)} instead of {expected}")
        return KINDS[name](**{field: self.read(part) for field, part in content.items()})

    def _booster(self, node: dict[str, Any]) -> Any:
        try:
            lightgbm = import_module("lightgbm")
        except ImportError:
            raise ImportError("this model has boosted trees of LightGBM: pip install 'likely[boosting]'") from None
        text = bytes(self._array(node).astype(np.uint8)).decode()
        try:
            return lightgbm.Booster(model_str=text)
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(f"its boosted trees are damaged ({error})") from error

    def _network(self, node: dict[str, Any]) -> MLP:
        tensors = {name: self._tensor({"at": array}) for name, array in node["tensors"].items()}
        layers = [tensor for name, tensor in tensors.items() if name.startswith("body.") and name.endswith("weight")]
        models, inputs, outputs = tensors["line.weight"].shape
        with Seeded(0, all_draws=False):
            network = MLP(models, inputs, outputs, [layer.shape[-1] for layer in layers], 0.0)
        network.load_state_dict(tensors)
        return network.eval()


def _shown(value: Any) -> str:
    return repr(value)[:40]


_READERS = {
    "float": Reader._float,
    "tuple": Reader._tuple,
    "dict": Reader._dict,
    "array": Reader._array,
    "values": Reader._values,
    "tensor": Reader._tensor,
    "object": Reader._object,
    "booster": Reader._booster,
    "network": Reader._network,
}
