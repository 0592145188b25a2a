"""Several likelihoods of a row, averaged: the detector to start with."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from likely._typing import Array
from likely.outliers._base import OutlierDetector, number_per_row
from likely.outliers._columns import RowGroups, slices
from likely.outliers._compiled import Compiled
from likely.outliers._row_scores import Histograms, Nearest, Tails
from likely.outliers._scatter import Covariance
from likely.outliers.threshold import Contamination, quantiles

_HIGHEST = 3  # of five views
_DOUBTFUL = 3.0  # the score at which a row counts half in the densities
_MIN_STRETCH = 1e-3  # of its square, a distance that changes by less is taken as it is


@dataclass(kw_only=True, eq=False, repr=False)
class LikelihoodDetector(OutlierDetector):
    r"""Detect outliers by five likelihoods of a row, each for other kinds of outliers: the detector to start with.

    - ``ellipse``: log σ of the row under one full covariance, as in :class:`ScatterDetector`;
    - ``nearest``: log σ² of the row around the nearest of a few rows, in the coordinates in which that covariance is
      the identity: clusters, and what lies between them;
    - ``components``: the density of each principal coordinate, by histograms: dependence of columns;
    - ``columns``: the density of each column, by histograms: rare values;
    - ``tails``: the share of values in each column that are as far out.

    Each one is shifted and scaled so that the median is zero and the upper quartile is one. The score is the mean of
    the three highest of the five, because few outliers are unusual in every view. Missing values and categories are
    treated as in :class:`ScatterDetector`; in the scores per column a missing value counts as ordinary. If nine rows in
    ten have the same number, other numbers of that column are scored by their rarity, like levels of a category.

    Args:
        contamination: share of new rows to call outliers, or ``"auto"``; the share of training rows may be lower.
        random_state: seed for choosing the reference rows.

    Attributes:
        offset_: the score (of ``score_samples``) below which a row is an outlier.

    >>> import numpy as np
    >>> from likely.outliers import LikelihoodDetector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-3.0, 3.0], size=(500, 2)) + 0.3 * rng.normal(size=(500, 2))       # four clusters
    >>> X[0] = 0                                                                            # in the middle of all
    >>> detector = LikelihoodDetector(random_state=0).fit(X)
    >>> int(detector.outlier_score(X).argmax()), detector.predict(X)[:3]
    (0, array([-1,  1,  1]))
    >>> np.allclose(detector.explain(X).sum(1), detector.outlier_score(X))
    True
    """

    _exceptions = True

    contamination: Contamination = "auto"
    random_state: Any = None

    @number_per_row
    def scale(self, X: Any) -> Any:
        """Return the scale σ of each row under one covariance: about one for an ordinary row.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Scales, one per row, of shape (rows,).
        """
        return np.exp(self._covariance.log_scales(self._table(X)))

    def explain(self, X: Any) -> Any:
        """Return what each feature adds to the score of each row.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Contributions of shape (rows, features), a frame for a frame; their sum over features is ``outlier_score``.
        """
        return super().explain(X)

    def _learn(self, table: Array, rows: RowGroups) -> tuple[Array, Array]:
        z = self.columns_.standard(table)
        blocks = list(slices(z))
        self._covariance = Covariance(self.columns_, self._total)
        stretch = self._covariance.fit(lambda: ((block, z[block]) for block in blocks), rows)
        w = np.concatenate([self._covariance.whitened(z[block])[0] for block in blocks])
        turned = np.concatenate([w[block] @ self._covariance.axes for block in blocks])
        self._nearest = Nearest.learn(w, rows, check_random_state(self.random_state))
        self._learn_densities(z, turned, rows.weight)
        views = self._views(table)
        self._middle, self._unit = _units(views, rows.weight)
        # As under Student's t, a row counts the less the worse it fits: outliers are not to make each other look usual.
        # The tail of their final scores is longer than a normal's for it: these first ones judge the rows.
        self._first_scores = self._mean_of_highest(views)
        trust = 1 / (1 + np.square(self._first_scores.clip(min=0) / _DOUBTFUL))
        self._learn_densities(z, turned, rows.weight * trust)
        views = self._views(table)
        return views, self._unseen(table, w, views, rows.left_out * trust, stretch)

    def _in_units(self, fitted: Array, unseen: Array, usual: Array, weight: Array) -> tuple[Array, Array]:
        known = ~np.isnan(usual[:, 0])
        self._middle, self._unit = _units(usual[known], weight[known])
        return self._mean_of_highest(fitted), self._mean_of_highest(unseen)

    def _learn_densities(self, z: Array, turned: Array, weight: Array) -> None:
        """Densities of the columns and of the principal coordinates, by rows that weigh so much."""
        numbers = z[:, self.columns_.measured]
        self._tails, self._columns = Tails.learn(numbers, weight), Histograms.learn(numbers, weight)
        self._components = Histograms.learn(turned, weight)
        self._compiled = Compiled.of(
            np.arange(self.n_features_in_)[self.columns_.measured],
            self.columns_,
            self._covariance,
            self._tails,
            self._columns,
            self._components,
            self._nearest,
        )

    def _unseen(self, table: Array, w: Array, views: Array, left_out: Array, stretch: Array) -> Array:
        """The five scores of training rows as if each had been left out."""
        unseen = np.empty_like(views)
        for block, z in self.columns_.blocks(table, unseen=True):
            whitened, seen, _ = self._covariance.whitened(z)
            unseen[block, 0] = self._covariance.log_scale(whitened * np.sqrt(stretch[block])[:, None], seen, z)
            unseen[block, 2:] = self._densities(z, whitened, left_out[block], stretch[block])
        # Among many rows hardly any is further from the others for being left out.
        moved = np.flatnonzero(stretch > 1 + _MIN_STRETCH)
        unseen[:, 1] = views[:, 1]
        for block in slices(w[moved]):
            unseen[moved[block], 1] = self._nearest.log_scale(w[moved[block]], stretch[moved[block]])
        return unseen

    def _scores(self, table: Array) -> Array:
        if self._compiled is not None:
            return self._compiled.scores(table, self._level_sums(table), self._middle, self._unit)
        return np.concatenate([self._mean_of_highest(views) for views in self._view_blocks(table)])

    def _mean_of_highest(self, views: Array) -> Array:
        """The mean of the three highest, each in its units."""
        standardised = (views - self._middle) / self._unit
        return np.partition(standardised, standardised.shape[1] - _HIGHEST, axis=1)[:, -_HIGHEST:].mean(1)

    def _views(self, table: Array) -> Array:
        """The five scores of rows, in nats."""
        if self._compiled is not None:
            return self._compiled.views(table, self._level_sums(table))
        return np.concatenate(list(self._view_blocks(table)))

    def _view_blocks(self, table: Array) -> Iterator[Array]:
        """The five scores by NumPy, a block of rows at a time."""
        for _, z in self.columns_.blocks(table):
            w, seen, _ = self._covariance.whitened(z)
            distances = self._covariance.log_scale(w, seen, z), self._nearest.log_scale(w)
            yield np.column_stack([*distances, self._densities(z, w)])

    def _level_sums(self, table: Array) -> Array | None:
        """What the levels of each row add to its squared distance, to its dimensions, and to its densities in nats."""
        if not len(self.columns_.categories):
            return None
        surprise = self.columns_.surprise(table)
        there = ~np.isnan(surprise)
        distance, dimensions = 2 * np.where(there, surprise, 0.0).sum(1), 2 * there @ self.columns_.usual
        return np.column_stack([distance, dimensions, self._category_nats(surprise).sum(1)])

    def _densities(self, z: Array, w: Array, left_out: Array | None = None, stretch: Array | None = None) -> Array:
        """The last three of the five scores, of rows z that are w when whitened.

        Of training rows as if each had been left out, where so much of its weight is ``left_out``, which makes its
        squared distance ``stretch`` times as large.
        """
        turned = w @ self._covariance.axes
        moved = None if stretch is None else turned * np.sqrt(np.sqrt(stretch))[:, None]
        numbers = z[:, self.columns_.measured]
        nats = self._category_nats(z[:, self.columns_.categories]).sum(1)
        return np.column_stack(
            [
                self._components.each(turned, left_out, moved).sum(1),
                self._columns.each(numbers, left_out).sum(1) + nats,
                self._tails.each(numbers, left_out).sum(1) + nats,
            ]
        )

    def _category_nats(self, surprise: Array) -> Array:
        """The surprise of each category; what is usual where it is missing."""
        return np.where(np.isnan(surprise), self.columns_.usual, surprise)

    def _contributions(self, table: Array) -> Array:
        """A third of each of the three, shared out by what each column adds above what is usual there."""
        contributions = np.empty(table.shape)
        for rows, z in self.columns_.blocks(table):
            standardised = (self._views(table[rows]) - self._middle) / self._unit
            rank = standardised.argsort(1).argsort(1)
            highest = np.where(rank >= standardised.shape[1] - _HIGHEST, standardised / _HIGHEST, 0.0)
            contributions[rows] = sum(
                added * (view / added.sum(1))[:, None] for view, added in zip(highest.T, self._added(z), strict=True)
            )
        return contributions

    def _added(self, z: Array) -> Iterator[Array]:
        """What each feature adds to each view, never negative."""
        w, _, missing = self._covariance.whitened(z)
        numbers = z[:, self.columns_.measured]
        odd = np.maximum(self._components.each(w @ self._covariance.axes) - self._components.usual, 0)
        nats = np.maximum(self._category_nats(z[:, self.columns_.categories]) - self.columns_.usual, 0)
        for parts, factor in (
            (np.square(w), 2),
            (self._nearest.each(w), 0),
            (odd @ np.square(self._covariance.axes.T), 0),
            (np.maximum(self._columns.each(numbers) - self._columns.usual, 0), 1),
            (np.maximum(self._tails.each(numbers) - self._tails.usual, 0), 1),
        ):
            added = np.empty_like(z)
            added[:, self.columns_.measured] = np.where(missing, 0.0, parts)
            added[:, self.columns_.categories] = factor * nats
            yield added + 1e-12


def _units(scores: Array, weight: Array) -> tuple[Array, Array]:
    """Of each column of scores, the median, and how far above it the upper quartile is."""
    lower, middle, upper = quantiles(scores, weight, [0.25, 0.5, 0.75])
    unit = np.where(upper > middle, upper - middle, middle - lower)
    return middle, np.where(unit > 1e-9 * np.abs(middle), unit, 1.0)
