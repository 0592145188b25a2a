"""Any scikit-learn classifier with calibrated probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, _safe_indexing, assert_all_finite, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_method_params,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
)

from likely._validation import all_or_nothing, check_sample_weight
from likely.calibration._content_folds import deals_itself, split_by_content
from likely.calibration.classifiers._base import Calibrator

METHODS = {
    "auto": "AutoCalibrator",
    "global": "GlobalTemperature",
    "linear": "LinearTemperature",
    "feature": "FeatureTemperature",
    "deep": "DeepTemperature",
    "vector": "VectorScaling",
    "matrix": "StructuredMatrixScaling",
    "platt": "PlattScaling",
    "isotonic": "IsotonicCalibration",
}


def make_calibrator(method: str | Calibrator) -> Calibrator:
    """An unfitted calibrator of logits: a copy of the one given, or the one of that name."""
    if isinstance(method, Calibrator):
        if getattr(method, "inputs", "logits") != "logits":
            raise ValueError("the calibrator is handed logits here: make it with inputs='logits'")
        copy: Calibrator = clone(method)
        return copy
    if method not in METHODS:
        raise ValueError(f"method must be a calibrator or one of {', '.join(METHODS)}; got {method!r}")
    # Imported here: the package's own list of calibrators is complete only after this module is.
    import likely.calibration

    made: Calibrator = getattr(likely.calibration, METHODS[method])()
    return made


@dataclass
class _Member:
    """A fitted classifier with the calibrator of its logits; ``floor`` stands in for probabilities of zero."""

    estimator: Any
    calibrator: Calibrator
    floor: float

    def logits(self, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
        scores, probabilities = _scores(self.estimator, X, classes)
        return _as_logits(scores, self.floor) if probabilities else scores


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier whose probabilities are calibrated on rows it was not trained on.

    Logits are ``decision_function``, or the logarithm of ``predict_proba`` where there is none. An unfitted
    estimator is cross-fitted: its out-of-fold logits train one calibrator, then it is fitted on all rows (or, with
    ``ensemble=True``, the pair of each fold is kept and their probabilities are averaged). A fitted one, wrapped in
    scikit-learn's ``FrozenEstimator`` or declared by ``cv="prefit"``, stays as it is, and all rows given to ``fit``
    train the calibrator: they should be rows it has not seen.

    Args:
        estimator: the classifier.
        method: ``"auto"``, ``"global"``, ``"linear"``, ``"feature"``, ``"deep"``, ``"vector"``,
            ``"matrix"``, ``"platt"``, ``"isotonic"``, or a calibrator.
        cv: folds of the cross-fitting, as in scikit-learn, or ``"prefit"``. A number deals the rows by what they hold,
            so that neither their order matters nor whether a row is there twice or has a weight of two.
        ensemble: keep one classifier and calibrator a fold instead of fitting the classifier again.
        features: a function from X to the features that some calibrators read, such as ``network.embed``.
        n_jobs: folds to fit at the same time.

    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.metrics import log_loss
    >>> from likely.calibration import CalibratedClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> plain = GaussianNB().fit(X[:900], y[:900])
    >>> calibrated = CalibratedClassifier(GaussianNB(), method="global").fit(X[:900], y[:900])
    >>> [round(log_loss(y[900:], model.predict_proba(X[900:])), 1) for model in (plain, calibrated)]
    [4.7, 1.5]
    """

    def __init__(
        self,
        estimator: Any,
        method: str | Calibrator = "auto",
        *,
        cv: Any = 5,
        ensemble: bool = False,
        features: Callable[[Any], Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble
        self.features = features
        self.n_jobs = n_jobs

    @all_or_nothing  # type: ignore[arg-type]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the calibrator and, unless it is fitted already, the estimator; both see ``sample_weight``."""
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        X, y = indexable(X, y)
        weight = check_sample_weight(sample_weight, X)
        if weight is not None and not weight.all() and deals_itself(self.cv):  # a row of no weight is no row
            counted = np.flatnonzero(weight)
            fit_params = _check_method_params(X, fit_params, counted)
            X, y, weight = _safe_indexing(X, counted), y[counted], weight[counted]
        if self.cv == "prefit" or isinstance(self.estimator, FrozenEstimator):
            self._fit_calibrator_only(X, y, weight)
        else:
            self._cross_fit(X, y, weight, fit_params)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first := self.members_[0].estimator, name):
                setattr(self, name, getattr(first, name))
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Calibrated probabilities of ``classes_``."""
        check_is_fitted(self, "members_")
        found = [m.calibrator.predict_proba(m.logits(X, self.classes_), self._features(X)) for m in self.members_]
        return np.asarray(np.mean(found, axis=0))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of highest calibrated probability."""
        best = self.predict_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def temperature(self, X: Any) -> NDArray[np.float64]:
        """What each row's logits are divided by (in an ensemble, on average), where the method divides."""
        check_is_fitted(self, "members_")
        found = [m.calibrator.temperature(m.logits(X, self.classes_), self._features(X)) for m in self.members_]
        return np.asarray(np.mean(found, axis=0))

    @property
    def estimator_(self) -> Any:
        """The fitted classifier, where there is one."""
        return self._only().estimator

    @property
    def calibrator_(self) -> Calibrator:
        """The fitted calibrator, where there is one."""
        return self._only().calibrator

    def get_metadata_routing(self) -> MetadataRouter:
        """Who gets the metadata given to fit: the estimator and the splitter, as they request."""
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        if self.cv != "prefit":
            mapping = MethodMapping().add(caller="fit", callee="split")
            router.add(splitter=check_cv(self.cv, classifier=True), method_mapping=mapping)
        return router

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _fit_calibrator_only(self, X: Any, y: NDArray[Any], weight: NDArray[np.float64] | None) -> None:
        check_is_fitted(self.estimator)
        self.classes_ = np.asarray(self.estimator.classes_)
        codes = _encode(y, self.classes_)
        scores, probabilities = _scores(self.estimator, X, self.classes_)
        self.members_ = [self._member(self.estimator, scores, probabilities, codes, self._features(X), weight)]

    def _cross_fit(
        self, X: Any, y: NDArray[Any], weight: NDArray[np.float64] | None, fit_params: dict[str, Any]
    ) -> None:
        self.classes_ = np.unique(y)
        codes = _encode(y, self.classes_)
        counted = np.ones(len(codes), dtype=bool) if weight is None else weight > 0
        if len(np.unique(codes[counted])) < 2:
            raise ValueError("the rows of positive weight hold one class: to calibrate, there must be two or more")
        routed = self._routed(weight, fit_params)
        cv = check_cv(self.cv, y, classifier=True)
        folds = list(cv.split(X, y, **routed.splitter.split))
        if deals_itself(self.cv):  # scikit-learn has looked for classes of too few rows
            folds = split_by_content(X, cv.get_n_splits(), codes)
        self._check_folds(codes, counted, folds)
        fitted = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_and_score)(clone(self.estimator), X, y, fold, routed.estimator.fit, self.classes_)
            for fold in folds
        )
        features = self._features(X)
        if self.ensemble:
            parts = [test for _, test in folds]
            self.members_ = [
                self._member(estimator, scores, probabilities, codes[rows], _rows(features, rows), _rows(weight, rows))
                for rows, (estimator, scores, probabilities) in zip(parts, fitted, strict=True)
            ]
            return
        order = np.concatenate([test for _, test in folds])
        scores = np.concatenate([scores for _, scores, _ in fitted])
        estimator = clone(self.estimator).fit(X, y, **_check_method_params(X, routed.estimator.fit))
        self.members_ = [
            self._member(estimator, scores, fitted[0][2], codes[order], _rows(features, order), _rows(weight, order))
        ]

    def _member(
        self,
        estimator: Any,
        scores: NDArray[np.float64],
        probabilities: bool,
        codes: NDArray[np.int64],
        features: Any,
        weight: NDArray[np.float64] | None,
    ) -> _Member:
        floor = _floor(scores) if probabilities else 0.0
        logits = _as_logits(scores, floor) if probabilities else scores
        calibrator = make_calibrator(self.method)
        return _Member(estimator, calibrator.fit(logits, codes, features, weight), floor)

    def _routed(self, weight: NDArray[np.float64] | None, fit_params: dict[str, Any]) -> Bunch:
        """What the estimator's fit and the splitter get."""
        given = fit_params if weight is None else {**fit_params, "sample_weight": weight}
        if _routing_enabled():
            return process_routing(self, "fit", **given)
        if weight is not None and not has_fit_parameter(self.estimator, "sample_weight"):
            kind = type(self.estimator).__name__
            warnings.warn(f"{kind} takes no sample_weight: it goes to the calibrator only", stacklevel=4)
            given = fit_params
        return Bunch(estimator=Bunch(fit=given), splitter=Bunch(split={}))

    def _check_folds(self, codes: NDArray[np.int64], counted: NDArray[np.bool_], folds: list[tuple[Any, Any]]) -> None:
        for train, _ in folds:
            missing = np.setdiff1d(codes[counted], codes[train][counted[train]])
            if len(missing):
                raise ValueError(
                    f"the training rows of a fold hold no class {self.classes_.tolist()[missing[0]]!r}: "
                    "use fewer folds, a stratified cv, or more rows of that class"
                )

    def _features(self, X: Any) -> Any:
        return None if self.features is None else self.features(X)

    def _only(self) -> _Member:
        check_is_fitted(self, "members_")
        if len(self.members_) > 1:
            raise AttributeError("an ensemble has several classifiers and calibrators: see members_")
        return self.members_[0]


def _fit_and_score(
    estimator: Any, X: Any, y: NDArray[Any], fold: tuple[Any, Any], params: dict[str, Any], classes: NDArray[Any]
) -> tuple[Any, NDArray[np.float64], bool]:
    train, test = fold
    own = _check_method_params(X, params, train)
    estimator.fit(_safe_indexing(X, train), _safe_indexing(y, train), **own)
    return estimator, *_scores(estimator, _safe_indexing(X, test), classes)


def _scores(estimator: Any, X: Any, classes: NDArray[Any]) -> tuple[NDArray[np.float64], bool]:
    """A score a class for every row, and whether they are probabilities (else they are logits)."""
    if hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
        if scores.ndim == 1:
            return np.stack([-scores / 2, scores / 2], axis=1), False
        if scores.shape[1] == len(classes):
            return scores, False
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(f"{type(estimator).__name__} has neither a decision_function with a score a class nor proba")
    return np.asarray(estimator.predict_proba(X), dtype=np.float64), True


def _floor(probabilities: NDArray[np.float64]) -> float:
    """Half the smallest positive probability: a forest's zero says less than one tree, not never."""
    positive = probabilities[probabilities > 0]
    return max(0.5 * float(positive.min()), np.finfo(np.float64).tiny) if len(positive) else 1.0


def _as_logits(probabilities: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    return np.asarray(np.log(np.maximum(probabilities, floor)))


def _encode(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Labels as their positions in ``classes``."""
    positions = {label: position for position, label in enumerate(classes.tolist())}
    unknown = sorted(set(y.tolist()) - set(positions), key=repr)
    if unknown:
        raise ValueError(f"y holds labels the estimator does not know: {unknown[:5]}; its classes_ are {classes}")
    return np.array([positions[label] for label in y.tolist()], dtype=np.int64)


def _rows(array: Any, rows: Any) -> Any:
    return None if array is None else _safe_indexing(array, rows)
