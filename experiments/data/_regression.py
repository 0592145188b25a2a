"""Regression sets."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.data._folder import names, need, read

KIND = "regression"


@dataclass(frozen=True)
class Regression:
    """A table of inputs, with NaN where a value is missing, and a number to predict for each row.

    ``test_index`` holds the test rows of published splits, one a row, where a file has them.

    >>> import numpy as np
    >>> from experiments.data import Regression
    >>> Regression("line", np.zeros((3, 1)), np.arange(3.0)).y
    array([0., 1., 2.])
    """

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    feature_names: tuple[str, ...] = ()
    target_name: str = "y"
    test_index: NDArray[np.int64] | None = None


def list_regression(data: str | os.PathLike[str] | None = None) -> list[str]:
    """Names of the regression sets in the data folder; none without a folder.

    >>> import tempfile
    >>> from experiments.data import list_regression
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     list_regression(empty)
    []
    """
    return names(KIND, data)


def load_regression(name: str, data: str | os.PathLike[str] | None = None) -> Regression:
    """Read ``regression/NAME.npz`` (``X`` and ``y``; optional names and splits) from the data folder.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from experiments.data import load_regression
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pathlib.Path(folder, "regression").mkdir()
    ...     np.savez(f"{folder}/regression/line.npz", X=np.zeros((3, 2)), y=np.arange(3))
    ...     load_regression("line", folder).feature_names
    ('x0', 'x1')
    """
    arrays = read(KIND, name, data)
    need(arrays, ("X", "y"), f"{KIND}/{name}")
    X = arrays["X"].astype(np.float64)
    columns = arrays.get("feature_names", np.array([f"x{i}" for i in range(X.shape[1])]))
    index = arrays.get("test_index")
    return Regression(
        name,
        X,
        arrays["y"].astype(np.float64),
        tuple(str(column) for column in columns),
        str(arrays.get("target_name", "y")),
        None if index is None else index.astype(np.int64),
    )
