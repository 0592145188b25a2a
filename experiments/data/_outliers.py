"""Outlier sets."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.data._folder import names, need, read

KIND = "odds"


@dataclass(frozen=True)
class Outliers:
    """Rows, and which of them are outliers.

    >>> import numpy as np
    >>> from experiments.data import Outliers
    >>> Outliers("two", np.zeros((2, 3)), np.array([0, 1])).share
    0.5
    """

    name: str
    X: NDArray[np.floating]
    y: NDArray[np.int64]

    @property
    def share(self) -> float:
        """Of outliers."""
        return float(self.y.mean())


def list_outliers(data: str | os.PathLike[str] | None = None) -> list[str]:
    """Names of the outlier sets in the data folder; none without a folder.

    >>> import tempfile
    >>> from experiments.data import list_outliers
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     list_outliers(empty)
    []
    """
    return names(KIND, data)


def load_outliers(name: str, data: str | os.PathLike[str] | None = None) -> Outliers:
    """Read ``odds/NAME.npz`` (``X`` and ``y``, which is one for outliers) from the data folder.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from experiments.data import load_outliers
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pathlib.Path(folder, "odds").mkdir()
    ...     np.savez(f"{folder}/odds/few.npz", X=np.zeros((4, 2), np.float32), y=[0, 0, 0, 1])
    ...     load_outliers("few", folder).share
    0.25
    """
    arrays = read(KIND, name, data)
    need(arrays, ("X", "y"), f"{KIND}/{name}")
    kind = np.float32 if arrays["X"].dtype == np.float32 else np.float64
    return Outliers(name, arrays["X"].astype(kind, copy=False), arrays["y"].astype(np.int64))
