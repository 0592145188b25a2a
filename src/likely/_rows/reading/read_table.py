"""Tables from files and from Python: nothing is unpickled, nothing is written, and what had to be mended is told."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._files import loading
from likely._rows.reading.table import Table, from_mapping, listed, mend_text, read_header
from likely._rows.reading.text import read_text
from likely._rows.sources import is_one_file, source_of


def read_table(data: Any) -> Table:
    """A table from a path, a frame (pandas, Polars, Arrow), an array, a tensor or a mapping of columns.

    >>> read_table({"a": [1, 2], "b": ["x", "y"]}).frame.shape
    (2, 2)
    """
    if is_one_file(data):
        return _from_file(Path(data))
    source = source_of(data)
    frame = _from_python(data) if source is None else _from_python(source.sample()[0])
    header = read_header(frame.columns)
    frame.columns = pd.Index(header.names)
    frame, text_notes = mend_text(frame.reset_index(drop=True))
    return _checked(Table(frame, source_name(data), (*header.notes, *text_notes), repeated=header.repeated))


def source_name(data: Any) -> str:
    """What a table that is in memory, in several files or elsewhere is called.

    >>> source_name("data/*.parquet"), source_name(["a.csv", "b.csv"]), source_name({"a": [1]})
    ('*.parquet', 'a.csv and 1 more', 'the data')
    """
    if isinstance(data, str | os.PathLike):
        return Path(data).name or os.fspath(data)
    paths = data if isinstance(data, list | tuple) and all(isinstance(path, str | os.PathLike) for path in data) else ()
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{Path(paths[0]).name}{more}" if paths else "the data"


def read_array(source: Any, name: str) -> NDArray[Any]:
    """An array from a ``.npy`` file (or an npz of one array), or whatever NumPy or torch makes one of."""
    if not isinstance(source, str | os.PathLike):
        return np.asarray(source.detach().cpu() if hasattr(source, "detach") else source)
    arrays = _arrays(Path(source))
    if len(arrays) != 1:
        raise ValueError(f"{source} holds {len(arrays)} arrays ({', '.join(arrays)}): {name} must be one array")
    return next(iter(arrays.values()))


def _from_python(data: Any) -> pd.DataFrame:
    if hasattr(data, "get_column") and hasattr(data, "columns"):  # Polars; its own to_pandas would need pyarrow
        data = {name: data.get_column(name).to_numpy() for name in data.columns}
    elif hasattr(data, "to_pandas"):
        data = data.to_pandas()
    if isinstance(data, pd.DataFrame | pd.Series):
        return pd.DataFrame(data)
    if not isinstance(data, dict):
        array = read_array(data, "the data")
        if array.dtype.names:
            return pd.DataFrame(array)
        if array.ndim not in (1, 2):
            raise ValueError(f"an array to audit must have the shape (rows, columns), got {array.shape}")
        columns = array.reshape(len(array), -1).T
        data = {f"x{i}": own.tolist() if own.dtype.kind in "OU" else own for i, own in enumerate(columns)}
    return from_mapping(data)


def _from_file(path: Path) -> Table:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file" if path.exists() else f"{path} does not exist")
    kind = path.with_suffix("").suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()
    readers: dict[str, Callable[[Path], Table]] = {
        **dict.fromkeys((".csv", ".tsv", ".txt"), read_text),
        **dict.fromkeys((".parquet", ".pq", ".arrow", ".feather", ".ipc"), _from_arrow),
        **dict.fromkeys((".npz", ".npy"), _from_numpy),
    }
    if kind not in readers:
        raise ValueError(f"{path.name} is not read: its name should end in one of {', '.join(readers)}")
    return _checked(readers[kind](path))


def _checked(table: Table) -> Table:
    if not len(table.frame.columns):
        raise ValueError(f"{table.name} has no columns")
    if not len(table.frame):
        raise ValueError(f"{table.name} has a header and no rows")
    return table


def _from_arrow(path: Path) -> Table:
    """A Parquet file, or an Arrow file or stream."""
    try:
        from pyarrow import ArrowInvalid, ipc, parquet
    except ImportError:
        raise ImportError(f"reading {path.name} needs pyarrow: pip install 'likely[arrow]'") from None
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            table = parquet.ParquetFile(path).read()  # its read_table refuses names that occur twice
        else:
            content = path.read_bytes()
            try:
                table = ipc.open_file(content).read_all()
            except ArrowInvalid:
                table = ipc.open_stream(content).read_all()
    except (ValueError, OSError) as error:  # ArrowInvalid is a ValueError
        raise ValueError(f"{path.name} cannot be read: {str(error).splitlines()[0]}") from None
    header = read_header(table.column_names)
    frame = table.rename_columns(header.names).to_pandas(ignore_metadata=True)
    return Table(frame, path.name, header.notes, path=path, repeated=header.repeated)


def _from_numpy(path: Path) -> Table:
    """The arrays with as many rows as most, side by side."""
    arrays = _arrays(path)
    labels, target = arrays.pop("feature_names", np.empty(0)), str(arrays.pop("target_name", "y"))
    lengths = Counter(len(array) for array in arrays.values() if array.ndim in (1, 2))
    rows = lengths.most_common(1)[0][0] if lengths else 0
    left_out, parts = [], []
    for name, array in arrays.items():
        if array.ndim not in (1, 2) or len(array) != rows:
            left_out.append(name)
            continue
        stem = "x" if name in ("X", "data") else f"{name} "
        names = [target if name == "y" else name] if array.ndim == 1 else [f"{stem}{k}" for k in range(array.shape[1])]
        parts.append(pd.DataFrame(array, columns=labels if name == "X" and len(labels) == len(names) else names))
    frame = pd.concat(parts, axis=1) if parts else pd.DataFrame()
    notes = (f"These arrays have other shapes and are left out: {listed(left_out)}.",) if left_out else ()
    header = read_header(frame.columns)
    frame.columns = pd.Index(header.names)
    return Table(frame, path.name, (*notes, *header.notes), path=path, repeated=header.repeated)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file; pickled ones could run code, so they are refused."""
    with loading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"data": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
