"""Fitted parts again from JSON and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any

import numpy as np
import torch

from likely._random import Seeded
from likely.tabular._members import MLP
from likely.tabular._saving._kinds import KINDS

FLOATS = ("nan", "inf", "-inf")


class Reader:
    """Turns JSON into values, with the arrays that it names."""

    def __init__(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.arrays = arrays

    def read(self, node: Any) -> Any:
        """The value that a piece of JSON stands for."""
        if isinstance(node, list):
            return [self.read(own) for own in node]
        if not isinstance(node, dict):
            return node
        kind = node.get("kind")
        how = _READERS.get(kind) if isinstance(kind, str) else None
        if how is None:
            raise ValueError(f"it has a record of an unknown kind, {_shown(kind)}")
        try:
            return how(self, node)
        except (KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
            if isinstance(error, RecursionError):
                raise
            raise ValueError(f"its record of kind {kind!r} is damaged ({error})") from error

    def _float(self, node: dict[str, Any]) -> float:
        if node["value"] not in FLOATS:
            raise ValueError(f"it has a damaged number, {_shown(node['value'])}")
        return float(node["value"])

    def _tuple(self, node: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.read(own) for own in node["items"])

    def _dict(self, node: dict[str, Any]) -> dict[Any, Any]:
        return {self.read(key): self.read(own) for key, own in node["items"]}

    def _array(self, node: dict[str, Any]) -> np.ndarray[Any, Any]:
        name = node["at"]
        if name not in self.arrays:
            raise ValueError(f"it lacks the array {_shown(name)}")
        return self.arrays[name]

    def _values(self, node: dict[str, Any]) -> np.ndarray[Any, Any]:
        values = np.empty(len(node["items"]), dtype=object)
        values[:] = [self.read(own) for own in node["items"]]
        return values.reshape(node["shape"])

    def _tensor(self, node: dict[str, Any]) -> torch.Tensor:
        return torch.from_numpy(self._array(node).copy())

    def _object(self, node: dict[str, Any]) -> Any:
        name, content = node["class"], node["fields"]
        if name not in KINDS:
            raise ValueError(f"it has a part of an unknown class, {_shown(name)}")
        known = {own.name: own.default is MISSING and own.default_factory is MISSING for own in fields(KINDS[name])}
        lacking = [own for own, needed in known.items() if needed and own not in content]
        if lacking or not set(content) <= set(known):
            raise ValueError(f"its {name} has the fields {', '.join(content)} instead of {', '.join(known)}")
        return KINDS[name](**{own: self.read(part) for own, part in content.items()})

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
        tensors = {name: self._tensor({"at": at}) for name, at in node["tensors"].items()}
        layers = [own for name, own in tensors.items() if name.startswith("body.") and name.endswith("weight")]
        models, inputs, outputs = tensors["line.weight"].shape
        with Seeded(0, all_draws=False):
            network = MLP(models, inputs, outputs, [own.shape[-1] for own in layers], 0.0)
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
