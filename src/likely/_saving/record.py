"""JSON files of unknown origin: their text, fields that are checked before use, and the arguments of an estimator."""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch

from likely._typing import Array

_LARGEST, _SMALLEST = float(np.finfo(np.float64).max), float(np.finfo(np.float64).tiny)
_MOST = 10**7  # classes, features or steps; a file that claims more would fill the memory
_DIGITS = 1000  # maximum length of a whole number; Python's error for more is harder to read
_WORDS = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


class Record:
    """A JSON object and its name; a field that is missing or has another form raises an error that names it."""

    columns: int | None = None  # how many columns the calibrator reads
    again: Callable[[Record], Any]  # the fitted calibrator of a record inside this one

    def __init__(self, content: Any, name: str, classes: int = 0) -> None:
        if not isinstance(content, dict):
            raise ValueError(f"{name} must be an object, found {_word(content)}")
        self.content, self.name, self.classes = content, name, classes

    def value(self, field: str) -> Any:
        """The field as it is."""
        if field not in self.content:
            raise ValueError(f"{self.name} has no {field!r}")
        return self.content[field]

    def number(self, field: str) -> float:
        """A finite number."""
        self._check(_is_number(self.value(field)), field, "a finite number")
        return float(self.value(field))

    def positive(self, field: str) -> float:
        """A number by which others may be divided: by less than the smallest one with all digits they overflow."""
        value = self.number(field)
        self._check(value >= _SMALLEST, field, "positive" if value <= 0 else f"{_SMALLEST:.3g} or more")
        return value

    def limit(self, field: str) -> float:
        """A number, where null stands for ∞, which JSON does not have."""
        return math.inf if self.value(field) is None else self.number(field)

    def limits(self, field: str) -> Array:
        """Such numbers, one or more."""
        values = self.value(field)
        self._check(isinstance(values, list) and bool(values), field, "a list of numbers")
        return np.array([Record({field: value}, self.name).limit(field) for value in values])

    def whole(self, field: str, least: int = 0) -> int:
        """A whole number from ``least`` to 10⁷."""
        value = self.value(field)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        self._check(is_whole and value >= least, field, f"a whole number ≥ {least}")
        self._check(value <= _MOST, field, f"a whole number ≤ {_MOST}")
        return int(value)

    def truth(self, field: str) -> bool:
        """True or false."""
        self._check(isinstance(self.value(field), bool), field, "true or false")
        return bool(self.value(field))

    def text(self, field: str) -> str:
        """Text."""
        self._check(isinstance(self.value(field), str), field, "text")
        return str(self.value(field))

    def array(self, field: str, *shape: int | None, positive: bool = False) -> Array:
        """Finite numbers in that shape, where None fits any length."""
        try:
            array = np.array(self.value(field))
        except ValueError:
            raise self._unlike(field, "a list of rows of one length") from None
        self._check(array.size > 0 and array.dtype.kind in "fiu", field, "a list of numbers")
        if len(array.shape) != len(shape) or any(
            size not in (None, actual) for size, actual in zip(shape, array.shape, strict=True)
        ):
            wanted = " × ".join("any" if size is None else str(size) for size in shape)
            actual = " × ".join(map(str, array.shape)) or "one"
            raise ValueError(f"{self.name}: {field!r} must be {wanted} numbers, found {actual}")
        numbers = array.astype(np.float64)
        if not np.isfinite(numbers).all():
            raise ValueError(f"{self.name}: {field!r} holds numbers that are not finite")
        if positive and not (numbers >= _SMALLEST).all():
            raise ValueError(f"{self.name}: {field!r} must be positive throughout")
        return numbers

    def per_column(self, field: str, *, positive: bool = False) -> Array:
        """One number for each column that is read."""
        return self.array(field, self.columns, positive=positive)

    def record(self, field: str) -> Record:
        """A record within this one."""
        return Record(self.value(field), f"{self.name}: {field!r}", self.classes)

    def records(self, field: str, count: int | None = None) -> list[Record]:
        """One record or more, or a given number of them."""
        value = self.value(field)
        self._check(isinstance(value, list) and bool(value), field, "a list of one record or more")
        if count not in (None, len(value)):
            raise ValueError(f"{self.name}: {field!r} must hold {count} records, found {len(value)}")
        names = [f"{self.name}: {field!r} {place}" for place in range(len(value))]
        return [Record(content, name, self.classes) for content, name in zip(value, names, strict=True)]

    def _check(self, holds: bool, field: str, wanted: str) -> None:
        if not holds:
            raise self._unlike(field, wanted)

    def _unlike(self, field: str, wanted: str) -> ValueError:
        return ValueError(f"{self.name}: {field!r} must be {wanted}, found {_word(self.value(field))}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _word(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**30:
        return f"a whole number of {len(str(abs(value)))} digits"
    text = _WORDS.get(type(value), "") or repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def laid_out(value: Any, depth: int = 0) -> str:
    """Return JSON with a line per field and per row of numbers."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not (isinstance(value, dict) and value) and not any(isinstance(child, dict | list) for child in children):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    parts = [laid_out(child, depth + 1) for child in children]
    if isinstance(value, dict):
        names = [json.dumps(str(name), ensure_ascii=False) for name in value]
        parts = [f"{name}: {part}" for name, part in zip(names, parts, strict=True)]
    first, last = "{}" if isinstance(value, dict) else "[]"
    pad = "\n" + " " * (depth + 1)
    return first + pad + ("," + pad).join(parts) + "\n" + " " * depth + last


def parsed(text: str, name: str) -> Any:
    """Parse the text; ``name`` is the file's name, for errors."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{name} holds {constant}, which is no number of JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [field for field, _ in pairs]
            twice = max(names, key=names.count)
            raise ValueError(f"{name} has the field {twice!r} twice in one object")
        return fields

    def whole(digits: str) -> int:
        if len(digits) > _DIGITS:
            raise ValueError(f"{name} holds a whole number of {len(digits.lstrip('-'))} digits")
        return int(digits)

    if not text.strip():
        raise ValueError(f"{name} is empty")
    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=once, parse_int=whole)
    except json.JSONDecodeError as error:
        cut = "" if text.rstrip().endswith("}") else "; it does not end with }: was the file cut short?"
        raise ValueError(f"{name} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}{cut}") from None
    except RecursionError:
        raise ValueError(f"{name} is not a model of likely: it is nested too deeply") from None


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
