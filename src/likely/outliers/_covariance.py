"""A mean and a full covariance under which every row has a scale of its own, fitted by EM."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import gammaincinv

from likely._rows.blocks import row_blocks
from likely._solvers.reweighting import row_precision
from likely._typing import Array
from likely.outliers._columns import Columns
from likely.outliers._distinct import Distinct
from likely.outliers._threshold import quantiles

TINY = 1e-300
_MAX_COLUMNS = 4096


class Covariance:
    """The multivariate t of standardised columns; see :class:`likely.outliers.ScatterDetector` for the formulas."""

    root: Array  # the symmetric root of the inverse covariance
    axes: Array  # principal directions, zero where there is no variance

    def __init__(
        self, columns: Columns, df: float = 1.0, shrinkage: float = 0.01, max_iter: int = 100, tol: float = 1e-3
    ) -> None:
        self.columns, self.df, self.shrinkage, self.max_iter, self.tol = columns, df, shrinkage, max_iter, tol
        width = len(columns.levels) - len(columns.categories)
        if width > _MAX_COLUMNS:
            raise ValueError(
                f"X has {width} columns of numbers, and a full covariance takes up to {_MAX_COLUMNS}: leave some out, "
                "or reduce them first, say with sklearn.decomposition.PCA"
            )
        self.location, self.covariance = np.zeros(width), np.eye(width)

    def fit(self, blocks: Callable[[], Iterable[tuple[slice, Array]]], rows: Distinct) -> Array:
        """Fit; return how many times larger each row's squared distance is if the row is left out."""
        self.n_iter, moved = 0, np.inf
        while self.n_iter < self.max_iter and moved > self.tol:
            location, covariance = self._step(blocks(), rows.weight, alike=self.n_iter == 0)
            moved = np.abs(covariance - self.covariance).max(initial=0) / self.covariance.diagonal().max(initial=TINY)
            self.location, self.covariance, self.n_iter = location, covariance, self.n_iter + 1
        self._find_root()
        distance, seen = np.empty(len(rows.weight)), np.empty(len(rows.weight))
        for block, z in blocks():
            w, seen[block], _ = self.whitened(z)
            distance[block] = np.square(w).sum(1)
        counts, of_row = np.unique(seen, return_inverse=True)
        usual = (2 * gammaincinv(np.maximum(counts, 1) / 2, 0.5))[of_row]  # the median of χ² in as many dimensions
        ratio = float(quantiles(distance / usual, rows.weight, [0.5])[0]) or 1.0
        self.covariance, self.root = self.covariance * ratio, self.root / np.sqrt(ratio)
        return self._stretch(distance, seen, rows)

    def _stretch(self, distance: Array, seen: Array, rows: Distinct) -> Array:
        """Of each row, its squared distance if one unit of its weight is left out, over what it is.

        Exact at the weights of the last step (Sherman and Morrison): of a share s of all weight, mean and covariance
        are left with 1 / (1 - s) of what sets the row apart.
        """
        pull = row_precision(distance, self.df, seen)
        share = np.minimum(rows.left_out * pull / (rows.weight @ pull), 0.5)
        leverage = np.minimum(share / (1 - share) * distance, 1 - 1e-6)
        return 1 / ((1 - share) * (1 - leverage))

    def _step(self, blocks: Iterable[tuple[slice, Array]], weight: Array, alike: bool) -> tuple[Array, Array]:
        """Mean and covariance of rows that weigh as their scales say; of all alike, to begin with."""
        width = len(self.location)
        noise = self._noise()
        shrunk = np.linalg.cholesky(self.covariance + noise * np.eye(width))
        root = solve_triangular(shrunk, np.eye(width), lower=True).T
        precision = root @ root.T
        total, count, mean = 0.0, 0.0, np.zeros(width)
        second, unseen = np.zeros((width, width)), np.zeros((width, width))
        for rows, z in blocks:
            block_weight = weight[rows]
            z = z[:, self.columns.measured] - self.location
            seen, spread = fill(z, precision, block_weight, noise)
            pull = block_weight if alike else block_weight * row_precision(np.square(z @ root).sum(1), self.df, seen)
            total, count, unseen = total + pull.sum(), count + block_weight.sum(), unseen + spread
            mean += pull @ z
            second += (z * pull[:, None]).T @ z
        mean /= total
        return self.location + mean, second / total - np.outer(mean, mean) + unseen / count

    def _noise(self) -> float:
        """The variance that shrinkage adds to every direction."""
        return self.shrinkage * max(float(self.covariance.trace()) / max(1, len(self.covariance)), TINY)

    def _find_root(self) -> None:
        """Principal directions, and the symmetric root of the inverse covariance."""
        values, axes = np.linalg.eigh(self.covariance)
        self.root = (axes / np.sqrt(values.clip(min=0) + self._noise())) @ axes.T
        # Axes without variance are any axes, so there are none.
        self.axes = np.where(values > 1e-10 * values.max(initial=0), axes, 0.0)

    def whitened(self, z: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
        """The numbers in the coordinates nearest to theirs in which C is the identity; how many are seen; which not."""
        z = z[:, self.columns.measured] - self.location
        missing = np.isnan(z)
        seen, _ = fill(z, self.root @ self.root, np.zeros(len(z)))
        return z @ self.root, seen, missing

    def log_scale(self, w: Array, seen: Array, z: Array) -> Array:
        """log σ, in which twice the surprise of a level counts as a squared distance does."""
        nats = z[:, self.columns.categories]
        there = ~np.isnan(nats)
        distance = np.square(w).sum(1) + 2 * np.where(there, nats, 0.0).sum(1)
        return -0.5 * np.log(row_precision(distance, self.df, seen + 2 * there @ self.columns.usual))

    def log_scales(self, table: Array, stretch: Array | None = None) -> Array:
        """log σ of each row; of a row left out, whose squared distance is so many times as large, if that is given."""
        scores = np.empty(len(table))
        for rows, z in self.columns.blocks(table, unseen=stretch is not None):
            w, seen, _ = self.whitened(z)
            scores[rows] = self.log_scale(w if stretch is None else w * np.sqrt(stretch[rows, None]), seen, z)
        return scores


def fill(centred: Array, precision: Array, weight: Array, noise: float = 0.0) -> tuple[Array, Array]:
    """Put the conditional mean in the place of every NaN; the number of values seen in each row, and what EM adds.

    That is the weighted sum of the rows' conditional covariances, less ``noise`` in every direction. With the
    conditional mean the Mahalanobis distance is that of the values seen. Rows that miss as many values share one
    batched inverse of their size, so the cost does not depend on how many patterns there are.

    >>> import numpy as np
    >>> from likely.outliers._covariance import fill
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
