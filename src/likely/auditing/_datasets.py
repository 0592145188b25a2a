"""Data sets that are no tables: Hugging Face's datasets, torch's data sets and loaders, read into a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from likely.auditing._images import CHANNELS
from likely.auditing._source import from_mapping, listed

ROWS = 50_000  # of a torch data set that are read
_WIDE = 2_000  # numbers per row that become columns
_SIDE = 8  # pixels that a picture has at least
_SECOND = ("test", "validation", "valid", "val", "dev")


class Opened(NamedTuple):
    """A data set as a table."""

    table: Any
    target: str | None
    test: pd.DataFrame | None = None
    images: Any = None
    notes: tuple[str, ...] = ()


def open_dataset(data: Any, target: str | None = None) -> Opened | None:
    """Read a data set of Hugging Face or torch into a table; neither ``datasets`` nor its formats are imported.

    >>> from torch.utils.data import TensorDataset
    >>> opened = open_dataset(TensorDataset(torch.zeros(30, 2), torch.arange(30) % 3))
    >>> opened.table.columns.tolist(), opened.target
    (['x0', 'x1', 'target'], 'target')
    """
    if isinstance(data, Mapping) and data and all(_hugging(part) for part in data.values()):
        return _parts(data, target)
    if _hugging(data):
        return _hugged(data, target)
    if hasattr(data, "features") and hasattr(data, "take") and not hasattr(data, "__len__"):
        raise ValueError("the data set is a stream: make a datasets.Dataset of its first rows, by Dataset.from_list")
    if isinstance(data, Dataset | DataLoader):
        return _torch(data, target)
    return None


def _hugging(data: Any) -> bool:
    return all(hasattr(data, name) for name in ("features", "to_pandas", "remove_columns", "with_format", "__len__"))


def _parts(data: Mapping[str, Any], target: str | None) -> Opened:
    """The train part, and the test part as the second table."""
    first = "train" if "train" in data else next(iter(data))
    second = next((name for name in _SECOND if name in data and name != first), None)
    read = _hugged(data[first], target)
    used = [first, second] if second else [first]
    notes = [f"Of the parts, {listed([str(part) for part in used], last=' and ')} are read."] if len(data) > 1 else []
    test = _hugged(data[second], read.target).table if second else None
    return read._replace(test=test, notes=(*notes, *read.notes))


def _hugged(data: Any, target: str | None) -> Opened:
    """A dataset of Hugging Face: labels by their names, lists of numbers as columns, pictures beside the table."""
    kinds = {name: type(feature).__name__ for name, feature in data.features.items()}
    apart = [name for name, kind in kinds.items() if kind in ("Image", "Audio", "Video", "Pdf")]
    frame = data.remove_columns(apart).with_format(None).to_pandas() if len(apart) < len(kinds) else pd.DataFrame()
    frame = frame if len(frame.columns) else _named({}, len(data))
    notes = [f"{name} is {kinds[name].lower()}, which is not checked." for name in apart if kinds[name] != "Image"]
    labels = [name for name, kind in kinds.items() if kind == "ClassLabel"]
    for name in labels:
        names = np.array([*data.features[name].names, None], dtype=object)
        codes = frame[name].fillna(-1).to_numpy(np.int64)  # -1 is how an unknown label is written
        frame[name] = names[np.where((codes < 0) | (codes >= len(names) - 1), len(names) - 1, codes)]
    for name in [name for name in frame.columns if name not in labels]:
        frame = _spread(frame, name, notes)
    if target is None and len(labels) == 1:
        target = labels[0]
        notes.append(f"The target is {target}, the only column of class labels.")
    pictures = [name for name in apart if kinds[name] == "Image"]
    images = None
    if pictures:
        images = _Lazy(data.with_format("arrow"), pictures[0])
        notes += [f"Of the image columns, only {pictures[0]} is checked."] if len(pictures) > 1 else []
    return Opened(frame, target, images=images, notes=tuple(notes))


class _Lazy(list[Any]):
    """The pictures of a column, each read when it is asked for."""

    def __init__(self, arrow: Any, column: str) -> None:
        super().__init__([None] * len(arrow))
        self.arrow, self.column = arrow, column

    def __getitem__(self, row: Any) -> Any:
        return self.arrow[int(row)][self.column][0].as_py()


def _spread(frame: pd.DataFrame, name: str, notes: list[str]) -> pd.DataFrame:
    """The frame with a column of lists of numbers as a column for each place; other lists are left out."""
    first = next((cell for cell in frame[name] if cell is not None), None)
    if not isinstance(first, list | np.ndarray | dict):
        return frame
    rest = frame.drop(columns=name)
    try:
        array = np.array([np.ravel(cell) for cell in frame[name]], np.float64)
    except (TypeError, ValueError):
        array = np.zeros((0, 0))
    if array.ndim != 2 or not 0 < array.shape[1] <= _WIDE:
        notes.append(f"{name} holds lists or records, which are left out.")
        return rest
    return pd.concat([rest, pd.DataFrame(array, columns=[f"{name} {j}" for j in range(array.shape[1])])], axis=1)


def _torch(data: Any, target: str | None) -> Opened:
    """A torch data set, or a loader of one: rows of numbers, or pictures, and their targets."""
    inputs: list[Any] = []
    targets: list[Any] = []
    notes = []
    for pair in _pairs(data):
        inputs.append(pair[0])
        targets += pair[1:2]
        if len(inputs) >= ROWS:
            notes.append(f"The first {ROWS:,} rows are read.")
            break
    if not inputs:
        raise ValueError("the data set is empty")
    named = target or "target"
    y = {named: _numbers(targets)} if len(targets) == len(inputs) else {}
    if isinstance(inputs[0], str):
        return Opened(from_mapping({"text": inputs, **y}), named if y else None, notes=tuple(notes))
    if hasattr(inputs[0], "getbands"):
        return Opened(_named(y, len(inputs)), named if y else None, images=inputs, notes=tuple(notes))
    try:
        array = np.stack([np.asarray(item, np.float32) for item in inputs])
    except (TypeError, ValueError):
        raise ValueError(
            "the inputs are not numbers of one shape, images or text: give a model as well, audit(model, loader)"
        ) from None
    if _is_picture(array):
        return Opened(_named(y, len(inputs)), named if y else None, images=array, notes=tuple(notes))
    flat = array.reshape(len(array), -1)
    if flat.shape[1] > _WIDE:
        raise ValueError(f"there are {flat.shape[1]:,} numbers per row: give a model as well, audit(model, loader)")
    frame = pd.DataFrame(flat, columns=[f"x{j}" for j in range(flat.shape[1])]).assign(**y)
    return Opened(frame, named if y else None, notes=tuple(notes))


def _named(columns: Mapping[str, Any], rows: int) -> pd.DataFrame:
    """The columns beside some pictures; where there are none, names of the pictures."""
    if len(columns):
        return pd.DataFrame(columns)
    return pd.DataFrame({"image": [f"image {row}" for row in range(rows)]})


def _is_picture(array: NDArray[Any]) -> bool:
    """Whether an array holds pictures: (rows, height, width), or with channels first or last."""
    if array.ndim == 3:
        return min(array.shape[1:]) >= _SIDE
    return array.ndim == 4 and bool({array.shape[1], array.shape[3]} & set(CHANNELS))


def _pairs(data: Any) -> Iterable[tuple[Any, ...]]:
    """One tuple (input, target) per row, of a data set or of a loader's batches."""
    if isinstance(data, DataLoader):
        for batch in data:
            parts = batch if isinstance(batch, list | tuple) else (batch,)
            yield from zip(*parts[:2], strict=True)
        return
    items = (data[i] for i in range(len(data))) if hasattr(data, "__len__") else iter(data)
    for item in items:
        yield tuple(item[:2]) if isinstance(item, list | tuple) else (item,)


def _numbers(targets: list[Any]) -> Any:
    """Targets as whole numbers, floats, or words."""
    if isinstance(targets[0], str):
        return targets
    array = np.array(
        [float(value) if torch.is_tensor(value) and value.is_floating_point() else value for value in targets]
    )
    return array.reshape(len(targets), -1)[:, 0]
