"""Our detectors as PyOD's: higher scores and the label 1 for outliers."""

from __future__ import annotations

from typing import Any, Self

from pyod.models.base import BaseDetector  # type: ignore[import-not-found,import-untyped,unused-ignore]
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from likely.outliers import LikelihoodDetector

__all__ = ["LikelyDetector"]


class LikelyDetector(BaseDetector):
    """A detector of :mod:`likely.outliers` that PyOD's combinations, thresholds and plots accept.

    Args:
        detector: any detector of ours; a :class:`likely.outliers.LikelihoodDetector` if None.
        contamination: the share of rows to call outliers, or a PyThresh object, as for all of PyOD's detectors.

    Attributes:
        detector_: the fitted detector.
        decision_scores_, threshold_, labels_: as PyOD's, of the training rows.

    >>> import numpy as np
    >>> from likely.integrations.pyod import LikelyDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> X[0] = 6
    >>> detector = LikelyDetector(contamination=0.01).fit(X)
    >>> int(detector.decision_scores_.argmax()), detector.labels_[:3], detector.predict(X[:1])
    (0, array([1, 0, 0]), array([1]))
    """

    def __init__(self, detector: Any = None, contamination: float = 0.1) -> None:
        super().__init__(contamination=contamination)
        self.detector = detector

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what rows are like; ``y`` is ignored."""
        self._set_n_classes(y)
        self.detector_ = clone(self.detector if self.detector is not None else LikelihoodDetector()).fit(X)
        self.decision_scores_ = self.detector_.outlier_score(X)
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> Any:
        """The outlier score: higher is worse."""
        check_is_fitted(self, ["decision_scores_", "threshold_", "labels_"])
        return self.detector_.outlier_score(X)

    def explain(self, X: Any) -> Any:
        """What each feature adds, as the detector has it."""
        check_is_fitted(self, ["decision_scores_", "threshold_", "labels_"])
        return self.detector_.explain(X)
