"""Any scikit-learn classifier with calibrated probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from likely._rows.contents import Split
from likely._typing import Array
from likely.calibration._choice import make_calibrator
from likely.calibration._estimator import CalibratedEstimator, Outputs, Weight, by_blocks_or_texts
from likely.calibration.classifiers._base import Calibrator


@dataclass(eq=False, repr=False)
class CalibratedClassifier(ClassifierMixin, CalibratedEstimator):
    """A scikit-learn classifier whose probabilities are calibrated on rows it was not trained on.

    Logits are ``decision_function``, or the logarithm of ``predict_proba`` where there is none. An unfitted estimator
    is cross-fitted: its out-of-fold logits train one calibrator, then it is fitted on all rows. A fitted one, wrapped
    in scikit-learn's ``FrozenEstimator`` or declared by ``cv="prefit"``, is not changed, and all rows given to ``fit``
    train the calibrator: they should be new to it.

    Args:
        estimator: the classifier.
        method: ``"auto"``, ``"global"``, ``"linear"``, ``"feature"``, ``"deep"``, ``"vector"``, ``"matrix"``,
            ``"platt"``, ``"isotonic"``, or a :class:`Calibrator`.
        cv: folds of the cross-fitting, as in scikit-learn, or ``"prefit"``. A number deals the rows into folds by their
            contents: the order of rows does not matter, and a row of weight two counts as the row twice.
        features: function from X to the features that some calibrators read, such as ``network.embed``; None for none.
        n_jobs: number of folds that are fitted in parallel; None for one.

    Attributes:
        classes_: the labels, sorted.
        estimator_: the classifier, fitted on all rows.
        calibrator_: the fitted calibrator.
        floor_: what stands in for probabilities of zero, whose logarithm would be -∞.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from sklearn.metrics import log_loss
        >>> from likely.calibration import CalibratedClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> plain = GaussianNB().fit(X[:900], y[:900])
        >>> calibrated = CalibratedClassifier(GaussianNB(), method="global").fit(X[:900], y[:900])
        >>> [round(log_loss(y[900:], model.predict_proba(X[900:])), 1) for model in (plain, calibrated)]
        [4.7, 1.5]

    See Also:
        :class:`CalibratedModule` for torch networks, :class:`CalibratedRegressor`;
        :class:`sklearn.calibration.CalibratedClassifierCV`.
    """

    estimator: Any
    method: str | Calibrator = "auto"
    _: KW_ONLY
    cv: Any = 5
    features: Callable[[Any], Any] | None = None
    n_jobs: int | None = None

    @by_blocks_or_texts(width=lambda classifier: len(classifier.classes_))
    def predict_proba(self, X: Any) -> Array:
        """Return calibrated probabilities.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes, or in blocks: the path of files, or a Dask
                table.

        Returns:
            Array of shape (n, C), in the order of ``classes_``.
        """
        return self._answer(X, "predict_proba")

    @by_blocks_or_texts(dtype=lambda classifier: classifier.classes_.dtype)
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of highest calibrated probability.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes, or in blocks: the path of files, or a Dask
                table.

        Returns:
            Array of shape (n,) with labels of ``classes_``.
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    @by_blocks_or_texts()
    def temperature(self, X: Any) -> Array:
        """Return the temperature that divides the logits of each row.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes, or in blocks: the path of files, or a Dask
                table.

        Returns:
            Array of shape (n,).

        Raises:
            AttributeError: the method does more than divide the logits.
        """
        return self._answer(X, "temperature")

    def _answer(self, X: Any, method: str) -> Array:
        """Return the result of one of the calibrator's methods."""
        check_is_fitted(self)
        logits = _as_logits(*_scores(self.estimator_, X, self.classes_), self.floor_)
        return np.asarray(getattr(self.calibrator_, method)(logits, self._features(X)))

    def _targets(self, y: NDArray[Any], fitted: Any = None) -> NDArray[np.int64]:
        self.classes_ = np.unique(y) if fitted is None else np.asarray(fitted.classes_)
        return _encode(y, self.classes_)

    def _outputs(self, estimator: Any, X: Any) -> Outputs:
        return _scores(estimator, X, self.classes_)

    def _fit_calibrator(self, outputs: Outputs, targets: NDArray[Any], features: Any, weight: Weight) -> Calibrator:
        scores, probabilities = outputs
        self.floor_ = _floor(scores) if probabilities else 0.0
        logits = _as_logits(scores, probabilities, self.floor_)
        return make_calibrator(self.method).fit(logits, targets, features, weight)

    def _check_folds(self, targets: NDArray[Any], weight: Weight, folds: list[Split]) -> None:
        counted = np.ones(len(targets), dtype=bool) if weight is None else weight > 0
        if len(np.unique(targets[counted])) < 2:
            raise ValueError("the rows of positive weight hold one class: to calibrate, there must be two or more")
        for train, _ in folds:
            missing = np.setdiff1d(targets[counted], targets[train][counted[train]])
            if len(missing):
                raise ValueError(
                    f"the training rows of a fold hold no class {self.classes_.tolist()[missing[0]]!r}: "
                    "use fewer folds, a stratified cv, or more rows of that class"
                )


def _scores(estimator: Any, X: Any, classes: NDArray[Any]) -> tuple[Array, bool]:
    """Return one score per class for each row, and whether they are probabilities (else logits)."""
    if hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
        if scores.ndim == 1:
            return np.stack([-scores / 2, scores / 2], axis=1), False
        if scores.shape[1] == len(classes):
            return scores, False
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"{type(estimator).__name__} has neither predict_proba nor a decision_function with one score per class"
        )
    return np.asarray(estimator.predict_proba(X), dtype=np.float64), True


def _floor(probabilities: Array) -> float:
    """Return half the smallest positive probability: a forest's zero means less than one tree, not never."""
    positive = probabilities[probabilities > 0]
    return max(0.5 * float(positive.min()), np.finfo(np.float64).tiny) if len(positive) else 1.0


def _as_logits(scores: Array, probabilities: bool, floor: float) -> Array:
    return np.log(np.maximum(scores, floor)) if probabilities else scores


def _encode(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return labels as their positions in ``classes``."""
    unknown = np.setdiff1d(y, classes).tolist()
    if unknown:
        raise ValueError(f"y holds labels the estimator was not fitted on: {unknown[:5]}; its classes_ are {classes}")
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)]
