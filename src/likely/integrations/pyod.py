"""The detectors of :mod:`likely.outliers` in PyOD's interface: higher scores and the label 1 for outliers."""

from __future__ import annotations

from typing import Any, Self

from pyod.models.base import BaseDetector  # type: ignore[import-not-found,import-untyped,unused-ignore]
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from likely.outliers import LikelihoodDetector

__all__ = ["LikelyDetector"]


class LikelyDetector(BaseDetector):
    """Wraps a detector of :mod:`likely.outliers`, so that PyOD's combinations, thresholds and plots accept it.

    Args:
        detector: a detector of :mod:`likely.outliers`; None is a :class:`likely.outliers.LikelihoodDetector`.
        contamination: share of rows to label as outliers, or a PyThresh object, as for all of PyOD's detectors.

    Attributes:
        detector_: the fitted detector.
        decision_scores_: outlier scores of the training rows, of shape (rows,).
        threshold_: score above which a row is labelled as an outlier.
        labels_: 1 for training rows above the threshold, else 0, of shape (rows,).

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
        """Fit the detector, and score the training rows.

        Args:
            X: table of shape (rows, columns).
            y: not used; PyOD passes it.

        Returns:
            The fitted detector itself.
        """
        self._set_n_classes(y)
        self.detector_ = clone(self.detector if self.detector is not None else LikelihoodDetector()).fit(X)
        self.decision_scores_ = self.detector_.outlier_score(X)
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> Any:
        """Compute outlier scores.

        Args:
            X: table of shape (rows, columns).

        Returns:
            Array of shape (rows,); the higher, the more unusual the row.
        """
        check_is_fitted(self, ["decision_scores_", "threshold_", "labels_"])
        return self.detector_.outlier_score(X)

    def explain(self, X: Any) -> Any:
        """Compute how much each column contributes to the score of each row.

        Args:
            X: table of shape (rows, columns).

        Returns:
            What the wrapped detector's ``explain`` returns.
        """
        check_is_fitted(self, ["decision_scores_", "threshold_", "labels_"])
        return self.detector_.explain(X)
