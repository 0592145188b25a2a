"""The array types that annotations name."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Places = NDArray[np.int64]  # of rows in a table
Mask = NDArray[np.bool_]
