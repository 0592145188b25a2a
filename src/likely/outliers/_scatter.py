"""A mean and a full covariance under which every row has a scale of its own, fitted by EM; and the detector of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaincinv

from likely._rows.blocks import row_blocks
from likely._solvers.reweighting import row_precision
from likely._typing import Array, Mask
from likely.outliers._base import OutlierDetector, number_per_row
from likely.outliers._columns import FeatureUnits, RowGroups
from likely.outliers.threshold import Contamination, quantiles

_TINY = 1e-300
_MAX_COLUMNS = 4096
_MAX_COLUMNS_PER_ROW = 2 / 3


class Covariance:
    """The multivariate t of standardised columns; see :class:`likely.outliers.ScatterDetector` for the formulas."""

    root: Array  # the symmetric root of the inverse covariance
    axes: Array  # principal directions, zero where there is no variance

    def __init__(
        self,
        columns: FeatureUnits,
        total: float,
        df: float = 1.0,
        shrinkage: float = 0.01,
        max_iter: int = 100,
        tol: float = 1e-3,
    ) -> None:
        self.columns, self.df, self.max_iter, self.tol = columns, df, max_iter, tol
        width = len(columns.levels) - len(columns.categories)
        # The wider the table, the less of the covariance its rows determine.
        self.least = max(0.0, width / total - _MAX_COLUMNS_PER_ROW)
        self.shrinkage = max(shrinkage, self.least)
        if width > _MAX_COLUMNS:
            raise ValueError(
                f"X has {width} columns of numbers, and a full covariance takes up to {_MAX_COLUMNS}: leave some out, "
                "or reduce them first, say with sklearn.decomposition.PCA"
            )
        self.location, self.covariance = np.zeros(width), np.eye(width)

    def fit(self, blocks: Callable[[], Iterable[tuple[slice, Array]]], rows: RowGroups) -> Array:
        """Fit; return how many times larger each row's squared distance is if the row is left out."""
        self.n_iter, moved = 0, np.inf
        while self.n_iter < self.max_iter and moved > self.tol:
            location, covariance = self._step(blocks(), rows.weight, alike=self.n_iter == 0)
            moved = np.abs(covariance - self.covariance).max(initial=0) / self.covariance.diagonal().max(initial=_TINY)
            self.location, self.covariance, self.n_iter = location, covariance, self.n_iter + 1
        self._find_root()
        distance, seen = np.empty(len(rows.weight)), np.empty(len(rows.weight))
        for block, z in blocks():
            w, seen[block], _ = self.whitened(z)
            distance[block] = np.square(w).sum(1)
        counts, of_row = np.unique(seen, return_inverse=True)
        usual = (2 * gammaincinv(np.maximum(counts, 1) / 2, 0.5))[of_row]  # the median of χ² in as many dimensions
        ratio = float(quantiles(distance / usual, rows.weight, 0.5)) or 1.0
        self.covariance, self.root = self.covariance * ratio, self.root / np.sqrt(ratio)
        return self._stretch(distance, seen, rows)

    def _stretch(self, distance: Array, seen: Array, rows: RowGroups) -> Array:
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
        return self.shrinkage * max(float(self.covariance.trace()) / max(1, len(self.covariance)), _TINY)

    def _find_root(self) -> None:
        """Principal directions, and the symmetric root of the inverse covariance."""
        values, axes = np.linalg.eigh(self.covariance)
        self.root = (axes / np.sqrt(values.clip(min=0) + self._noise())) @ axes.T
        # Axes without variance are any axes, so there are none.
        least = max(1e-10 * values.max(initial=0), self.least * values.sum() / max(1, len(values)))
        self.axes = np.where(values > least, axes, 0.0)

    def whitened(self, z: Array) -> tuple[Array, Array, Mask]:
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
    >>> from likely.outliers._scatter import fill
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


@dataclass(kw_only=True, eq=False, repr=False)
class ScatterDetector(OutlierDetector):
    r"""Detect outliers by a scale per row, in closed form: the multivariate t.

    Row :math:`i` is normal around a common mean with covariance :math:`\sigma_i^2 C`. Free scales have no best value;
    under the hyperprior :math:`\nu / \sigma^2 \sim \chi^2_\nu` it is :math:`\sigma^2 = (\nu + \delta) / (\nu + d)`,
    where :math:`\delta` is the squared Mahalanobis distance, and the row has weight :math:`1 / \sigma^2` in the mean
    and in :math:`C`. Iterating this maximises the likelihood of Student's t in :math:`d` dimensions. The score is
    :math:`\log \sigma`. Nothing is random; a fit takes a fraction of a second for 100,000 rows, and a memory-mapped
    array is read in blocks.

    A missing value is left out of the likelihood exactly (and of :math:`d`); in the fit it is filled with its
    conditional mean and variance, as EM does. Columns of a frame that do not hold numbers are categories.

    Args:
        df: degrees of freedom ν of the hyperprior: the fewer, the lower the weight of an outlier in the fit.
        shrinkage: addition to the variance of every direction, as a share of the mean variance; never less than the
            number of columns per row minus two thirds.
        contamination: share of new rows to call outliers, or ``"auto"``; the share of training rows may be lower.
        max_iter: maximum number of steps.
        tol: the steps end when no variance or covariance changes by more than this share of the deviations.

    Attributes:
        location_: the mean μ, in standardised columns.
        covariance_: the covariance C of standardised columns, scaled such that the median row is as far away as under a
            normal: the scales of ordinary rows are about one.
        offset_: the score (of ``score_samples``) below which a row is an outlier.
        n_iter_: number of steps taken.

    >>> import numpy as np
    >>> from likely.outliers import ScatterDetector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1)) @ [[1.0, 1.0, 0.0]] + 0.1 * rng.normal(size=(500, 3))
    >>> X[0] = [1, -1, 0]                                        # each value is usual, together they are not
    >>> detector = ScatterDetector().fit(X)
    >>> int(detector.outlier_score(X).argmax()), detector.predict(X)[:3]
    (0, array([-1,  1,  1]))
    >>> detector.explain(X)[0].round(-1)                          # squared deviations: the third is as usual
    array([60., 60.,  0.])
    """

    location_: Array = field(init=False)
    covariance_: Array = field(init=False)

    df: float = 1.0
    shrinkage: float = 0.01
    contamination: Contamination = "auto"
    max_iter: int = 100
    tol: float = 1e-3

    @number_per_row
    def scale(self, X: Any) -> Any:
        """Return the scale σ of each row: about one for an ordinary row.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Scales, one per row, of shape (rows,).
        """
        return np.exp(self.outlier_score(X))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("df", "shrinkage"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    def _learn(self, table: Array, rows: RowGroups) -> tuple[Array, Array]:
        model = Covariance(self.columns_, self._total, self.df, self.shrinkage, self.max_iter, self.tol)
        stretch = model.fit(lambda: self.columns_.blocks(table), rows)
        self._model = model
        self.location_, self.covariance_, self.n_iter_ = model.location, model.covariance, model.n_iter
        return model.log_scales(table), model.log_scales(table, stretch)

    def _scores(self, table: Array) -> Array:
        return self._model.log_scales(table)

    def _contributions(self, table: Array) -> Array:
        contributions = np.empty(table.shape)
        for rows, z in self.columns_.blocks(table):
            w, _, missing = self._model.whitened(z)
            squares = np.square(w)
            shown = np.where(missing, 0.0, squares)
            contributions[rows, self.columns_.measured] = (
                shown * (squares.sum(1) / np.maximum(shown.sum(1), _TINY))[:, None]
            )
            categories = self.columns_.categories
            contributions[rows, categories] = 2 * np.nan_to_num(z[:, categories])
        return contributions
