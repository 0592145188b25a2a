"""What detectors share: scikit-learn's conventions, a threshold, and tables of any kind."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from scipy.special import ndtr
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from likely._validation import check_sample_weight
from likely.outliers._columns import Array, Columns, is_frame

Contamination = Literal["auto"] | float
_SAMPLE = 1 << 15  # rows that say what the others are like, at least
_FALSE = 0.1  # the share of false alarms that an automatic threshold is meant to have


class OutlierDetector(OutlierMixin, BaseEstimator):
    """A likelihood of rows. Subclasses write ``_learn(table, weight)``, ``_scores(table)`` and ``_contributions``.

    Signs are scikit-learn's: ``predict`` is 1 for inliers and -1 for outliers, ``score_samples`` and
    ``decision_function`` are lower for outliers. ``outlier_score`` is the other way round: higher is worse.
    """

    columns_: Columns
    offset_: float

    def __init__(self, *, contamination: Contamination = "auto") -> None:
        self.contamination = contamination

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn what rows are like. A weight of two counts a row twice; ``y`` is ignored.

        From 65,536 rows on every second row is read, from 98,304 on every third, and so on.
        """
        self._check_parameters()
        X = self._checked(X, reset=True)
        stride = max(1, len(X) // _SAMPLE)
        weight = check_sample_weight(sample_weight, X)
        if weight is not None:
            stride = stride if weight[::stride].any() else 1
            weight = weight[::stride]
        self.columns_, table = Columns.learn(X[::stride], weight)
        self.offset_ = -threshold(self._learn(table, weight), weight, self.contamination)
        return self

    def outlier_score(self, X: Any) -> Any:
        """How badly each row fits. Higher is worse."""
        return self._scores(self._table(X))

    def score_samples(self, X: Any) -> Any:
        """Minus the outlier score: lower is worse."""
        return -self.outlier_score(X)

    def decision_function(self, X: Any) -> Any:
        """``score_samples`` less ``offset_``: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Any:
        """-1 for outliers, 1 for the rest."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def explain(self, X: Any) -> Any:
        """How much each feature adds to the outlyingness of each row: one is usual, a hundred is ten deviations."""
        found = self._contributions(self._table(X))
        features = np.zeros((len(found), self.n_features_in_))
        np.add.at(features.T, self.columns_.owner, found.T)
        return features

    def _learn(self, table: Array, weight: Array | None) -> Array:
        """Learn, and return the scores of these rows."""
        raise TypeError("use one of the detectors in likely.outliers")

    def _scores(self, table: Array) -> Array:
        raise NotImplementedError

    def _contributions(self, table: Array) -> Array:
        raise NotImplementedError

    n_features_in_: int

    def _check_parameters(self) -> None:
        share = self.contamination
        if share != "auto" and not (isinstance(share, Real) and 0 < share <= 0.5):
            raise ValueError(f"contamination must be 'auto' or a share of rows in (0, 0.5], got {share!r}")

    def _table(self, X: Any) -> Array:
        check_is_fitted(self)
        return self.columns_.numbers(self._checked(X, reset=False))

    def _checked(self, X: Any, reset: bool) -> Any:
        least = 2 if reset else 1
        if not is_frame(X):
            # Floats of either width are left where they are, on disk too.
            wide = [np.float64, np.float32]
            return validate_data(
                self, X, dtype=wide, ensure_all_finite="allow-nan", ensure_min_samples=least, reset=reset
            )
        validate_data(self, X, skip_check_array=True, reset=reset)
        if len(X) < least or not len(X.columns):
            check_array(np.zeros((len(X), len(X.columns))), ensure_min_samples=least)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def threshold(scores: Array, weight: Array | None, contamination: Contamination) -> float:
    r"""The score above which a row is an outlier.

    With a share of rows, the score that this share exceeds. Automatic: the middle half of the scores is taken for
    normal; of the rows that lie further up than so many normal ones would, at most a tenth should be false alarms
    (Benjamini and Hochberg, 1995, under an empirical null as Efron's, 2004). Clean rows then raise almost none.

    >>> import numpy as np
    >>> from likely.outliers._base import threshold
    >>> scores = np.append(np.random.default_rng(0).normal(size=1000), np.full(50, 8.0))
    >>> 3 < threshold(scores, None, "auto") < 8, threshold(np.arange(100.0), None, 0.1)
    (True, 89.0)
    """
    if weight is not None:
        scores, weight = scores[weight > 0], weight[weight > 0]
    if contamination != "auto":
        # A hair lower, for 1 - 0.1 is not nine tenths.
        return float(quantiles(scores, weight, [1 - contamination - 1e-9])[0])
    named = scores[false_alarms(scores, weight) <= _FALSE]
    # A hair lower: distances in single precision depend on the rows beside a row in the seventh digit.
    return float(named.min() - 1e-6 * (1 + abs(named.min())) if len(named) else scores.max())


def false_alarms(scores: Array, weight: Array | None = None) -> Array:
    """The share of false alarms among rows at least as odd, if the middle half of the scores is that of a normal.

    >>> import numpy as np
    >>> from likely.outliers._base import false_alarms
    >>> scores = np.append(np.random.default_rng(0).normal(size=1000), [9.0, 10.0])
    >>> (false_alarms(scores) < 0.1).nonzero()[0]
    array([1000, 1001])
    """
    lower, middle, upper = quantiles(scores, weight, [0.25, 0.5, 0.75])
    # Where half of the rows are alike, what sets the others apart is all there is to go by.
    spread = max(upper - middle, middle - lower) / 0.6745 or float(scores.std())
    if spread == 0:
        return np.ones(len(scores))
    order = np.argsort(-scores)
    above = np.cumsum(np.ones(len(scores)) if weight is None else weight[order])
    rates = ndtr((middle - scores[order]) / spread) * above[-1] / above
    found = np.empty(len(scores))
    found[order] = np.minimum(np.minimum.accumulate(rates[::-1])[::-1], 1.0)
    return found


def quantiles(values: Array, weight: Array | None, levels: Any) -> Array:
    """The least values that at least these shares of the weight do not exceed."""
    order = np.argsort(values)
    below = np.cumsum(np.ones(len(values)) if weight is None else weight[order])
    found: Array = values[order][np.searchsorted(below, np.asarray(levels) * below[-1])]
    return found


def units(scores: Array, weight: Array | None) -> tuple[Array, Array]:
    """Of each column of scores, the median, and how far above it the upper quartile is."""
    lower, middle, upper = np.column_stack([quantiles(own, weight, [0.25, 0.5, 0.75]) for own in scores.T])
    unit = np.where(upper > middle, upper - middle, middle - lower)
    return middle, np.where(unit > 0, unit, 1.0)
