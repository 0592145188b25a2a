"""Fitted objects ↔ JSON and arrays: objects of listed classes only."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from likely._typing import Values

FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # numbers that JSON does not have
LARGEST, SMALLEST = float(np.finfo(np.float64).max), float(np.finfo(np.float64).tiny)


class Unsaved(TypeError):
    """Raised for an object that a file cannot hold."""


@dataclass(frozen=True)
class NumberForm:
    """The form of a field of numbers: their bounds, and an axis per letter; None for any number of axes.

    Axes of one letter have one length throughout an object and its parts.
    """

    axes: str | None = ""
    low: float = -LARGEST
    high: float = LARGEST
    rising: bool = False  # along the first axis

    def checked(self, name: str, value: Any, sizes: dict[str, int]) -> float | Values:
        """Return the numbers of a field of that name; lengths of new axes are added to ``sizes``."""
        try:
            array = np.array(value)
        except ValueError:  # rows of several lengths
            array = np.array(None)
        if array.dtype.kind not in "fiu":
            wanted = "a finite number" if self.axes == "" else "a list of numbers, or of rows of one length"
            raise ValueError(f"{name} must be {wanted}, found {shown(value)}")
        if self.axes is not None:
            lengths = dict(zip(self.axes, array.shape, strict=False))
            if array.ndim != len(self.axes) or lengths | sizes != sizes | lengths:
                expected = " × ".join(str(sizes.get(axis, "any")) for axis in self.axes) or 1
                raise ValueError(f"{name} must be {expected} numbers, found {' × '.join(map(str, array.shape)) or 1}")
            sizes.update(lengths)
        if not ((array >= self.low) & (array <= self.high)).all():
            raise ValueError(f"{name} must be from {self.low:.3g} to {self.high:.3g}, found {shown(value)}")
        if self.rising and (np.diff(array, axis=0) < 0).any():
            raise ValueError(f"{name} must rise, found {shown(value)}")
        return array.astype(np.float64) if array.ndim else float(array)


@dataclass(frozen=True)
class Codec:
    """What a file may hold.

    ``classes`` are estimators, dataclasses and named tuples. ``replace`` is called with an object of any other class;
    it returns one that a file can hold, or raises :class:`Unsaved`. If a class has a method ``restored``, reading
    returns what that returns. Where ``numbers`` has the forms of fields, arrays are lists in the JSON itself.
    """

    classes: Mapping[str, type]
    replace: Callable[[Any], Any]
    numbers: Mapping[str, NumberForm] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()  # attributes of estimators that are no part of the model


class RecordWriter:
    """Turns values into JSON, and collects the arrays that it refers to: all arrays of one dtype are parts of one."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self._names = {kind: name for name, kind in codec.classes.items()}
        self._parts: dict[np.dtype[Any], list[Values]] = {}
        self._sizes: dict[np.dtype[Any], int] = {}

    def arrays(self) -> dict[str, Values]:
        """Return the collected arrays, by name."""
        return {f"array_{place}": np.concatenate(parts) for place, parts in enumerate(self._parts.values())}

    def write(self, value: Any) -> Any:
        """Return a value as JSON: JSON's own types and lists unchanged, all else as a record with its class or kind."""
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
            return self.write(value.tolist()) if self.codec.numbers else {"kind": "array", **self._place(value)}
        if isinstance(value, Tensor):
            return {"kind": "tensor", **self._place(value.detach().cpu().numpy())}
        if isinstance(value, torch.device):
            return str(value)
        if type(value) not in self._names:
            return self.write(self.codec.replace(value))
        return self._object(value)

    def _object(self, value: Any) -> dict[str, Any]:
        """Return the class and its arguments; of an estimator also what its fit has set."""
        arguments, is_estimator = inspect.signature(type(value)).parameters, hasattr(value, "get_params")
        record = {"class": self._names[type(value)]}
        for name in arguments:
            try:
                record[name] = self.write(getattr(value, name))
            except Unsaved:
                if not is_estimator:
                    raise  # an argument of an estimator, such as a random generator, has its default where it is read
        fitted = vars(value) if is_estimator else {}
        others = {name: part for name, part in fitted.items() if name not in (*arguments, *self.codec.skipped)}
        return record | {name: self.write(part) for name, part in others.items()}

    def _item(self, key: Any, value: Any) -> list[Any]:
        try:
            return [self.write(key), self.write(value)]
        except Unsaved as error:
            raise Unsaved(f"the member {key!r} cannot be saved without pickle: {error}") from None

    def _place(self, value: Values) -> dict[str, Any]:
        parts, start = self._parts.setdefault(value.dtype, []), self._sizes.get(value.dtype, 0)
        parts.append(value.reshape(-1))
        self._sizes[value.dtype] = start + value.size
        return {"at": f"array_{list(self._parts).index(value.dtype)}", "start": start, "shape": list(value.shape)}


class RecordReader:
    """Turns JSON into values, with the arrays that it refers to, and the lengths of axes that are known."""

    def __init__(self, codec: Codec, arrays: Mapping[str, Values], sizes: Mapping[str, int] | None = None) -> None:
        self.codec, self.arrays, self.sizes = codec, arrays, dict(sizes or {})

    def read(self, node: Any) -> Any:
        """Return the value that a piece of JSON represents."""
        if isinstance(node, list):
            return [self.read(item) for item in node]
        if not isinstance(node, dict):
            return node
        kind = "object" if "class" in node else node.get("kind")
        if not isinstance(kind, str) or kind not in self._READERS:
            raise ValueError(f"it has a record of an unknown kind, {shown(kind)}")
        return self._READERS[kind](self, node)

    def array(self, node: dict[str, Any]) -> Values:
        """Return a part of one of the arrays."""
        name, start, shape = node["at"], node["start"], tuple(node["shape"])
        if name not in self.arrays:
            raise ValueError(f"it lacks the array {shown(name)}")
        return self.arrays[name][start : start + math.prod(shape)].reshape(shape)

    def _dict(self, node: dict[str, Any]) -> dict[Any, Any]:
        items = {self.read(key): self.read(value) for key, value in node["items"]}
        if len(items) < len(node["items"]):
            raise ValueError(f"the names in a record must differ: {shown(list(items))}")
        return items

    def _values(self, node: dict[str, Any]) -> Values:
        values = np.empty(len(node["items"]), dtype=object)
        values[:] = [self.read(item) for item in node["items"]]
        return values.reshape(node["shape"])

    def _object(self, node: dict[str, Any]) -> Any:
        name = node["class"]
        if not isinstance(name, str) or name not in self.codec.classes:
            raise ValueError(f"it has a part of an unknown class, {shown(name)}")
        kind, inner = self.codec.classes[name], RecordReader(self.codec, self.arrays, self.sizes)
        parts = {part: inner.part(name, part, value) for part, value in node.items() if part != "class"}
        arguments = inspect.signature(kind).parameters
        others = {part: value for part, value in parts.items() if part not in arguments}
        if hasattr(kind, "get_params"):
            for part in others:
                if hasattr(kind, part) or "_" not in (part[:1], part[-1:]):
                    raise ValueError(f"{part!r} is neither an argument of {name} nor an attribute that its fit sets")
        elif set(parts) != set(arguments):
            raise ValueError(f"its {name} has the fields {', '.join(parts)} instead of {', '.join(arguments)}")
        value = kind(**{part: parts[part] for part in arguments if part in parts})
        for part, content in others.items():
            setattr(value, part, content)
        return value.restored() if hasattr(value, "restored") else value

    def part(self, owner: str, name: str, node: Any) -> Any:
        """Return the value of a field of an object, which must have the form of that field, if any is known."""
        value, form = self.read(node), self.codec.numbers.get(name)
        return value if form is None else form.checked(f"{name!r} of {owner}", value, self.sizes)

    _READERS: ClassVar[dict[str, Callable[["RecordReader", dict[str, Any]], Any]]] = {
        "float": lambda _, node: FLOATS[node["value"]],
        "tuple": lambda reader, node: tuple(reader.read(item) for item in node["items"]),
        "dict": _dict,
        "array": lambda reader, node: reader.array(node),
        "tensor": lambda reader, node: torch.from_numpy(reader.array(node).copy()),
        "values": _values,
        "object": _object,
    }


def shown(value: Any) -> str:
    """Return a value as an error shows it."""
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
