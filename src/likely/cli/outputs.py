"""A model's outputs in a file: what is needed of them, found by name and looked at."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from likely.cli.arrays import Array, Arrays, times

TASKS = ("auto", "classification", "regression")


@dataclass(frozen=True)
class Names:
    """What the command line says of where things are; None where it says nothing."""

    task: str = "auto"
    logits: str | None = None
    labels: str | None = None
    mean: str | None = None
    scale: str | None = None
    target: str | None = None
    features: str | None = None
    probabilities: bool = False

    def files(self) -> dict[str, Path]:
        """The files among them, by option."""
        named = {f"--{field}": getattr(self, field) for field in ("logits", "labels", "mean", "scale", "target")}
        named["--features"] = self.features
        return {option: Path(name) for option, name in named.items() if name and name.lower().endswith(".npy")}

    def check_used(self, task: str) -> None:
        """Refuse names of what the other task has: they would be ignored."""
        others = ("mean", "scale", "target") if task == "classification" else ("logits", "labels", "probabilities")
        for field in others:
            if getattr(self, field):
                whose = "regressors" if task == "classification" else "classifiers"
                raise ValueError(f"--{field} is for {whose}, and the task is {task}")


@dataclass(frozen=True)
class Outputs:
    """What a model says of some rows, and what was so: logits and labels, or means, scales and targets."""

    predicted: Array  # logits, probabilities or means
    truth: Array | None
    features: Array | None
    scale: Array | None
    task: str
    notes: tuple[str, ...] = ()  # of what had to be mended to read them

    def __len__(self) -> int:
        return len(self.predicted)


def read_outputs(path: Path, names: Names, *, truth: bool) -> Outputs:
    """A model's outputs, with their labels or targets if ``truth`` asks for them or they are named."""
    if names.task not in TASKS:
        raise ValueError(f"--task must be {', '.join(TASKS[:-1])} or {TASKS[-1]}, got {names.task!r}")
    with closing(Arrays(path)) as arrays:
        return _read(arrays, names, truth)


def _read(arrays: Arrays, names: Names, truth: bool) -> Outputs:
    task = names.task if names.task != "auto" else _task(arrays, names)
    if task == "classification":
        usual = ("probabilities", "logits") if names.probabilities else ("logits",)
        own, label = (names.logits, usual, "--logits"), (names.labels, ("labels", "label"), "--labels")
    else:
        own, label = (names.mean, ("mean",), "--mean"), (names.target, ("target", "y"), "--target")
    predicted = arrays.arrays if arrays.single and own[0] is None else arrays.wanted(*own)
    found = {
        own[2][2:]: predicted,
        label[2][2:]: arrays.wanted(*label) if truth or label[0] is not None else None,
        "features": arrays.maybe(names.features, ("features",), "--features"),
        "scale": arrays.maybe(names.scale, ("scale",), "--scale") if task == "regression" else None,
    }
    for name, array in found.items():
        if array is not None:
            _check_numbers(name, array)
            if len(array) != len(predicted):
                raise ValueError(
                    f"{name} are {times(array)}, but {own[2][2:]} {times(predicted)}: as many rows are needed"
                )
    truths, features, scale = (found[name] for name in (label[2][2:], "features", "scale"))
    truths = None if truths is None else _vector(truths)
    if task == "classification":
        _check_classes(predicted, truths, names.probabilities)
        return Outputs(predicted, truths, features, None, task, arrays.notes)
    return Outputs(_vector(predicted), truths, features, None if scale is None else _vector(scale), task, arrays.notes)


def unusual_row(outputs: Outputs) -> str | None:
    """The first row that holds what few fits can do with: an infinity, or a number beyond single precision."""
    limit = float(np.finfo(np.float32).max)
    with np.errstate(invalid="ignore"):
        for name in ("predicted", "truth", "scale", "features"):
            array = getattr(outputs, name)
            if array is None:
                continue
            values = np.asarray(array, dtype=np.float64).reshape(len(array), -1)
            far = ~(np.abs(values) < limit)
            if far.any():
                row = int(np.flatnonzero(far.any(1))[0])
                value = values[row][far[row]][0]
                word = ("logits" if outputs.task == "classification" else "mean") if name == "predicted" else name
                return f"row {row} of the {word} has {value:g}"
    return None


def _task(arrays: Arrays, names: Names) -> str:
    if arrays.single:
        return "regression" if names.target or names.mean or names.scale else "classification"
    usual = ("logits", "probabilities")
    logits = names.logits or names.labels or names.probabilities or arrays.first(*usual) is not None
    mean = names.mean or names.target or arrays.first("mean") is not None
    if logits and mean:
        raise ValueError(f"{arrays.path.name} has logits and means: say --task classification or --task regression")
    return "regression" if mean else "classification"


def _check_numbers(name: str, array: Array) -> None:
    if array.dtype.kind not in "fiub" or array.ndim == 0:
        shown = f", such as {array.flat[0]!r}" if array.size else ""
        raise ValueError(f"{name} must be numbers, a row for each row; found {array.dtype} of {times(array)}{shown}")
    if len(array) == 0:
        raise ValueError(f"{name} have no rows")


def _check_classes(logits: Array, labels: Array | None, probabilities: bool) -> None:
    if logits.ndim == 1 or (logits.ndim == 2 and logits.shape[1] == 1):
        raise ValueError("logits hold one number a row; for two classes give two columns: zeros and these numbers")
    if logits.ndim != 2:
        raise ValueError(f"logits must be rows × classes, found {times(logits)}")
    normal = bool((logits >= 0).all()) and bool((np.abs(logits.sum(1, dtype=np.float64) - 1) < 1e-2).all())
    if normal and not probabilities:
        raise ValueError(
            "every row of the logits is ≥ 0 and sums to one, so they are probabilities: say --probabilities"
        )
    if probabilities and not normal:
        raise ValueError("with --probabilities every row must be ≥ 0 and sum to one; these do not: are they logits?")
    if labels is None:
        return
    if labels.ndim != 1:
        raise ValueError(f"labels must be one class number a row, found {times(labels)}")
    wrong = np.flatnonzero(~np.isfinite(labels) | (labels != np.floor(labels)))
    if len(wrong):
        raise ValueError(
            f"labels must be whole numbers: row {wrong[0]} has {labels[wrong[0]]} ({len(wrong)} such rows)"
        )


def _vector(array: Array) -> Array:
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
