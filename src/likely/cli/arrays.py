"""Arrays in files, and columns of tables, by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely.auditing._loading import loading

Array = NDArray[Any]


class Arrays:
    """The arrays of an npz or npy file, or the columns of a table; nothing is unpickled.

    A table's matrix is the columns of one name and a number, such as ``logit_0``, ``logit_1``, …, a column of lists, or
    columns named with commas between.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise FileNotFoundError(f"{path} is not a file" if path.exists() else f"{path} does not exist")
        self.frame: Any = None
        self.arrays: Any = {}
        self.notes: tuple[str, ...] = ()
        if path.suffix.lower() in (".npz", ".npy"):
            self.arrays = _loaded(path)
        else:
            from likely.auditing._read import read_table

            table = read_table(path)
            if table.ragged:
                row, wrong = next(iter(table.ragged.items()))
                raise ValueError(f"{path.name}, row {row}: {wrong}")
            self.frame, self.notes, self.check_single = table.frame, table.notes, table.check_single
        self.single = isinstance(self.arrays, np.ndarray)

    def close(self) -> None:
        """Close the file, where one is open."""
        if hasattr(self.arrays, "close"):
            self.arrays.close()

    def first(self, *names: str) -> Array | None:
        """The array of the first of these names that the file has."""
        return next((found for name in names if (found := self._named(name)) is not None), None)

    def wanted(self, asked: str | None, names: tuple[str, ...], option: str) -> Array:
        """The array that was asked for, else the one of the usual name; an error says what there is."""
        found = self.maybe(asked, names, option)
        if found is None:
            raise ValueError(f"{self.path.name} has no {names[0]}: {self._inventory()}; name yours by {option}")
        return found

    def maybe(self, asked: str | None, names: tuple[str, ...], option: str) -> Array | None:
        """The same, or None if none was asked for and there is none."""
        if asked is None:
            return self.first(*names)
        if asked.lower().endswith(".npy"):
            return np.asarray(_loaded(Path(asked)))
        if (named := self._named(asked)) is None:
            raise ValueError(f"{self.path.name} has no {asked!r} for {option}: {self._inventory()}")
        return named

    def _named(self, name: str) -> Array | None:
        if self.single:
            return None
        if self.frame is None:
            return self._member(name) if name in self.arrays else None
        columns = [str(column) for column in self.frame.columns]
        if name in columns:
            self.check_single(name)
            return _column(self.frame[name])
        listed = [part.strip() for part in name.split(",")]
        chosen = listed if len(listed) > 1 and set(listed) <= set(columns) else _numbered(name, columns)
        for column in chosen:
            self.check_single(column)
        return np.stack([_numbers(self.frame[column], column) for column in chosen], axis=1) if chosen else None

    def _member(self, name: str) -> Array:
        with loading(self.path):
            return np.asarray(self.arrays[name])

    def _inventory(self) -> str:
        if self.single:
            return f"it is one array of {times(self.arrays)}, so name a second .npy"
        if self.frame is not None:
            shown = [repr(str(column)) for column in self.frame.columns[:12]]
            return f"its columns are {', '.join(shown)}" + (" …" if len(self.frame.columns) > 12 else "")
        held = [f"{name} ({times(self._member(name))})" for name in self.arrays]
        return f"it holds {', '.join(held)}" if held else "it holds no arrays"


def _loaded(path: Path) -> Any:
    """An array, or an open archive of some."""
    with loading(path):
        return np.load(path, mmap_mode="r" if path.suffix.lower() == ".npy" else None, allow_pickle=False)


def _numbered(name: str, columns: list[str]) -> list[str]:
    """Columns of the name and a number, in the order of their numbers, without a gap."""
    pattern = re.compile(rf"{re.escape(name.removesuffix('s'))}s?[ _.-]?(\d+)")
    found = {int(match.group(1)): column for column in columns if (match := pattern.fullmatch(column))}
    order = sorted(found)
    if order and (order[0] > 1 or order != list(range(order[0], order[0] + len(order)))):
        numbers = ", ".join(map(str, order[:12]))
        raise ValueError(f"the columns of {name} are numbered {numbers}: one is missing")
    return [found[number] for number in order]


def _column(column: Any) -> Array:
    values = column.to_numpy()
    if values.dtype == object and len(values) and isinstance(values[0], list | tuple | np.ndarray):
        if len({len(row) for row in values}) > 1:
            raise ValueError(f"the lists of column {column.name!r} are not of one length")
        return np.stack([np.asarray(row) for row in values])
    return np.asarray(values)


def _numbers(column: Any, name: str) -> Array:
    values = column.to_numpy()
    if values.dtype.kind not in "fiub":
        raise ValueError(f"column {name!r} holds something other than numbers")
    return np.asarray(values)


def times(array: Array) -> str:
    """Its shape in words."""
    return " × ".join(map(str, array.shape)) or "one number"
