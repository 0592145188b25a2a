"""Principal components with a learned scale per row, so that outliers weigh little."""

import math
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from likely._rows.checks import all_or_nothing, check_sample_weight
from likely._rows.columns import median
from likely._rows.sources import by_blocks
from likely._solvers.canonical import canonical
from likely._solvers.reweighting import row_precision
from likely._typing import Array
from likely.linear._base import require_rows_in_memory


class _Subspace(NamedTuple):
    """A middle, directions from it, and the scale of the residual of a typical row."""

    mean: Array
    components: Array
    scale: float
    exact: bool  # whether most rows lie in the subspace; the scale is then the distance that counts as zero
    n_iter: int


class RobustPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Principal component analysis that is robust to outliers: each row has a scale under an inverse-gamma hyperprior.

    The residual of row :math:`i` from the subspace, of length :math:`r_i` in :math:`q = d - k` dimensions, is normal
    with scale :math:`\sigma_i = s u_i`. Free scales have no best value; under the hyperprior :math:`\nu / u^2 \sim
    \chi^2_\nu` it is :math:`u^2 = (\nu + r^2 / s^2) / (\nu + q)`, and each row is weighted by :math:`1 / u^2`. PCA of
    reweighted rows is iterated from two starts: the directions of all rows, and the half of the rows nearest the
    middle. The fit with the smallest residuals of a majority is kept.

    Args:
        n_components: dimension k of the subspace. With as many as there are columns no residual is left to recognise
            outliers by, and this is PCA.
        df: degrees of freedom ν of the hyperprior: the fewer, the less an outlier weighs.
        max_iter: maximum number of iterations from each start.
        tol: iterations stop when the subspace turns by less than this angle (radians).

    Attributes:
        components_: directions, orthonormal rows of shape (k, d), by falling variance.
        mean_: weighted mean of the rows, shape (d,).
        explained_variance_: weighted variance along each direction, shape (k,).
        explained_variance_ratio_: the same as a share of the variance of all columns.
        n_components_: number k of directions.
        scale_: scale s of the residual of a typical row, per dimension.
        weights_: weight of each training row in the fit, from 0 to 1, shape (n,).
        n_iter_: iterations of the fit that was kept.

    Example:
        >>> import numpy as np
        >>> from likely.linear import RobustPCA
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 1)) @ [[3.0, 4.0]] + 0.1 * rng.normal(size=(200, 2))
        >>> X[:40] = 20 * rng.normal(size=(40, 2))                       # a fifth is noise
        >>> pca = RobustPCA(1).fit(X)
        >>> pca.components_.round(1), bool(np.median(pca.weights_[:40]) < 0.01)
        (array([[0.6, 0.8]]), True)

    See Also:
        :class:`RobustLinearRegression`; :mod:`likely.outliers`, for detectors of outliers.
    """

    components_: Array
    mean_: Array
    scale_: float
    _varying: int  # number of columns that are not constant: the others have no residuals
    n_components_: int
    n_features_in_: int

    def __init__(self, n_components: int = 2, *, df: float = 4.0, max_iter: int = 100, tol: float = 1e-4) -> None:
        self.n_components = n_components
        self.df = df
        self.max_iter = max_iter
        self.tol = tol

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the subspace and the weight of each row.

        Args:
            X: table of shape (n, d), in memory.
            y: not used.
            sample_weight: weight of each row, shape (n,); None for equal weights. Whole numbers count rows: a weight of
                two is the row twice. Other weights are scaled to a mean of one, so that only their ratios matter.

        Returns:
            The fitted estimator itself.

        Raises:
            ValueError: X holds NaN or ∞, or a parameter is out of range.
            TypeError: X is a table in blocks; ``transform`` and ``outlier_score`` take those.
        """
        require_rows_in_memory(self, X)
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        self._check_parameters(*X.shape)
        x, count = self._distinct(X, check_sample_weight(sample_weight, X))
        self._varying = int((np.ptp(x, axis=0) > 0).sum())
        best = self._best(x, count)
        trust = self._trust(_squared_distances(x, best.mean, best.components), best)
        share = trust * count / (trust @ count)
        scores = (x - best.mean) @ best.components.T
        self._keep(best, share @ np.square(scores), float(share @ np.square(x - best.mean).sum(1)))
        self.weights_ = np.minimum(1.0, self._trust(self._squares(X), best))
        return self

    def _check_parameters(self, n: int, d: int) -> None:
        if not isinstance(self.n_components, Integral) or not 1 <= self.n_components <= min(n, d):
            raise ValueError(
                f"n_components={self.n_components!r} must be an integer from 1 to min(n_samples={n}, n_features={d})"
            )
        if not self.df > 0:
            raise ValueError(f"df must be positive, got {self.df}")

    def _distinct(self, X: Array, weight: Array | None) -> tuple[Array, Array]:
        """Return distinct rows, and how often each occurs."""
        table = canonical(X, np.zeros(len(X)), weight)
        return table.x, table.weight

    def _best(self, x: Array, count: Array) -> _Subspace:
        """Return the fit, of those from two starts, with the smallest residuals of a majority."""
        fits = [self._reweighted(x, count, *start) for start in _starts(x, count, int(self.n_components))]
        return min(fits, key=lambda fit: _trimmed(_squared_distances(x, fit.mean, fit.components), count))

    def _keep(self, best: _Subspace, variance: Array, total: float) -> None:
        """Store the fit, components ordered by variance; ``total`` is the variance of all columns."""
        order = np.argsort(-variance)
        turned = best.components[order]
        self.components_ = turned * _signs(turned)[:, None]
        self.explained_variance_ratio_ = variance[order] / total if total else np.zeros(len(order))
        self.explained_variance_ = variance[order]
        self.n_components_ = len(order)
        self.mean_, self.scale_, self.n_iter_ = best.mean, best.scale, best.n_iter

    @by_blocks(width=lambda pca: pca.n_components_)
    def transform(self, X: Any) -> Any:
        """Return the coordinates of each row in the subspace.

        Args:
            X: table of shape (n, d), in memory or in blocks.

        Returns:
            Array of shape (n, k).
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return (X - self.mean_) @ self.components_.T

    def inverse_transform(self, X: Any) -> Any:
        """Return the points of the subspace with these coordinates.

        Args:
            X: coordinates of shape (n, k).

        Returns:
            Array of shape (n, d).
        """
        check_is_fitted(self)
        X = np.asarray(X, dtype=np.float64)
        return X @ self.components_ + self.mean_

    @by_blocks()
    def scale(self, X: Any) -> Any:
        """Return the scale that the model assigns to each row: its distance from the subspace per remaining dimension.

        Args:
            X: table of shape (n, d), in memory or in blocks.

        Returns:
            Array of shape (n,), in the units of X.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        typical = self.df * self.scale_**2
        return np.sqrt((typical + self._squares(X)) / (self.df + self._left_over))

    def outlier_score(self, X: Any) -> Any:
        """Return the scale of each row as its score; higher means more of an outlier.

        Args:
            X: table of shape (n, d), in memory or in blocks.

        Returns:
            Array of shape (n,).
        """
        return self.scale(X)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @property
    def _left_over(self) -> int:
        return max(0, self._varying - int(self.n_components))

    def _squares(self, X: Array) -> Array:
        """Return the squared length of each row's residual from the subspace."""
        return _squared_distances(X, self.mean_, self.components_)

    def _trust(self, squares: Array, fit: _Subspace) -> Array:
        """Return the weight of rows with these squared residuals."""
        if fit.exact:
            return (squares <= fit.scale**2).astype(np.float64)
        return row_precision(squares / fit.scale**2, self.df, self._left_over)

    def _reweighted(self, x: Array, count: Array, mean: Array, components: Array) -> _Subspace:
        q, k, total = self._left_over, len(components), float(count.sum())
        squares = _squared_distances(x, mean, components)
        nothing = 1e-24 * float(count @ np.square(x - mean).sum(1)) / total + 1e-300
        typical = float(median(squares, count))
        if q == 0 or typical <= nothing:
            limit = max(nothing, 1e3 * typical)
            mean, components = _principal(x, count * (squares <= limit), k)
            return _Subspace(mean, components, math.sqrt(limit), True, 1)
        variance, n_iter, angle = typical / q, 0, math.inf
        while n_iter < self.max_iter and angle > self.tol:
            n_iter += 1
            weight = count * row_precision(squares / variance, self.df, q)
            variance = max(float(weight @ squares) / (total * q), nothing)
            mean, moved = _principal(x, weight, k)
            angle = _angle(components, moved)
            components, squares = moved, _squared_distances(x, mean, moved)
        return _Subspace(mean, components, math.sqrt(variance), False, n_iter)


def _squared_distances(X: Array, mean: Array, components: Array) -> Array:
    """Return the squared length of each row's residual from the subspace."""
    centred = X - mean
    return np.square(centred - centred @ components.T @ components).sum(1)


def _angle(before: Array, after: Array) -> float:
    """Return the largest angle between two subspaces."""
    out = after - after @ before.T @ before
    return math.asin(min(1.0, float(np.linalg.norm(out, 2))))


def _starts(x: Array, count: Array, k: int) -> list[tuple[Array, Array]]:
    """Return two pairs of middle and subspace: of rows projected to one distance, and of the nearest half of them."""
    middle = median(x, count)
    distance = np.sqrt(np.square(x - middle).sum(1))
    near = count * (distance <= median(distance, count))
    drawn_in = count / np.square(np.maximum(distance, 1e-9 * distance.max() or 1.0))
    return [(middle, _components(x - middle, drawn_in, k)), _principal(x, near, k)]


def _principal(X: Array, weight: Array, k: int) -> tuple[Array, Array]:
    """Return the weighted mean and principal components."""
    mean = weight @ X / weight.sum()
    return mean, _components(X - mean, weight, k)


def _components(centred: Array, weight: Array, k: int) -> Array:
    n, d = centred.shape
    if d > n >= k:  # the distinct rows may be fewer than k
        return np.linalg.svd(centred * np.sqrt(weight)[:, None], full_matrices=False)[2][:k]
    return np.linalg.eigh((centred.T * weight) @ centred)[1][:, : -k - 1 : -1].T


def _signs(components: Array) -> Array:
    """Return signs that make the largest loading of each component positive, as in scikit-learn.

    Where two of opposite sign are the largest, up to rounding, the cubes of all loadings decide.
    """
    peak = np.abs(components).max(axis=1)
    largest = np.where(np.abs(components) >= (1 - 1e-9) * peak[:, None], components, 0.0).sum(axis=1)
    decisive = np.where(np.abs(largest) > 0.5 * peak, largest, (components**3).sum(axis=1))
    return np.where(decisive < 0, -1.0, 1.0)


def _trimmed(squares: Array, count: Array) -> float:
    """Return the mean of the smaller half."""
    near = count * (squares <= median(squares, count))
    return float(near @ squares / near.sum())
