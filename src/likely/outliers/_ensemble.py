"""Several detectors as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from likely._validation import check_sample_weight
from likely.outliers._base import Contamination, OutlierDetector, threshold, units
from likely.outliers._columns import Array
from likely.outliers._likelihood import LikelihoodDetector
from likely.outliers._pca import ScaledPCADetector
from likely.outliers._scatter import ScatterDetector


class EnsembleDetector(OutlierDetector):
    """The average of detectors, each in units of its own.

    Args:
        detectors: any that have ``fit`` and ``score_samples``, ours or scikit-learn's; if None, a
            :class:`ScatterDetector`, a :class:`ScaledPCADetector` and a :class:`LikelihoodDetector`.
        average: ``"ranks"``, each score as the share of training rows that score lower; or ``"scores"``, in units in
            which the median training row is zero and the upper quartile one, so that a very odd row stays very odd.
        contamination: the share of rows to call outliers, or ``"auto"``.

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
    ) -> None:
        super().__init__(contamination=contamination)
        self.detectors = detectors
        self.average = average

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit every detector; those that cannot weigh rows do not."""
        self._check_parameters()
        X = self._checked(X, reset=True)
        weight = check_sample_weight(sample_weight, X)
        given = self.detectors if self.detectors is not None else _default()
        self.detectors_ = [
            clone(one).fit(X, **({"sample_weight": weight} if has_fit_parameter(one, "sample_weight") else {}))
            for one in given
        ]
        known = self._each(X)
        self._known = [np.sort(scores) for scores in known.T]
        self._middle, self._unit = units(known, weight)
        self.offset_ = -threshold(self._combined(known), weight, self.contamination)
        return self

    def outlier_score(self, X: Any) -> Any:
        """The average. Higher is worse."""
        check_is_fitted(self)
        return self._combined(self._each(self._checked(X, reset=False)))

    def scale(self, X: Any) -> Any:
        """The geometric mean of σ over those detectors that have one."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        scales = [np.log(one.scale(X)) for one in self.detectors_ if hasattr(one, "scale")]
        if not scales:
            raise AttributeError("none of these detectors has a scale")
        return np.exp(np.mean(scales, axis=0))

    def explain(self, X: Any) -> Any:
        """The share of each feature in what makes a row odd: the mean over those detectors that explain."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        found = [np.abs(one.explain(X)) + 1e-300 for one in self.detectors_ if hasattr(one, "explain")]
        if not found:
            raise AttributeError("none of these detectors can explain")
        return np.mean([each / each.sum(1, keepdims=True) for each in found], axis=0)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.average not in ("ranks", "scores"):
            raise ValueError(f"average must be 'ranks' or 'scores', got {self.average!r}")
        if self.detectors is not None and not len(self.detectors):
            raise ValueError("detectors is empty: give at least one")

    def _each(self, X: Any) -> Array:
        return np.column_stack([-one.score_samples(X) for one in self.detectors_])

    def _combined(self, scores: Array) -> Array:
        if self.average == "scores":
            mean: Array = ((scores - self._middle) / self._unit).mean(1)
            return mean
        lower = [np.searchsorted(known, own, "left") for known, own in zip(self._known, scores.T, strict=True)]
        upper = [np.searchsorted(known, own, "right") for known, own in zip(self._known, scores.T, strict=True)]
        ranks: Array = (np.mean(lower, axis=0) + np.mean(upper, axis=0)) / (2 * len(self._known[0]))
        return ranks


def _default() -> list[OutlierDetector]:
    return [ScatterDetector(), ScaledPCADetector(), LikelihoodDetector()]
