r"""Student's t by reweighting: expectation–maximisation for a scale mixture of normals.

A row is normal with variance :math:`s^2 u^2` in :math:`q` dimensions, and its own :math:`u` has the inverse-gamma
hyperprior :math:`\nu / u^2 \sim \chi^2_\nu`; with :math:`u` integrated out this is Student's t with :math:`\nu` degrees
of freedom. At the squared distance :math:`\delta = r^2 / s^2` from the middle the expected precision is
:math:`1 / u^2 = (\nu + q) / (\nu + \delta)`. Steps of weighted least squares, and of :math:`s^2 = \sum r^2 / u^2 / nq`,
climb to the maximum of the likelihood (Dempster, Laird and Rubin 1980; Lange, Little and Taylor 1989).
"""

import numpy as np

from likely._typing import Array


def row_precision(distance: Array, df: float, dimensions: Array | float = 1.0) -> Array:
    """Return 1 / u² of rows: their weights in the least squares of the next step.

    Example:
        >>> row_precision(np.array([0.0, 1.0, 96.0]), df=4.0)
        array([1.25, 1.  , 0.05])
    """
    return np.asarray((df + dimensions) / (df + distance), dtype=np.float64)


def settled_variance(squares: Array, weight: Array, variance: float, df: float, *, steps: int = 1) -> float:
    """Return s² ≥ 1e-12 after some steps of expectation–maximisation from ``variance``, for squared residuals r².

    >>> round(settled_variance(np.array([1.0, 1.0, 1.0, 400.0]), np.ones(4), 1.0, df=4.0, steps=50), 2)
    29.12
    """
    total = float(weight.sum())
    for _ in range(steps):
        variance = max(float((weight * row_precision(squares / variance, df)) @ squares) / total, 1e-12)
    return variance
