"""A fitted estimator of tables as one file: arrays of NumPy, and a header of JSON that describes them."""

from __future__ import annotations

import inspect
import io
import json
import math
import os
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from likely._files import loading, replacing
from likely.tabular._importance import Sample
from likely.tabular._saving._frame import plain_rows, restored_rows
from likely.tabular._saving._read import Reader
from likely.tabular._saving._write import Unsaved, Writer

FORMAT = 1
HEADER = "header.json"
CLASSES = ("LikelihoodRegressor", "LikelihoodClassifier")
EQUAL = 1e-9  # largest difference of predictions before and after saving
ALIKE, MOST = 1e-3, 0.9  # the same for a model on another device, and the share of rows that must meet it
PASSING = ("_began", "_metadata_request")  # attributes that are no part of the model
DATE = (1980, 1, 1, 0, 0, 0)  # constant, so that equal models are saved as equal files

Arrays = dict[str, np.ndarray[Any, Any]]


def save_model(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator; see its ``save``."""
    check_is_fitted(estimator)
    header, arrays = _written(estimator)
    _check_equal(estimator, _restored(type(estimator), header, arrays))
    text = json.dumps(header, allow_nan=False, ensure_ascii=True)
    with (
        replacing(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        archive.writestr(_entry(HEADER), text)
        for name, array in arrays.items():
            with archive.open(_entry(f"{name}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)


def load_model(cls: type, path: str | os.PathLike[str]) -> Any:
    """Return the estimator in a file that :func:`save_model` wrote; see its ``load``."""
    file = Path(path)
    with loading(file), zipfile.ZipFile(file) as archive:
        try:
            return _read(cls, archive)
        except (ValueError, MemoryError, OSError, EOFError, zipfile.BadZipFile, zlib.error, ImportError):
            raise
        except Exception as error:
            raise ValueError(f"it is damaged ({type(error).__name__}: {error})") from error


def _read(cls: type, archive: zipfile.ZipFile) -> Any:
    header, kind = _header(archive), _kind(cls)
    if header["class"] != kind:
        raise ValueError(f"it holds a {header['class'][:40]} and not a {kind}: use the load of that class")
    arrays = {name[:-4]: _array(archive, name) for name in archive.namelist() if name.endswith(".npy")}
    estimator = _restored(cls, header, arrays)
    estimator._location_and_log_scale(estimator._sample.X[:2])  # raises an error for a model that cannot predict
    return estimator


def _written(estimator: Any) -> tuple[dict[str, Any], Arrays]:
    writer, parameters = Writer(), estimator.get_params(deep=False)
    skipped = {*parameters, *PASSING, "_sample"}
    state = {name: value for name, value in vars(estimator).items() if name not in skipped}
    try:
        fitted = {name: writer.write(value) for name, value in state.items()}
        rows = writer.write(plain_rows(estimator._sample.X, estimator.columns_))
    except Unsaved as error:
        raise TypeError(f"the model is not saved: {error}") from error
    header = {
        "format": FORMAT,
        "likely": _version(),
        "class": _kind(type(estimator)),
        "parameters": {
            name: plain for name, value in parameters.items() if (plain := _plain(value)) is not NotImplemented
        },
        "fitted": fitted,
        "sample": rows,
    }
    return header, writer.arrays


def _restored(cls: type, header: dict[str, Any], arrays: Arrays) -> Any:
    reader, parameters = Reader(arrays), header["parameters"]
    unknown = set(parameters) - set(inspect.signature(cls).parameters)
    if unknown or any(_plain(value) is NotImplemented for value in parameters.values()):
        raise ValueError(f"its parameters are not those of {cls.__name__}: {', '.join(parameters)}")
    estimator = cls(**parameters)
    for name, node in header["fitted"].items():
        if hasattr(estimator, name):
            raise ValueError(f"it would replace {name!r} of {cls.__name__}")
        setattr(estimator, name, reader.read(node))
    estimator._sample = Sample(restored_rows(reader.read(header["sample"])))
    return estimator


def _check_equal(estimator: Any, restored: Any) -> None:
    """Raise an error if the copy predicts differently."""
    # The copy is on the CPU: another device rounds differently, which can move a row to another branch of a tree.
    on_cpu = torch.device(estimator.device or "cpu").type == "cpu"
    tolerance, share = (EQUAL, 1.0) if on_cpu else (ALIKE, MOST)
    before, after = (model._location_and_log_scale(model._sample.X) for model in (estimator, restored))
    for expected, actual in zip(before, after, strict=True):
        if np.isclose(expected, actual, rtol=tolerance, atol=tolerance, equal_nan=True).mean() < share:
            raise RuntimeError(
                "the model was not saved, because its copy does not predict the same: save it with joblib or skops, "
                "and report this with the versions of scikit-learn and LightGBM"
            )


def _header(archive: zipfile.ZipFile) -> dict[str, Any]:
    if HEADER not in archive.namelist():
        raise ValueError(f"it is not a model of likely: it has no {HEADER}")
    try:
        header = json.loads(archive.read(HEADER))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(f"its {HEADER} is damaged") from None
    expected = {"format": int, "likely": str, "class": str, "parameters": dict, "fitted": dict}
    if not isinstance(header, dict) or not all(isinstance(header.get(name), kind) for name, kind in expected.items()):
        raise ValueError(f"its {HEADER} lacks some of {', '.join(expected)}")
    if header["format"] != FORMAT:
        raise ValueError(
            f"it has format {header['format']}, written by likely {header['likely'][:20]}; this is likely "
            f"{_version()}, which reads format {FORMAT}: install a version that reads it"
        )
    return header


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray[Any, Any]:
    stream = io.BytesIO(archive.read(name))  # read to the end, so that its checksum is compared
    array: np.ndarray[Any, Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _kind(cls: type) -> str:
    """Return the name of the class of this package that a class is or extends."""
    return next(base.__name__ for base in cls.__mro__ if base.__name__ in CLASSES)


def _plain(value: Any) -> Any:
    """Return a parameter in JSON's types; NotImplemented where it has none, so that it is loaded as its default."""
    value = value.item() if isinstance(value, np.generic) else value
    value = str(value) if isinstance(value, torch.device) else value
    if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
        return list(value)
    plain = value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
    return value if plain else NotImplemented


def _version() -> str:
    # This file may not import the package, which is a layer above it; but the package is always loaded before it.
    return str(sys.modules["likely"].__version__)
