"""A fitted estimator as one file: arrays of NumPy, and a header of JSON that describes them."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from likely._files import replacing
from likely._saving.codec import Codec, RecordReader, RecordWriter, Unsaved
from likely._saving.header import new_header, parsed, reading
from likely._typing import FilePath, Values

HEADER = "header.json"
DATE = (1980, 1, 1, 0, 0, 0)  # constant, so that equal models are saved as equal files


def packed(codec: Codec, estimator: Any) -> tuple[dict[str, Any], dict[str, Values]]:
    """Return the header and the arrays of a file."""
    writer = RecordWriter(codec)
    try:
        return {**new_header(), "model": writer.write(estimator)}, writer.arrays()
    except Unsaved as error:
        raise TypeError(f"the model is not saved: {error}") from error


def write_archive(path: FilePath, header: Mapping[str, Any], arrays: Mapping[str, Values]) -> None:
    """Write a file, or leave the old one as it was."""
    text = json.dumps(header, allow_nan=False, ensure_ascii=True)
    with (
        replacing(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        archive.writestr(_entry(HEADER), text)
        for name, array in arrays.items():
            with archive.open(_entry(f"{name}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def read_archive(codec: Codec, path: FilePath, name: str, predict: Callable[[Any], object]) -> Any:
    """Return the estimator in a file, whose class has the name ``name``; an error says why it is not read.

    ``predict`` is called with the estimator: its errors are those of a damaged file.
    """
    file = Path(path)
    with reading(file), zipfile.ZipFile(file) as archive:
        if HEADER not in archive.namelist():
            raise ValueError(f"it is not a model of likely: it has no {HEADER}")
        header = parsed(archive.read(HEADER).decode(errors="replace"))
        if header["model"]["class"] != name:
            raise ValueError(f"it holds a {header['model']['class'][:40]} and not a {name}: use the load of that class")
        arrays = {entry[:-4]: _array(archive, entry) for entry in archive.namelist() if entry.endswith(".npy")}
        estimator = RecordReader(codec, arrays).read(header["model"])
        predict(estimator)
        return estimator


def _array(archive: zipfile.ZipFile, name: str) -> Values:
    stream = io.BytesIO(archive.read(name))  # read to the end, so that its checksum is compared
    array: Values = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
