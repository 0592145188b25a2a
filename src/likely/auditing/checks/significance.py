"""P-values that stay right when many tests are made."""

import numpy as np
from numpy.typing import ArrayLike

from likely._typing import Array

SURE = 0.01  # the chance of a false alarm among all columns of a table


def holm(p_values: ArrayLike) -> Array:
    """Correct p-values for their number (Holm 1979); NaN stands for a test that was not made, and stays NaN.

    >>> holm([0.01, 0.04, np.nan, 0.03])
    array([0.03, 0.06,  nan, 0.06])
    """
    p = np.asarray(p_values, np.float64)
    corrected = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return corrected
