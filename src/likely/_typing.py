"""The types that annotations name."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Floats = NDArray[np.floating]  # of any width
Index = NDArray[np.intp]
Places = NDArray[np.int64]  # of rows in a table
Mask = NDArray[np.bool_]
Values = NDArray[Any]  # numbers of any kind, labels, texts
FilePath = str | os.PathLike[str]
