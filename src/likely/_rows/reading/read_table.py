"""Tables from files and from Python: nothing is unpickled, nothing is written, and what had to be mended is told."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from likely._files import loading
from likely._rows.blocks import is_files, is_one_file
from likely._rows.reading.table import Table, mend_text, read_header
from likely._rows.reading.text import read_text
from likely._rows.sources import source_of
from likely._rows.stored_tables import naming_unreadable
from likely._typing import Values

_TEXT, _ARROW = (".csv", ".tsv", ".txt"), (".parquet", ".pq", ".arrow", ".feather", ".ipc")


def read_table(data: Any) -> Table:
    """A table from a path, a frame (pandas, Polars, Arrow), an array, a tensor or a mapping of columns.

    >>> read_table({"a": [1, 2], "b": ["x", "y"]}).frame.shape
    (2, 2)
    """
    path = Path(data) if is_one_file(data) else None
    if path and not path.is_file():
        raise FileNotFoundError(f"{path} is not a file" if path.exists() else f"{path} does not exist")
    if path and path.name.lower().removesuffix(".gz").endswith(_TEXT):
        table = read_text(path)
    else:
        source = None if path else source_of(data)
        frame = _from_arrow(path) if path else _from_python(data if source is None else source.sample()[0])
        header = read_header(frame.columns)
        frame = mend_text(frame.set_axis(header.names, axis=1).reset_index(drop=True))
        table = Table(frame, source_name(data), header.notes, path=path, repeated=header.repeated)
    if table.frame.columns.empty:
        raise ValueError(f"{table.name} has no columns")
    if table.frame.empty:
        raise ValueError(f"{table.name} has a header and no rows")
    return table


def source_name(data: Any) -> str:
    """What a table that is in memory, in several files or elsewhere is called.

    >>> source_name("data/*.parquet"), source_name(["a.csv", "b.csv"]), source_name({"a": [1]})
    ('*.parquet', 'a.csv and 1 more', 'the data')
    """
    if not is_files(data):
        return "the data"
    paths = data if isinstance(data, list | tuple) else [data]
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{Path(paths[0]).name or os.fspath(paths[0])}{more}"


def read_array(source: Any, name: str) -> Values:
    """An array from a ``.npy`` file, or whatever NumPy or torch makes one of; pickled ones could run code."""
    if not isinstance(source, str | os.PathLike):
        return np.asarray(source.detach().cpu() if hasattr(source, "detach") else source)
    with loading(Path(source)):
        array = np.load(source, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{source} holds several arrays: {name} must be one, in an .npy file")
    return array


def _from_python(data: Any) -> pd.DataFrame:
    if hasattr(data, "get_column") and hasattr(data, "columns"):  # Polars; its own to_pandas would need pyarrow
        data = {name: data.get_column(name).to_numpy() for name in data.columns}
    elif hasattr(data, "to_pandas"):
        data = data.to_pandas()
    if isinstance(data, pd.DataFrame | pd.Series | dict):
        return pd.DataFrame(data)
    array = read_array(data, "the data")
    if array.ndim not in (1, 2):
        raise ValueError(f"an array to audit must have the shape (rows, columns), got {array.shape}")
    frame = pd.DataFrame(array).infer_objects()
    return frame if array.dtype.names else frame.add_prefix("x")


def _from_arrow(path: Path) -> pd.DataFrame:
    """A Parquet file, or an Arrow file or stream."""
    ending = path.suffix.lower()
    if ending not in _ARROW:
        raise ValueError(f"{path.name} is not read: its name should end in one of {', '.join(_TEXT + _ARROW)}")
    try:
        from pyarrow import ArrowInvalid, ipc, parquet
    except ImportError:
        raise ImportError(f"reading {path.name} needs pyarrow: pip install 'likely[arrow]'") from None
    with naming_unreadable(path.name):
        if ending in (".parquet", ".pq"):
            table = parquet.ParquetFile(path).read()  # its read_table refuses names that occur twice
        else:
            content = path.read_bytes()
            try:
                table = ipc.open_file(content).read_all()
            except ArrowInvalid:
                table = ipc.open_stream(content).read_all()
    return table.to_pandas(ignore_metadata=True)
