"""Any scikit-learn classifier or regressor with a calibrator, fitted on rows that it was not trained on."""

import functools
import inspect
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, assert_all_finite, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, check_is_fitted, column_or_1d, has_fit_parameter
from torch.distributions import Distribution

from likely._rows.checks import all_or_nothing, check_sample_weight
from likely._rows.contents import Split, fold_numbers, row_keys, splits_of
from likely._rows.sources import by_blocks, is_source, refuse_blocks
from likely._typing import Array, Values
from likely.calibration._calibrator import Calibrator, Labels, check_truths
from likely.calibration._choice import make_calibrator
from likely.calibration._scale import ScaleCalibrator

Outputs = tuple[Any, ...]  # an estimator's outputs for some rows: arrays, and values that hold for all of them
Weight = Array | None


by_blocks_or_texts = functools.partial(by_blocks, texts=True)


class CalibratedEstimator(MetaEstimatorMixin, BaseEstimator):
    """An estimator with a calibrator, fitted on rows that the estimator was not trained on.

    Subclasses write ``_outputs`` and, where a calibrator takes other inputs, ``_inputs``.
    """

    estimator: Any
    method: Any
    cv: Any
    features: Any
    n_jobs: int | None
    _outputs: Callable[[Any, Any], Outputs]  # a fitted estimator's predictions of rows
    _kind: type  # of the calibrators

    @all_or_nothing  # type: ignore[arg-type]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the calibrator and, unless it is fitted already, the estimator.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes.
            y: targets or labels of shape (n,).
            sample_weight: weights of shape (n,), for the calibrator and, if its ``fit`` takes weights, the estimator;
                None for equal weights.
            **fit_params: further arguments of the estimator's ``fit``; ``groups``, of the splitter that is ``cv``.

        Returns:
            The fitted estimator itself.

        Raises:
            ValueError: targets are not valid for the estimator, or a fold lacks a class.
            TypeError: X is not in memory.
        """
        if is_source(X) and not isinstance(X, list | tuple):  # these are rows, of a classifier of texts
            raise TypeError(
                "rows are fitted in memory here: for a table in blocks, give a calibrator such as GlobalTemperature or "
                "GlobalScale the outputs of a fitted estimator"
            )
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        if is_classifier(self):
            check_classification_targets(y)
        X, y = indexable(X, y if is_classifier(self) else y.astype(np.float64))
        weight = check_sample_weight(sample_weight, X)
        if weight is not None and not weight.all() and _deals_itself(self.cv):  # rows of weight zero are left out
            counted = np.flatnonzero(weight)
            fit_params = _check_method_params(X, fit_params, counted)
            X, y, weight = _safe_indexing(X, counted), y[counted], weight[counted]
        if self.cv == "prefit" or isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            targets = self._targets(y, self.estimator)
            outputs, features = self._outputs(self.estimator, X), self._features(X, fit=True)
        else:
            outputs, targets, features, weight = self._cross_fit(X, y, weight, fit_params)
        calibrator = make_calibrator(self.method, self._kind)
        self.calibrator_ = calibrator.fit(*self._inputs(outputs), targets, features, weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _inputs(self, outputs: Outputs) -> Outputs:
        """Return what the calibrator is fitted to, of outputs for rows that were new to the estimator."""
        return outputs

    def _targets(self, y: Values, fitted: Any = None) -> Values:
        """Return the targets of the calibrator; ``fitted`` is the estimator, where it is fitted already."""
        return y

    def _check_folds(self, targets: Values, weight: Weight, folds: list[Split]) -> None:
        """Raise an error for folds whose training rows lack what the estimator needs."""

    def _features(self, X: Any, fit: bool = False) -> Any:
        return None if self.features is None else self.features(X)

    def _cross_fit(self, X: Any, y: Values, weight: Weight, fit_params: dict[str, Any]) -> tuple[Any, ...]:
        """Fit the estimator to all rows; return out-of-fold outputs, with the targets, features and weights there."""
        targets, params = self._targets(y), self._fit_params(weight, fit_params)
        cv = check_cv(self.cv, y, classifier=is_classifier(self))
        groups = None if _deals_itself(self.cv) else params.pop("groups", None)
        folds = list(cv.split(X, y, groups))
        if _deals_itself(self.cv):  # scikit-learn has checked for classes of too few rows
            strata = targets if is_classifier(self) else None
            folds = splits_of(fold_numbers(row_keys(X), cv.get_n_splits(), strata=strata))
        self._check_folds(targets, weight, folds)
        features = self._features(X, fit=True)
        fitted = Parallel(n_jobs=self.n_jobs)(delayed(_fit)(self.estimator, X, y, train, params) for train, _ in folds)
        parts = [self._outputs(one, _safe_indexing(X, rows)) for one, (_, rows) in zip(fitted, folds, strict=True)]
        self.estimator_ = clone(self.estimator).fit(X, y, **_check_method_params(X, params))
        held_out = np.concatenate([rows for _, rows in folds])
        return _joined(parts), targets[held_out], _taken(features, held_out), _taken(weight, held_out)

    def _fit_params(self, weight: Weight, fit_params: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the estimator's fit, with the weights if it takes any."""
        if weight is None:
            return fit_params
        if has_fit_parameter(self.estimator, "sample_weight"):
            return {**fit_params, "sample_weight": weight}
        kind = type(self.estimator).__name__
        warnings.warn(f"{kind} takes no sample_weight: weights are used by the calibrator only", stacklevel=5)
        return fit_params


def _fit(estimator: Any, X: Any, y: Values, rows: Any, params: dict[str, Any]) -> Any:
    arguments = _check_method_params(X, params, rows)
    return clone(estimator).fit(_safe_indexing(X, rows), _safe_indexing(y, rows), **arguments)


def _joined(parts: list[Outputs]) -> Outputs:
    columns = zip(*parts, strict=True)
    return tuple(np.concatenate(column) if isinstance(column[0], np.ndarray) else column[0] for column in columns)


def _taken(array: Any, rows: Any) -> Any:
    return None if array is None else _safe_indexing(array, rows)


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

    _kind = Calibrator

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
    def predict(self, X: Any) -> Values:
        """Return the class of highest calibrated probability.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes, or in blocks: the path of files, or a Dask
                table.

        Returns:
            Array of shape (n,) with labels of ``classes_``.
        """
        best = self.predict_proba(X).argmax(axis=1)  # which asks first whether this is fitted
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

    def _targets(self, y: Values, fitted: Any = None) -> Labels:
        self.classes_ = np.unique(y) if fitted is None else np.asarray(fitted.classes_)
        return _encode(y, self.classes_)

    def _outputs(self, estimator: Any, X: Any) -> Outputs:
        return _scores(estimator, X, self.classes_)

    def _inputs(self, outputs: Outputs) -> Outputs:
        scores, probabilities = outputs
        self.floor_ = _floor(scores) if probabilities else 0.0
        return (_as_logits(scores, probabilities, self.floor_),)

    def _check_folds(self, targets: Values, weight: Weight, folds: list[Split]) -> None:
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


def _scores(estimator: Any, X: Any, classes: Values) -> tuple[Array, bool]:
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


def _encode(y: Values, classes: Values) -> Labels:
    """Return labels as their positions in ``classes``."""
    check_truths(y, len(classes))
    unknown = np.setdiff1d(y, classes).tolist()
    if unknown:
        raise ValueError(f"y holds labels the estimator was not fitted on: {unknown[:5]}; its classes_ are {classes}")
    return np.searchsorted(classes, y)


def mean_and_scale(estimator: Any, X: Any) -> tuple[Array, Array | None]:
    """Return the estimator's predictions, and their scales where its ``predict`` can return them."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if "return_std" not in inspect.signature(last.predict).parameters:
        return np.asarray(estimator.predict(X), dtype=np.float64), None
    mean, scale = (np.asarray(part, dtype=np.float64) for part in estimator.predict(X, return_std=True))
    # A Gaussian process returns zero at a row it was trained on, which no factor can change.
    return mean, np.maximum(scale, max(1e-6 * scale.max(initial=0.0), np.finfo(np.float32).tiny))


@dataclass(eq=False, repr=False)
class CalibratedRegressor(RegressorMixin, CalibratedEstimator):
    """A scikit-learn regressor with calibrated predictive distributions, fitted on rows it was not trained on.

    An unfitted estimator is cross-fitted: its out-of-fold predictions train the calibrator, then it is fitted on all
    rows. A fitted one, wrapped in scikit-learn's ``FrozenEstimator`` or declared by ``cv="prefit"``, is not changed,
    and all rows given to ``fit`` train the calibrator: they should be new to it. The scale comes from the estimator
    where its ``predict`` takes ``return_std``, otherwise from the residuals. ``predict`` is that of the estimator,
    unchanged.

    Args:
        estimator: the regressor.
        method: ``"linear"``, ``"global"``, ``"deep"``, ``"isotonic"``, ``"auto"``, or a :class:`ScaleCalibrator`.
        cv: folds of the cross-fitting, as in scikit-learn, or ``"prefit"``. A number deals the rows into folds by their
            contents: the order of rows does not matter, and a row of weight two counts as the row twice.
        features: what a scale per row depends on: ``"input"`` for X, a function of X, or None for the estimator's mean
            and scale.
        n_jobs: number of folds that are fitted in parallel; None for one.

    Attributes:
        estimator_: the regressor, fitted on all rows.
        calibrator_: the fitted calibrator.
        fill_: mean of each column, in place of missing values in the features, shape (d,).

    Example:
        >>> import numpy as np
        >>> from sklearn.linear_model import Ridge
        >>> from likely.calibration import CalibratedRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 4, size=(2000, 1))
        >>> y = X[:, 0] + (0.5 + X[:, 0]) * rng.normal(size=2000)
        >>> model = CalibratedRegressor(Ridge()).fit(X, y)
        >>> model.predict([[0.0], [3.0]], return_std=True)[1].round()
        array([1., 4.])
        >>> lower, upper = model.predict_interval(X, coverage=0.8)
        >>> round(float(((lower < y) & (y < upper)).mean()), 1)
        0.8

    See Also:
        :class:`CalibratedClassifier`; :class:`likely.integrations.mapie.ScaledScore`, for intervals of guaranteed
        coverage.
    """

    _kind = ScaleCalibrator
    _outputs = staticmethod(mean_and_scale)

    estimator: Any
    method: str | ScaleCalibrator = "linear"
    _: KW_ONLY
    cv: Any = 5
    features: str | Callable[[Any], Any] | None = "input"
    n_jobs: int | None = None

    @by_blocks_or_texts(arrays=lambda return_std: 1 + return_std)
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the estimator's prediction, on request with the calibrated standard deviation.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes, or in blocks: the path of files, or a Dask
                table.
            return_std: whether to return the standard deviation of each row's distribution too.

        Returns:
            Array of shape (n,), or with ``return_std`` a pair of such arrays.
        """
        check_is_fitted(self)
        if not return_std:
            return self.estimator_.predict(X)
        mean, scale, features = self._forecast(X)
        return mean, self.calibrator_.distribution(mean, scale, features).stddev.numpy()

    def predict_dist(self, X: Any) -> Distribution:
        """Return the calibrated distribution of each row.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes.

        Returns:
            A torch distribution of batch shape (n,), with ``log_prob``, ``cdf``, ``icdf`` and ``sample``.
        """
        if not isinstance(X, list | tuple):
            refuse_blocks(X, "predict_dist", "predict or predict_interval")
        return self.calibrator_.distribution(*self._forecast(X))

    @by_blocks_or_texts(arrays=lambda **_: 2)
    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return the central interval of each row's calibrated distribution.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes, or in blocks: the path of files, or a Dask
                table.
            coverage: probability of the interval, in (0, 1).

        Returns:
            Lower and upper ends, arrays of shape (n,).
        """
        lower, upper = self.calibrator_.predict_interval(*self._forecast(X), coverage)
        return lower, upper

    def _forecast(self, X: Any) -> tuple[Array, Array | None, Any]:
        check_is_fitted(self)
        return *mean_and_scale(self.estimator_, X), self._features(X)

    def _features(self, X: Any, fit: bool = False) -> Any:
        if self.features is None:
            return None
        if callable(self.features):
            return self.features(X)
        if self.features != "input":
            raise ValueError(f"features must be 'input', None or a function of X, got {self.features!r}")
        inputs = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        if fit:
            self.fill_ = SimpleImputer(keep_empty_features=True).fit(inputs).statistics_
        # A missing input has no effect on the scale: it is replaced by the mean.
        return np.where(np.isnan(inputs), self.fill_, inputs)


def _deals_itself(cv: Any) -> bool:
    """Return whether ``cv`` leaves the assignment of rows to us: a number of folds, None, or ``"prefit"``."""
    return cv is None or isinstance(cv, Integral | str)
