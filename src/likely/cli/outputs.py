"""Reading a model's outputs from a file: arrays or columns are found by their names, and checked."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely._files import loading

Array = NDArray[Any]
TASKS = ("auto", "classification", "regression")
# The predictions and the truth of each task, and the usual names of their arrays.
USUAL: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "classification": (("logits", ("logits",)), ("labels", ("labels", "label"))),
    "regression": (("mean", ("mean",)), ("target", ("target", "y"))),
}


@dataclass(frozen=True)
class Names:
    """The names that the command line gives to arrays; None where it gives none."""

    task: str = "auto"
    logits: str | None = None
    labels: str | None = None
    mean: str | None = None
    scale: str | None = None
    target: str | None = None
    features: str | None = None
    probabilities: bool = False

    def files(self) -> dict[str, Path]:
        """The names that are files, by option."""
        named = {name: value for name, value in vars(self).items() if name not in ("task", "probabilities") and value}
        return {f"--{name}": Path(value) for name, value in named.items() if value.lower().endswith(".npy")}

    def check_used(self, task: str) -> None:
        """Raise an error for names of the other task's arrays, which would be ignored."""
        others = ("mean", "scale", "target") if task == "classification" else ("logits", "labels", "probabilities")
        for field in others:
            if getattr(self, field):
                whose = "regressors" if task == "classification" else "classifiers"
                raise ValueError(f"--{field} is for {whose}, and the task is {task}")


@dataclass(frozen=True)
class Outputs:
    """Predictions of a model and the truth: logits and labels, or means, scales and targets."""

    predicted: Array  # logits, probabilities or means
    truth: Array | None
    features: Array | None
    scale: Array | None
    task: str
    notes: tuple[str, ...] = ()  # repairs that reading the file needed

    def __len__(self) -> int:
        return len(self.predicted)

    def unusual_row(self) -> str | None:
        """The first row with a value that makes most fits fail: an infinity, or a number beyond single precision."""
        limit = float(np.finfo(np.float32).max)
        word = USUAL[self.task][0][0]
        parts = {word: self.predicted, "truth": self.truth, "scale": self.scale, "features": self.features}
        for name, array in parts.items():
            if array is None:
                continue
            values = np.asarray(array, dtype=np.float64).reshape(len(array), -1)
            far = ~(np.abs(values) < limit)
            if far.any():
                row = int(np.flatnonzero(far.any(1))[0])
                return f"row {row} of the {name} has {values[row][far[row]][0]:g}"
        return None


class Arrays:
    """The arrays of an npz or npy file, or the columns of a table; nothing is unpickled.

    A matrix in a table is several columns with one name and a number, such as ``logit_0``, ``logit_1``, …, a column of
    lists, or columns whose names are separated by commas.
    """

    def __init__(self, path: Path, table: Any = None) -> None:
        self.path = path
        self.table: Any = None
        self.arrays: Any = {}
        self.notes: tuple[str, ...] = ()
        if table is None and path.suffix.lower() in (".npz", ".npy"):
            self.arrays = _loaded(path)
        else:
            from likely.auditing._read import read_table

            self.table = read_table(path if table is None else table)
            self.notes = self.table.notes
            for row, wrong in self.table.ragged.items():
                raise ValueError(f"{path.name}, row {row}: {wrong}")
        self.single = isinstance(self.arrays, np.ndarray)

    def close(self) -> None:
        """Close the file, if one is open."""
        if hasattr(self.arrays, "close"):
            self.arrays.close()

    def find(self, asked: str | None, names: tuple[str, ...], option: str, *, needed: bool = False) -> Array | None:
        """The array named on the command line, else one with a usual name; else None, or an error if it is needed.

        ``asked`` is a name in the file, or another file that ends in ``.npy``.
        """
        if asked is not None and asked.lower().endswith(".npy"):
            return np.asarray(_loaded(Path(asked)))
        candidates = names if asked is None else (asked,)
        values = next((array for name in candidates if (array := self._named(name)) is not None), None)
        if values is None and asked is not None:
            raise ValueError(f"{self.path.name} has no {asked!r} for --{option}: {self._inventory()}")
        if values is None and needed:
            raise ValueError(f"{self.path.name} has no {names[0]}: {self._inventory()}; name yours by --{option}")
        return values

    def _named(self, name: str) -> Array | None:
        if self.single:
            return None
        if self.table is None:
            return self._member(name) if name in self.arrays else None
        columns = list(self.table.frame.columns)
        if name in columns:
            self.table.check_single(name)
            return _column(self.table.frame[name])
        listed = [part.strip() for part in name.split(",")]
        chosen = listed if set(listed) <= set(columns) else _numbered(name, columns)
        for column in chosen:
            self.table.check_single(column)
        return np.stack([_numbers(self.table.frame[column]) for column in chosen], axis=1) if chosen else None

    def _member(self, name: str) -> Array:
        with loading(self.path):
            return np.asarray(self.arrays[name])

    def _inventory(self) -> str:
        if self.single:
            return f"it is a single array of {times(self.arrays)}, so the others need an .npy file each"
        if self.table is not None:
            columns = self.table.frame.columns
            return f"its columns are {', '.join(map(repr, columns[:12]))}" + (" …" if len(columns) > 12 else "")
        names = [f"{name} ({times(self._member(name))})" for name in self.arrays]
        return f"it holds {', '.join(names)}" if names else "it holds no arrays"


def read_outputs(path: Path, names: Names, *, truth: bool, table: Any = None) -> Outputs:
    """Read a model's outputs, with labels or targets if they are needed or named."""
    if names.task not in TASKS:
        raise ValueError(f"--task must be {', '.join(TASKS[:-1])} or {TASKS[-1]}, got {names.task!r}")
    with closing(Arrays(path, table)) as arrays:
        return _read(arrays, names, truth)


def _read(arrays: Arrays, names: Names, truth: bool) -> Outputs:
    task = names.task if names.task != "auto" else _task(arrays, names)
    (prediction, usual), (true, usual_truth) = USUAL[task]
    asked, asked_truth = getattr(names, prediction), getattr(names, true)
    if names.probabilities:
        usual = ("probabilities", *usual)
    alone = arrays.single and asked is None
    parts: dict[str, Any] = {
        prediction: arrays.arrays if alone else arrays.find(asked, usual, prediction, needed=True),
        true: arrays.find(asked_truth, usual_truth, true, needed=True) if truth or asked_truth is not None else None,
        "features": arrays.find(names.features, ("features",), "features"),
        "scale": arrays.find(names.scale, ("scale",), "scale") if task == "regression" else None,
    }
    predicted = parts[prediction]
    for name, array in parts.items():
        if array is not None:
            _check_numbers(name, array)
            if len(array) != len(predicted):
                raise ValueError(
                    f"{name} are {times(array)}, but {prediction} {times(predicted)}: as many rows are needed"
                )
    vectors = {
        name: array[:, 0] if array is not None and array.ndim == 2 and array.shape[1] == 1 else array
        for name, array in parts.items()
    }
    if task == "classification":
        _check_classes(predicted, vectors[true], names.probabilities)
    else:
        predicted = vectors[prediction]
    return Outputs(predicted, vectors[true], parts["features"], vectors["scale"], task, arrays.notes)


def _task(arrays: Arrays, names: Names) -> str:
    if arrays.single:
        return "regression" if names.target or names.mean or names.scale else "classification"
    usual = ("logits", "probabilities")
    logits = names.logits or names.labels or names.probabilities or arrays.find(None, usual, "logits") is not None
    mean = names.mean or names.target or arrays.find(None, ("mean",), "mean") is not None
    if logits and mean:
        raise ValueError(f"{arrays.path.name} has logits and means: choose --task classification or --task regression")
    return "regression" if mean else "classification"


def _check_numbers(name: str, array: Array) -> None:
    if array.dtype.kind not in "fiub" or array.ndim == 0:
        shown = f", such as {array.flat[0]!r}" if array.size else ""
        raise ValueError(f"{name} must be numbers, one entry per row; found {array.dtype} of {times(array)}{shown}")
    if len(array) == 0:
        raise ValueError(f"{name} have no rows")


def _check_classes(logits: Array, labels: Array | None, probabilities: bool) -> None:
    if logits.ndim == 1 or (logits.ndim == 2 and logits.shape[1] == 1):
        raise ValueError("logits have one number per row; for two classes give two columns: zeros and these numbers")
    if logits.ndim != 2:
        raise ValueError(f"logits must be rows × classes, found {times(logits)}")
    normal = bool((logits >= 0).all()) and bool((np.abs(logits.sum(1, dtype=np.float64) - 1) < 1e-2).all())
    if normal and not probabilities:
        raise ValueError(
            "every row of the logits is ≥ 0 and sums to one, so they are probabilities: add --probabilities"
        )
    if probabilities and not normal:
        raise ValueError("with --probabilities every row must be ≥ 0 and sum to one; these do not: are they logits?")
    if labels is None:
        return
    if labels.ndim != 1:
        raise ValueError(f"labels must be one class number per row, found {times(labels)}")
    wrong = np.flatnonzero(~np.isfinite(labels) | (labels != np.floor(labels)))
    if len(wrong):
        raise ValueError(
            f"labels must be whole numbers: row {wrong[0]} has {labels[wrong[0]]} ({len(wrong)} such rows)"
        )


def _loaded(path: Path) -> Any:
    """An array, or an open archive of arrays."""
    with loading(path):
        return np.load(path, mmap_mode="r" if path.suffix.lower() == ".npy" else None, allow_pickle=False)


def _numbered(name: str, columns: list[str]) -> list[str]:
    """The columns with this name and a number, sorted by number; an error if a number is missing."""
    pattern = re.compile(rf"{re.escape(name.removesuffix('s'))}s?[ _.-]?(\d+)")
    by_number = {int(match.group(1)): column for column in columns if (match := pattern.fullmatch(column))}
    order = sorted(by_number)
    if order and (order[0] > 1 or order != list(range(order[0], order[0] + len(order)))):
        numbers = ", ".join(map(str, order[:12]))
        raise ValueError(f"the columns of {name} are numbered {numbers}: one is missing")
    return [by_number[number] for number in order]


def _column(column: Any) -> Array:
    values = column.to_numpy()
    if values.dtype == object and len(values) and isinstance(values[0], list | tuple | np.ndarray):
        if len({len(row) for row in values}) > 1:
            raise ValueError(f"the lists of column {column.name!r} differ in length")
        return np.stack([np.asarray(row) for row in values])
    return np.asarray(values)


def _numbers(column: Any) -> Array:
    values = column.to_numpy()
    if values.dtype.kind not in "fiub":
        raise ValueError(f"column {column.name!r} has values that are not numbers")
    return np.asarray(values)


def times(array: Array) -> str:
    """The shape of an array in words."""
    return " × ".join(map(str, array.shape)) or "one number"
