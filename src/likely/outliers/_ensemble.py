"""Several detectors as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble._base import _set_random_states
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from likely._typing import Array
from likely.outliers._base import OutlierDetector, number_per_feature, number_per_row
from likely.outliers._columns import Columns
from likely.outliers._distinct import Distinct, as_of_all
from likely.outliers._likelihood import LikelihoodDetector
from likely.outliers._scaled import ScaledPCADetector
from likely.outliers._scatter import ScatterDetector
from likely.outliers._threshold import Contamination, automatic, shortened, threshold, units

_FEW = 20  # different rows, of which no half is left out


class EnsembleDetector(OutlierDetector):
    """The average of detectors, each in units of its own.

    Args:
        detectors: any that have ``fit`` and ``score_samples``, ours or scikit-learn's; if None, a
            :class:`ScatterDetector`, a :class:`ScaledPCADetector` and a :class:`LikelihoodDetector`.
        average: ``"ranks"``, each score as the share of rows that score lower; or ``"scores"``, in units in which the
            median row is zero and the upper quartile one, so that a very odd row stays very odd. Rows are those of the
            training table, each scored as if it had been left out.
        contamination: the share of new rows to call outliers, or ``"auto"``; of the training rows it may be less.
        random_state: seed that is handed on to the detectors; if None, they keep their own.

    Attributes:
        detectors_: the fitted ones.
        offset_: the score (of ``score_samples``) below which a row is an outlier.

    >>> import numpy as np
    >>> from sklearn.ensemble import IsolationForest
    >>> from likely.outliers import EnsembleDetector, ScatterDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> X[0] = 6
    >>> both = EnsembleDetector([ScatterDetector(), IsolationForest(random_state=0)], contamination=0.01).fit(X)
    >>> both.predict(X)[:3]
    array([-1,  1,  1])
    """

    detectors_: list[Any]

    def __init__(
        self,
        detectors: Sequence[Any] | None = None,
        *,
        average: str = "ranks",
        contamination: Contamination = "auto",
        random_state: Any = None,
    ) -> None:
        super().__init__(contamination=contamination)
        self.detectors = detectors
        self.average = average
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit every detector; those that take no ``sample_weight`` are fitted without.

        From 65,536 rows on one of every two rows is drawn, from 98,304 on one of three, and so on.

        Args:
            X: the table, shape (rows, features): an array, a frame, the path of a file, a folder or a glob, or a Dask
                table. Missing values are allowed.
            y: ignored; pipelines pass it.
            sample_weight: one weight ≥ 0 per row; a weight of two counts a row twice. By default all are one.

        Returns:
            The fitted detector itself.
        """
        X, weight = self._sample(X, sample_weight)
        _, _, rows = Columns.learn(X, weight)
        default = (ScatterDetector(), ScaledPCADetector(), LikelihoodDetector())
        members = [clone(detector) for detector in (default if self.detectors is None else self.detectors)]
        if self.random_state is not None:
            random = check_random_state(self.random_state)
            for detector in members:
                _set_random_states(detector, random)
        scores = [_fitted(detector, X, rows) for detector in members]
        self.detectors_ = members
        fitted, unseen = (np.column_stack(columns) for columns in zip(*scores, strict=True))
        there = (rows.weight > 0) & ~np.isnan(unseen).any(1)
        weight_there = rows.weight[there]
        self._known = [_Ranks.learn(column, weight_there) for column in unseen[there].T]
        self._middle, self._unit = units(unseen[there], weight_there)
        if self.contamination == "auto":
            # Ranks cannot tell how far out a row is.
            mean = shortened(self._mean(unseen[there]), weight_there)
            self.offset_ = -automatic(self._combined(fitted[there]), self._combined(unseen[there]), mean, weight_there)
        else:
            combined = np.full(len(unseen), np.nan)
            combined[there] = self._combined(unseen[there])
            self.offset_ = -threshold(self._combined(fitted), combined, rows.weight, self.contamination)
        return self

    @number_per_row
    def outlier_score(self, X: Any) -> Any:
        """Return the average over the detectors: higher is worse.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Scores, one per row, of shape (rows,).
        """
        check_is_fitted(self)
        return self._combined(self._each(self._checked(X, reset=False)))

    @number_per_row
    def scale(self, X: Any) -> Any:
        """Return the geometric mean of the scale σ over those detectors that have one.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Scales, one per row, of shape (rows,).

        Raises:
            AttributeError: If none of the detectors has a scale.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        scales = [np.log(detector.scale(X)) for detector in self.detectors_ if hasattr(detector, "scale")]
        if not scales:
            raise AttributeError("none of these detectors has a scale")
        return np.exp(np.mean(scales, axis=0))

    @number_per_feature
    def explain(self, X: Any) -> Any:
        """Return the share of each feature in the outlyingness of each row, averaged over the detectors that explain.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Shares of shape (rows, features) that add up to one per row.

        Raises:
            AttributeError: If none of the detectors can explain.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        contributions = [
            np.abs(detector.explain(X)) + 1e-300 for detector in self.detectors_ if hasattr(detector, "explain")
        ]
        if not contributions:
            raise AttributeError("none of these detectors can explain")
        return np.mean([of_detector / of_detector.sum(1, keepdims=True) for of_detector in contributions], axis=0)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.average not in ("ranks", "scores"):
            raise ValueError(f"average must be 'ranks' or 'scores', got {self.average!r}")
        if self.detectors is not None and not len(self.detectors):
            raise ValueError("detectors is empty: give at least one")

    def _each(self, X: Any) -> Array:
        return np.column_stack([-detector.score_samples(X) for detector in self.detectors_])

    def _combined(self, scores: Array) -> Array:
        if self.average == "scores":
            return self._mean(scores)
        return np.mean([ranks.of(column) for ranks, column in zip(self._known, scores.T, strict=True)], axis=0)

    def _mean(self, scores: Array) -> Array:
        return ((scores - self._middle) / self._unit).mean(1)


@dataclass(frozen=True)
class _Ranks:
    """The share of weight with a lower score; of those with the same score, half."""

    values: Array
    below: Array

    @classmethod
    def learn(cls, scores: Array, weight: Array) -> Self:
        order = np.argsort(scores)
        below = np.append(0.0, np.cumsum(weight[order]))
        return cls(scores[order], below / below[-1])

    def of(self, scores: Array) -> Array:
        lower, upper = (np.searchsorted(self.values, scores, side) for side in ("left", "right"))
        return (self.below[lower] + self.below[upper]) / 2


def _fitted(detector: Any, X: Any, rows: Distinct) -> tuple[Array, Array]:
    """Fit a detector: the scores of all rows, and those of rows left out, by two fits to half of them if need be."""
    weight = rows.weight / rows.weight[rows.weight > 0].mean()
    if isinstance(detector, OutlierDetector) and not isinstance(detector, EnsembleDetector):
        fitted, unseen, weight = detector._fit(X, weight)
        detector._set_offset(fitted, unseen, weight)
        return fitted, unseen

    def fit(model: Any, seen: NDArray[np.intp]) -> Array:
        weighed = {"sample_weight": weight[seen]} if has_fit_parameter(model, "sample_weight") else {}
        return -model.fit(_safe_indexing(X, seen), **weighed).score_samples(X)

    if len(rows.first) < _FEW:
        fitted = fit(detector, np.arange(len(X)))
        return fitted, fitted
    out = (rows.place >= 0) & (rows.place % 2 == np.arange(2)[:, None])
    halves = np.array([fit(clone(detector), np.flatnonzero(~half)) for half in out])
    fitted = fit(detector, np.arange(len(X)))
    return fitted, as_of_all(halves, out, fitted, 1.0)
