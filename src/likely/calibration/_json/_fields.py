"""The fields of a record in a JSON file that may be anybody's: each is looked at before it is used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST, SMALLEST = float(np.finfo(np.float64).max), float(np.finfo(np.float64).tiny)
MOST = 10**7  # classes, features or steps; a file that claims more would fill the memory
_WORDS = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


class Record:
    """A JSON object and its name; what it lacks, or has in another form, is an error that says so."""

    def __init__(self, content: Any, name: str) -> None:
        if not isinstance(content, dict):
            raise ValueError(f"{name} must be an object, found {_word(content)}")
        self.content, self.name = content, name

    def value(self, field: str) -> Any:
        """The field as it is."""
        if field not in self.content:
            raise ValueError(f"{self.name} has no {field!r}")
        return self.content[field]

    def number(self, field: str, *, positive: bool = False) -> float:
        """A finite number."""
        value = self.value(field)
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
            raise self._unlike(field, "a finite number", value)
        if positive and value < SMALLEST:  # what is divided by less overflows
            raise self._unlike(field, "positive" if value <= 0 else f"{SMALLEST:.3g} or more", value)
        return float(value)

    def limit(self, field: str) -> float:
        """A number, where null stands for ∞, which JSON does not have."""
        return math.inf if self.value(field) is None else self.number(field)

    def limits(self, field: str) -> NDArray[np.float64]:
        """Such numbers, one or more."""
        values = self.value(field)
        if not isinstance(values, list) or not values:
            raise self._unlike(field, "a list of numbers", values)
        return np.array([Record({field: value}, self.name).limit(field) for value in values])

    def whole(self, field: str, least: int = 0, most: int = MOST) -> int:
        """A whole number from ``least`` to ``most``."""
        value = self.value(field)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self._unlike(field, f"a whole number ≥ {least}", value)
        if value > most:
            raise self._unlike(field, f"a whole number ≤ {most}", value)
        return value

    def truth(self, field: str) -> bool:
        """True or false."""
        value = self.value(field)
        if not isinstance(value, bool):
            raise self._unlike(field, "true or false", value)
        return value

    def text(self, field: str) -> str:
        """Text."""
        value = self.value(field)
        if not isinstance(value, str):
            raise self._unlike(field, "text", value)
        return value

    def array(self, field: str, *shape: int | None, positive: bool = False) -> NDArray[np.float64]:
        """Finite numbers in that shape, where None fits any length."""
        value = self.value(field)
        try:
            array = np.array(value)
        except ValueError:
            raise self._unlike(field, "a list of rows of one length", value) from None
        if array.size == 0 or array.dtype.kind not in "fiu":
            raise self._unlike(field, "a list of numbers", value)
        if len(array.shape) != len(shape) or any(
            own not in (None, found) for own, found in zip(shape, array.shape, strict=True)
        ):
            wanted = " × ".join("any" if own is None else str(own) for own in shape)
            raise ValueError(f"{self.name}: {field!r} must be {wanted} numbers, found {_times(array.shape)}")
        numbers = array.astype(np.float64)
        if not np.isfinite(numbers).all():
            raise ValueError(f"{self.name}: {field!r} holds numbers that are not finite")
        if positive and not (numbers >= SMALLEST).all():
            raise ValueError(f"{self.name}: {field!r} must be positive throughout")
        return numbers

    def interval(self, low: NDArray[np.float64], high: NDArray[np.float64], fields: str) -> None:
        """Refuse ends of which one that should be the lower is above the other."""
        if (low > high).any():
            raise ValueError(f"{self.name}: {fields} must be a lower end and then an upper one, found them reversed")

    def record(self, field: str) -> Record:
        """A record within this one."""
        return Record(self.value(field), f"{self.name}: {field!r}")

    def records(self, field: str) -> list[Record]:
        """One record or more."""
        value = self.value(field)
        if not isinstance(value, list) or not value:
            raise self._unlike(field, "a list of one record or more", value)
        return [Record(each, f"{self.name}: {field!r} {place}") for place, each in enumerate(value)]

    def _unlike(self, field: str, wanted: str, found: Any) -> ValueError:
        return ValueError(f"{self.name}: {field!r} must be {wanted}, found {_word(found)}")


def bare(number: float) -> float | None:
    """The number, or None for one that JSON does not have."""
    return float(number) if math.isfinite(number) else None


def _word(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**30:
        return f"a whole number of {len(str(abs(value)))} digits"
    text = _WORDS.get(type(value), "") or repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "one"
