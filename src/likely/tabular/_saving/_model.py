"""A fitted estimator of tables as one file: arrays of NumPy, and a header of JSON that says what they are."""

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
EQUAL = 1e-9  # how near predictions of what was written must come
ALIKE, MOST = 1e-3, 0.9  # the same, and for which share of rows, where the model is on another device
PASSING = ("_began", "_metadata_request")  # what a fit or a caller leaves behind that is no part of the model
DATE = (1980, 1, 1, 0, 0, 0)  # the same model makes the same file

Arrays = dict[str, np.ndarray[Any, Any]]


def save_model(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator; see its ``save``."""
    check_is_fitted(estimator)
    if getattr(estimator, "_path", None) is not None:
        raise TypeError(
            "a model with a network of its own objective or likelihood cannot be saved without pickle: "
            "fit with objective='auto', or keep it by joblib or skops"
        )
    header, arrays = _written(estimator)
    _check_equal(estimator, _restored(type(estimator), header, arrays))
    text = json.dumps(header, allow_nan=False, ensure_ascii=True)
    with replacing(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(_entry(HEADER), text)
        for name, array in arrays.items():
            with archive.open(_entry(f"{name}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)


def load_model(cls: type, path: str | os.PathLike[str]) -> Any:
    """The estimator in a file that :func:`save_model` wrote; see its ``load``."""
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
        raise ValueError(f"it holds a {header['class'][:40]} and no {kind}: use the load of that class")
    arrays = {name[:-4]: _array(archive, name) for name in archive.namelist() if name.endswith(".npy")}
    estimator = _restored(cls, header, arrays)
    estimator._said(estimator._sample.X[:2])  # a file that is read at all makes a model that predicts
    return estimator


def _written(estimator: Any) -> tuple[dict[str, Any], Arrays]:
    writer, parameters = Writer(), estimator.get_params(deep=False)
    skipped = {*parameters, *PASSING, "_sample"}
    state = {name: own for name, own in vars(estimator).items() if name not in skipped}
    try:
        fitted = {name: writer.write(own) for name, own in state.items()}
        rows = writer.write(plain_rows(estimator._sample.X, estimator.columns_))
    except Unsaved as error:
        raise TypeError(f"the model is not saved: {error}") from error
    header = {
        "format": FORMAT,
        "likely": _version(),
        "class": _kind(type(estimator)),
        "parameters": {name: plain for name, own in parameters.items() if (plain := _plain(own)) is not NotImplemented},
        "fitted": fitted,
        "sample": rows,
    }
    return header, writer.arrays


def _restored(cls: type, header: dict[str, Any], arrays: Arrays) -> Any:
    reader, parameters = Reader(arrays), header["parameters"]
    unknown = set(parameters) - set(inspect.signature(cls).parameters)
    if unknown or any(_plain(own) is NotImplemented for own in parameters.values()):
        raise ValueError(f"its parameters are not those of {cls.__name__}: {', '.join(parameters)}")
    estimator = cls(**parameters)
    for name, node in header["fitted"].items():
        if hasattr(estimator, name):
            raise ValueError(f"it would replace {name!r} of {cls.__name__}")
        setattr(estimator, name, reader.read(node))
    estimator._sample = Sample(restored_rows(reader.read(header["sample"])))
    return estimator


def _check_equal(estimator: Any, restored: Any) -> None:
    """Refuse to write what would not predict the same."""
    # The copy is on the CPU: another device rounds differently, and now and then a row takes another branch of a tree.
    here = torch.device(estimator.device or "cpu").type == "cpu"
    nearness, share = (EQUAL, 1.0) if here else (ALIKE, MOST)
    for said, again in zip(estimator._said(estimator._sample.X), restored._said(restored._sample.X), strict=True):
        if np.isclose(said, again, rtol=nearness, atol=nearness, equal_nan=True).mean() < share:
            raise RuntimeError(
                "the model was not saved, for its copy does not predict the same: keep it by joblib or skops, "
                "and report this with the versions of scikit-learn and LightGBM"
            )


def _header(archive: zipfile.ZipFile) -> dict[str, Any]:
    if HEADER not in archive.namelist():
        raise ValueError(f"it is no model of likely, for it has no {HEADER}")
    try:
        header = json.loads(archive.read(HEADER))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(f"its {HEADER} is damaged") from None
    wanted = {"format": int, "likely": str, "class": str, "parameters": dict, "fitted": dict}
    if not isinstance(header, dict) or not all(isinstance(header.get(name), own) for name, own in wanted.items()):
        raise ValueError(f"its {HEADER} lacks some of {', '.join(wanted)}")
    if header["format"] != FORMAT:
        raise ValueError(
            f"it has format {header['format']}, written by likely {header['likely'][:20]}; this is likely "
            f"{_version()}, which reads format {FORMAT}: install a version that reads it"
        )
    return header


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray[Any, Any]:
    stream = io.BytesIO(archive.read(name))  # to the end, where its checksum is compared
    array: np.ndarray[Any, Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _kind(cls: type) -> str:
    """The class of ours that a class is or extends."""
    return next(own.__name__ for own in cls.__mro__ if own.__name__ in CLASSES)


def _plain(value: Any) -> Any:
    """A parameter in JSON's types, or NotImplemented: such a one is left at its default."""
    value = value.item() if isinstance(value, np.generic) else value
    value = str(value) if isinstance(value, torch.device) else value
    if isinstance(value, list | tuple) and value and all(isinstance(own, str) for own in value):
        return list(value)
    plain = value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
    return value if plain else NotImplemented


def _version() -> str:
    # The package is a floor above this file, which may not import it; but it is there whenever this is.
    return str(sys.modules["likely"].__version__)
