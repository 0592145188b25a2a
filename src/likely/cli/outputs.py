"""A model's outputs in the files that a command line names: arrays or columns are found by name, and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from likely._files import keep_inputs, loading, writable
from likely._rows.blocks import is_one_file
from likely._rows.sources import Source, source_of
from likely._typing import Index, Values

TASKS = {"classification": ("logits", "labels"), "regression": ("mean", "target")}  # the predictions and the truth
ALSO = {"logits": ("probabilities", "probability"), "labels": ("label",), "target": ("y",)}  # other usual names

Names = dict[str, str | None]  # that the command line gives to arrays; None where it gives none


def task_of(names: Names) -> str | None:
    """The kind of model that has outputs of these names; None if both kinds have."""
    of_regressor = [name for name in ("mean", "scale", "target") if names.get(name)]
    of_classifier = [name for name in ("logits", "labels") if names.get(name)]
    if of_regressor and of_classifier:
        raise ValueError(f"--{of_classifier[0]} is for classifiers and --{of_regressor[0]} for regressors")
    return "regression" if of_regressor else "classification" if of_classifier else None


@dataclass(frozen=True)
class Outputs:
    """Predictions of a model and the truth: logits and labels, or means, scales and targets."""

    predicted: Values  # logits, probabilities or means
    are_probabilities: bool
    truth: Any  # an array; None where it is not read
    features: Values | None
    scale: Values | None
    task: str
    notes: tuple[str, ...]  # repairs that reading the file needed
    class_names: tuple[str, ...]  # of labels that are texts

    def __len__(self) -> int:
        return len(self.predicted)

    def rows(self, rows: Index) -> Outputs:
        """Some of the rows."""
        arrays: dict[str, Any] = {name: own[rows] for name, own in vars(self).items() if isinstance(own, np.ndarray)}
        return replace(self, **arrays)

    def about(self, data: str) -> dict[str, Any]:
        """What is printed about the file."""
        about = {
            "data": data,
            "rows": len(self),
            "classes": self.predicted.shape[1] if self.task == "classification" else 0,
            "class_names": list(self.class_names),
            "features": 0 if self.features is None else int(self.features.shape[-1]),
            "notes": list(self.notes),
        }
        return {name: value for name, value in about.items() if value or name == "features"}


@dataclass(frozen=True)
class Arrays:
    """The arrays of an npz file, or the columns of a table; nothing is unpickled.

    A matrix in a table is several columns with one name and a number, such as ``logit_0``, ``logit_1``, …, a column of
    lists, or columns whose names are separated by commas.
    """

    file: str
    arrays: dict[str, Values]
    notes: tuple[str, ...] = ()
    repeated: frozenset[str] = frozenset()  # names that more than one column has

    @classmethod
    def read(cls, path: Path, table: Any = None) -> Arrays:
        """Read a file, or take a table that was read from it."""
        if table is None and path.suffix.lower() == ".npz":
            with loading(path), np.load(path, allow_pickle=False) as archive:
                return cls(path.name, dict(archive))
        from likely._rows.reading.read_table import read_table

        read = read_table(path if table is None else table)
        for row, wrong in read.ragged.items():
            raise ValueError(f"{path.name}, row {row}: {wrong}")
        columns = {str(name): _column(read.frame[name]) for name in read.frame.columns}
        return cls(path.name, columns, read.notes, read.repeated)

    def find(self, name: str, asked: str | None = None, *, needed: bool = False) -> Values | None:
        """The array named on the command line, else one with a usual name; else None, or an error if it is needed."""
        for own in (name, *ALSO.get(name, ())) if asked is None else (asked,):
            if (values := self._named(own)) is not None:
                return values
        if not (asked or needed):
            return None
        held = [f"{own} ({_shape(array)})" for own, array in self.arrays.items()]
        more = " …" if len(held) > 12 else ""
        holds = f"it holds {', '.join(held[:12])}{more}" if held else "it holds no arrays"
        if asked:
            raise ValueError(f"{self.file} has no {asked!r} for --{name}: {holds}")
        raise ValueError(f"{self.file} has no {name}: {holds}; name yours by --{name} (columns: --{name} a,b,c)")

    def _named(self, name: str) -> Values | None:
        listed = [part.strip() for part in name.split(",")]
        single = name in self.arrays
        names = [name] if single else listed if set(listed) <= self.arrays.keys() else self._numbered(name)
        for part in names:
            if part in self.repeated:
                raise ValueError(f"{self.file} has more than one column named {part!r}: rename all but one of them")
        if single:
            return self.arrays[name]
        return np.stack([self.arrays[part] for part in names], axis=1) if names else None

    def _numbered(self, name: str) -> list[str]:
        """The columns with this name and a number, sorted by number; an error if a number is missing."""
        pattern = re.compile(rf"{re.escape(name.removesuffix('s'))}s?[ _.-]?(\d+)")
        matches = [match for column in self.arrays if (match := pattern.fullmatch(column))]
        by_number = {int(match[1]): match[0] for match in matches}
        order = sorted(by_number)
        if order and (order[0] > 1 or order[-1] - order[0] >= len(order)):
            numbers = ", ".join(map(str, order[:12]))
            raise ValueError(f"the columns of {name} are numbered {numbers}: one is missing")
        return [by_number[number] for number in order]


def read_outputs(
    path: Path,
    names: Names,
    *,
    task: str | None = None,
    truth: bool,
    table: Any = None,
    class_names: tuple[str, ...] = (),
) -> Outputs:
    """Read a model's outputs, with labels or targets if ``truth``; the task follows from the names, or the arrays."""
    arrays = Arrays.read(path, table)
    task = task or task_of(names) or _task(arrays)
    prediction, true = TASKS[task]
    if task == "classification" and truth:
        class_names = _class_names(arrays, names)
    notes = arrays.notes
    if class_names and not names.get("logits"):
        if set(class_names) <= arrays.arrays.keys():
            names = names | {"logits": ",".join(class_names)}
        else:
            notes += (f"taken for the classes of the logits, in their order: {', '.join(class_names)}",)
    wanted = [prediction, *([true] if truth else []), "features", *(["scale"] if task == "regression" else [])]
    parts = {name: arrays.find(name, names.get(name), needed=name in (prediction, true)) for name in wanted}
    predicted: Any = parts[prediction]
    if class_names and truth and predicted.shape[1:] == (len(class_names),):
        labels: Any = parts[true]
        place = {name: k for k, name in enumerate(class_names)}
        parts[true] = np.array([place[label] for label in labels.flat])
    for name, array in parts.items():
        if array is None:
            continue
        if array.dtype.kind not in "fiub" or array.ndim == 0:
            shown = f", such as {array.flat[0]!r}" if array.size else ""
            found = f"{array.dtype} of {_shape(array)}{shown}"
            raise ValueError(f"{name} must be numbers, one entry per row; found {found}")
        if len(array) != len(predicted):
            raise ValueError(
                f"{name} are {_shape(array)}, but {prediction} {_shape(predicted)}: as many rows are needed"
            )
        if name != "features" and array.shape[1:] == (1,):
            parts[name] = array[:, 0]
    predicted = parts[prediction]
    shares = False
    if task == "classification":
        if predicted.ndim == 1:
            raise ValueError(
                "logits have one number per row; for two classes give two columns: zeros and these numbers"
            )
        if predicted.ndim != 2:
            raise ValueError(f"logits must be rows × classes, found {_shape(predicted)}")
        sums = predicted.sum(1, dtype=np.float64)
        shares = bool((predicted >= 0).all() and (np.abs(sums - 1) < 1e-2).all())
        if class_names and not shares and bool(((predicted >= 0) & (predicted <= 1)).all()):
            raise ValueError(f"the columns {', '.join(class_names)} do not sum to one: list all classes by --logits")
    return Outputs(predicted, shares, parts.get(true), parts["features"], parts.get("scale"), task, notes, class_names)


def _class_names(arrays: Arrays, names: Names) -> tuple[str, ...]:
    """Names of the classes, where labels are texts: as the logits are listed, else sorted, as scikit-learn has them."""
    labels = arrays.find("labels", names.get("labels"))
    if labels is None or not all(isinstance(label, str) for label in labels.flat):
        return ()
    listed = [part.strip() for part in (names.get("logits") or "").split(",")]
    return tuple(listed if set(labels.flat) <= set(listed) else sorted(set(labels.flat)))


def _task(arrays: Arrays) -> str:
    has_logits, has_mean = (arrays.find(name) is not None for name in ("logits", "mean"))
    if has_logits and has_mean:
        raise ValueError(f"{arrays.file} has logits and means: name those to calibrate, by --logits or --mean")
    return "regression" if has_mean else "classification"


def _column(column: Any) -> Values:
    values = column.to_numpy()
    if values.dtype == object and len(values) and isinstance(values[0], list | tuple | np.ndarray):
        if len({len(row) for row in values}) > 1:
            raise ValueError(f"the lists of column {column.name!r} differ in length")
        return np.stack([np.asarray(row) for row in values])
    return np.asarray(values)


def _shape(array: Values) -> str:
    """The shape of an array in words."""
    return " × ".join(map(str, array.shape)) or "one number"


def one_or_several(named: list[str] | None) -> tuple[Any, list[str]]:
    """What the DATA arguments of an audit name, and the files among it."""
    if not named:
        return None, []
    data = named[0] if len(named) == 1 else named
    source = several_files(data)
    return (Path(named[0]), named) if source is None else (data, list(source.paths))


def several_files(data: Any) -> Source | None:
    """The table in several files, a folder, a glob or a URL, which is read in blocks; None for a single file."""
    return None if is_one_file(data) else source_of(data)


def check_output(out: Path, inputs: dict[str, Any], source: Source | None) -> None:
    """Raise an error, before any work, if OUT is one of the inputs or a folder, or cannot be written."""
    if not out.parent.is_dir():
        raise FileNotFoundError(f"the folder {out.parent} of --out does not exist")
    for path in [inputs["DATA"]] if source is None else source.paths:
        keep_inputs([out], inputs | {"DATA": path})
    if not out.exists() or out.is_file():  # otherwise a pipe or a device, which is written to directly
        with writable(out.parent):
            pass
