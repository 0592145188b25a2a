"""log Z's series (see likely._partition) cut into parts on which few powers are enough, in the order kernels read."""

from functools import cache

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.polynomial.chebyshev import cheb2poly
from numpy.typing import NDArray

from likely import _partition_table as table

R_TERMS = len(table.R_SINGLE[0])


@cache
def partition(parts: int, terms: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Q and R as (power, piece · parts + part), Q in x from -1 to 1 across its part, R in b.

    >>> q, r = partition(4, 10)
    >>> q.shape, r.shape
    ((10, 16), (3, 16))
    """
    ends = np.linspace(0, 1, parts + 1)
    q, r = np.zeros((terms, 4 * parts)), np.zeros((R_TERMS, 4 * parts))
    for piece, (series, factor) in enumerate(zip(table.Q_SINGLE, table.R_SINGLE, strict=True)):
        whole = Chebyshev(series, domain=[0, 1])
        powers = Chebyshev(factor, domain=[0, 1]).convert(kind=Polynomial).coef
        for part in range(parts):
            coefficients = cheb2poly(Chebyshev.interpolate(whole, terms - 1, domain=ends[part : part + 2]).coef)
            q[: len(coefficients), piece * parts + part] = coefficients
            r[: len(powers), piece * parts + part] = powers
    return q.astype(np.float32), r.astype(np.float32)
