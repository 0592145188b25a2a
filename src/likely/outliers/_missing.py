"""Missing values of normal rows: their conditional means and covariances, all rows at once."""

from __future__ import annotations

import numpy as np

from likely._rows.blocks import row_blocks
from likely._typing import Array


def fill(centred: Array, precision: Array, weight: Array, noise: float = 0.0) -> tuple[Array, Array]:
    """Put the conditional mean in the place of every NaN; the number of values seen in each row, and what EM adds.

    That is the weighted sum of the rows' conditional covariances, less ``noise`` in every direction. With the
    conditional mean the Mahalanobis distance is that of the values seen. Rows that miss as many values share one
    batched inverse of their size, so the cost does not depend on how many patterns there are.

    >>> import numpy as np
    >>> from likely.outliers._missing import fill
    >>> rows = np.array([[2.0, np.nan], [1.0, 3.0]])
    >>> seen, spread = fill(rows, np.linalg.inv([[1.0, 0.5], [0.5, 1.0]]), np.ones(2))
    >>> rows.tolist(), seen.tolist(), spread.round(2).tolist()
    ([[2.0, 1.0], [1.0, 3.0]], [1.0, 2.0], [[0.0, 0.0], [0.0, 0.75]])
    """
    width = centred.shape[1]
    spread = np.zeros_like(precision)
    missing = np.isnan(centred)
    count = missing.sum(1)
    if not count.any():
        return np.full(len(centred), float(width)), spread
    centred[missing] = 0.0
    for lost in np.unique(count[count > 0]):
        alike = np.flatnonzero(count == lost)
        for rows in (alike[part] for part in row_blocks(len(alike), int(lost) ** 2)):
            place = np.nonzero(missing[rows])[1].reshape(len(rows), lost)
            square = place[:, :, None], place[:, None, :]
            conditional = np.linalg.inv(precision[square])
            push = np.take_along_axis(centred[rows] @ precision, place, 1)
            centred[rows[:, None], place] = -np.einsum("nij,nj->ni", conditional, push)
            np.add.at(spread, square, weight[rows, None, None] * (conditional - noise * np.eye(lost)))
    return (width - count).astype(np.float64), spread
