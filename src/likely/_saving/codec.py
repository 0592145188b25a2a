"""Fitted objects ↔ JSON and arrays: objects of listed classes only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # numbers that JSON does not have

Array = np.ndarray[Any, Any]


class Unsaved(TypeError):
    """Raised for an object that a file cannot hold."""


@dataclass(frozen=True)
class Codec:
    """What a file may hold.

    ``classes`` are dataclasses. ``replace`` is called with an object of any other class; it returns one that a file can
    hold, or raises :class:`Unsaved`. If a class has a method ``restored``, reading returns what that returns.
    """

    classes: Mapping[str, type]
    replace: Callable[[Any], Any]


class RecordWriter:
    """Turns values into JSON, and collects the arrays that it refers to: all arrays of one dtype are parts of one."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self._parts: dict[np.dtype[Any], list[Array]] = {}
        self._sizes: dict[np.dtype[Any], int] = {}

    def arrays(self) -> dict[str, Array]:
        """Return the collected arrays, by name."""
        return {f"array_{place}": np.concatenate(parts) for place, parts in enumerate(self._parts.values())}

    def write(self, value: Any) -> Any:
        """Return a value as JSON: JSON's own types and lists unchanged, all else as a record with its kind."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"kind": "float", "value": str(value)}
        if type(value) in (list, tuple):
            items = [self.write(item) for item in value]
            return items if isinstance(value, list) else {"kind": "tuple", "items": items}
        if isinstance(value, dict):
            return {"kind": "dict", "items": [self._item(key, item) for key, item in value.items()]}
        if isinstance(value, np.ndarray) and value.dtype.kind == "O":
            return {"kind": "values", "shape": list(value.shape), "items": [self.write(item) for item in value.flat]}
        if isinstance(value, np.ndarray):
            return {"kind": "array", **self._place(value)}
        if isinstance(value, Tensor):
            return {"kind": "tensor", **self._place(value.detach().cpu().numpy())}
        if self.codec.classes.get(type(value).__name__) is not type(value):
            return self.write(self.codec.replace(value))
        return {"kind": "object", "class": type(value).__name__, "fields": self._fields(value)}

    def _fields(self, value: Any) -> dict[str, Any]:
        return {field.name: self.write(getattr(value, field.name)) for field in fields(value)}

    def _item(self, key: Any, value: Any) -> list[Any]:
        try:
            return [self.write(key), self.write(value)]
        except Unsaved as error:
            raise Unsaved(f"the member {key!r} cannot be saved without pickle: {error}") from None

    def _place(self, value: Array) -> dict[str, Any]:
        parts, start = self._parts.setdefault(value.dtype, []), self._sizes.get(value.dtype, 0)
        parts.append(value.reshape(-1))
        self._sizes[value.dtype] = start + value.size
        return {"at": f"array_{list(self._parts).index(value.dtype)}", "start": start, "shape": list(value.shape)}


class RecordReader:
    """Turns JSON into values, with the arrays that it refers to."""

    def __init__(self, codec: Codec, arrays: Mapping[str, Array]) -> None:
        self.codec, self.arrays = codec, arrays

    def read(self, node: Any) -> Any:
        """Return the value that a piece of JSON represents."""
        if isinstance(node, list):
            return [self.read(item) for item in node]
        if not isinstance(node, dict):
            return node
        kind = node.get("kind")
        if not isinstance(kind, str) or kind not in self._READERS:
            raise ValueError(f"it has a record of an unknown kind, {_shown(kind)}")
        try:
            return self._READERS[kind](self, node)
        except (KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
            if isinstance(error, RecursionError):
                raise
            raise ValueError(f"its record of kind {kind!r} is damaged ({error})") from error

    def array(self, node: dict[str, Any]) -> Array:
        """Return a part of one of the arrays."""
        name, start, shape = node["at"], node["start"], tuple(node["shape"])
        if name not in self.arrays:
            raise ValueError(f"it lacks the array {_shown(name)}")
        return self.arrays[name][start : start + math.prod(shape)].reshape(shape)

    def _values(self, node: dict[str, Any]) -> Array:
        values = np.empty(len(node["items"]), dtype=object)
        values[:] = [self.read(item) for item in node["items"]]
        return values.reshape(node["shape"])

    def _object(self, node: dict[str, Any]) -> Any:
        name, content = node["class"], node["fields"]
        if name not in self.codec.classes:
            raise ValueError(f"it has a part of an unknown class, {_shown(name)}")
        kind = self.codec.classes[name]
        expected = [field.name for field in fields(kind)]
        if list(content) != expected:
            raise ValueError(f"its {name} has the fields {', '.join(content)} instead of {', '.join(expected)}")
        value = kind(**{field: self.read(part) for field, part in content.items()})
        return value.restored() if hasattr(value, "restored") else value

    _READERS: ClassVar[dict[str, Callable[[RecordReader, dict[str, Any]], Any]]] = {
        "float": lambda _, node: FLOATS[node["value"]],
        "tuple": lambda reader, node: tuple(reader.read(item) for item in node["items"]),
        "dict": lambda reader, node: {reader.read(key): reader.read(value) for key, value in node["items"]},
        "array": lambda reader, node: reader.array(node),
        "tensor": lambda reader, node: torch.from_numpy(reader.array(node).copy()),
        "values": _values,
        "object": _object,
    }


def _shown(value: Any) -> str:
    return repr(value)[:40]
