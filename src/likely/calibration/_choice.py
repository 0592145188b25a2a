"""Calibrators of several: in sequence, or chosen by their likelihood on held-out rows."""

import functools
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import clone
from sklearn.pipeline import _name_estimators
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import _BaseComposition
from torch import Tensor
from torch.distributions import Distribution

from likely._numerics.significance import held_out_gain
from likely.calibration._calibrator import Calibrator, LabelledLogits
from likely.calibration._classic import IsotonicCalibration, PlattScaling
from likely.calibration._held_out import Chain, CrossFits, HeldOutRows
from likely.calibration._isotonic import IsotonicScale
from likely.calibration._row_scale import DeepScale, LinearScale
from likely.calibration._scale import Forecasts, GlobalScale, ScaleCalibrator
from likely.calibration._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration._temperature import (
    DeepTemperature,
    FeatureTemperature,
    GlobalTemperature,
    LinearTemperature,
)

# Nats per row: candidates that fall back to the same map differ by rounding, which can be many standard errors.
ALIKE = 1e-6
MATRIX_CLASSES = 200  # a larger matrix has more entries than calibration sets can determine


class Composed(_BaseComposition):
    """Named calibrators in sequence, each fitted to the outputs of the chain before it."""

    steps: list[tuple[str, Any]]
    cv: int | None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, those of the steps as ``name__parameter``.

        Args:
            deep: whether to include the steps' parameters.

        Returns:
            Dictionary from names to values.
        """
        return self._get_params("steps", deep=deep)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the steps as ``name__parameter``.

        Args:
            **params: new values by name.

        Returns:
            The estimator itself.
        """
        self._set_params("steps", **params)
        return self

    @property
    def chain(self) -> Chain:
        """The steps without their names."""
        return tuple(step for _, step in self.steps)

    def _fit_rows(self, rows: HeldOutRows) -> Self:
        if not self.steps:
            raise ValueError("there are no steps: give at least one calibrator")
        if any(isinstance(step, IsotonicScale) for step in self.chain[:-1]):
            raise ValueError("IsotonicScale changes the whole distribution, so it comes last")
        self.fitted_ = CrossFits(rows, cv=self.cv).fitted(self.chain)
        return self


@dataclass(eq=False, repr=False)
class Composition(Composed, Calibrator):
    """Calibrators in sequence, each fitted to the logits that the one before returns. Created by :func:`compose`.

    Args:
        steps: list of pairs (name, calibrator), the first one first.
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.
        cv: number of folds whose held-out logits the next step is fitted to; None for the logits of the same rows.

    Attributes:
        fitted_: list of the fitted steps.
        n_classes_: number of classes.

    Example:
        >>> from likely.calibration import GlobalTemperature, VectorScaling, compose
        >>> [name for name, _ in compose(VectorScaling(), GlobalTemperature()).steps]
        ['vectorscaling', 'globaltemperature']

    See Also:
        :func:`compose`, :class:`AutoCalibrator`; :class:`ScalePipeline` for regressors.
    """

    steps: list[tuple[str, Any]]
    _: KW_ONLY
    cv: int | None = 5

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        for step in self.fitted_:
            logits = step._calibrate(logits, features)
        return logits


class ScalePipeline(Composed, ScaleCalibrator):
    """Scale calibrators in sequence: each starts from the scales of the one before. Created by :func:`compose`.

    Only the last may be an :class:`IsotonicScale`, which changes more than scales. A step's scales for the rows it was
    fitted to are too good, so the next step is fitted to scales of rows held out in ``cv`` folds.

    Args:
        steps: list of pairs (name, calibrator), the first one first.
        cv: number of folds; None for the scales of the same rows.

    Attributes:
        fitted_: list of the fitted steps.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import IsotonicScale, LinearScale, compose
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(2000, 2))
        >>> mean, y = np.zeros(2000), np.exp(x[:, 0]) * rng.standard_t(3, size=2000)
        >>> both = compose(LinearScale(), IsotonicScale()).fit(mean, None, y, features=x)
        >>> lower, upper = both.predict_interval(mean, None, features=x, coverage=0.5)
        >>> round(float(((lower < y) & (y < upper)).mean()), 1)
        0.5

    See Also:
        :func:`compose`, :class:`AutoScale`; :class:`Composition` for classifiers.
    """

    def __init__(self, steps: list[tuple[str, Any]], *, cv: int | None = 5) -> None:
        self.steps = steps
        self.cv = cv

    def _distribution(self, rows: Forecasts) -> Distribution:
        *before, last = self.fitted_
        return last._distribution(functools.reduce(Forecasts.after, before, rows))

    def _scales(self, rows: Forecasts) -> Tensor:
        return functools.reduce(Forecasts.after, self.fitted_, rows).scale


def compose(*calibrators: Calibrator | ScaleCalibrator, cv: int | None = 5) -> Any:
    """Put calibrators in sequence, each fitted to the logits, or the scales, that the one before returns.

    Features go to every step that reads them. A step's outputs for the rows it was fitted to are too good, and a
    temperature fitted to them is too low; so the next step is fitted to outputs of rows held out in ``cv`` folds. The
    steps can be set and read as those of a scikit-learn pipeline; ``set_params(inputs="probabilities")`` makes the
    first step read probabilities.

    Args:
        *calibrators: the steps, the first one first: calibrators of logits, or of scales, of which only the last may
            be an :class:`IsotonicScale`.
        cv: number of folds; None, or logits too many to keep in memory, for the outputs of the same rows.

    Returns:
        An unfitted :class:`Composition` of calibrators of logits, or :class:`ScalePipeline` of calibrators of scales.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import IsotonicScale, LinearScale, LinearTemperature, VectorScaling, compose
        >>> both = compose(VectorScaling(), LinearTemperature())
        >>> both.get_params()["lineartemperature__penalty"]
        'evidence'
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 500)
        >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(500, 3))) + [2, 0, 0]
        >>> both.fit(logits, y).predict_proba(logits[:1]).round(1)
        array([[0., 0., 1.]])
        >>> [name for name, _ in compose(LinearScale(), IsotonicScale()).steps]
        ['linearscale', 'isotonicscale']

    See Also:
        :class:`AutoCalibrator` and :class:`AutoScale`, which compare compositions.
    """
    of_scales = any(isinstance(calibrator, ScaleCalibrator) for calibrator in calibrators)
    return (ScalePipeline if of_scales else Composition)(_name_estimators(calibrators), cv=cv)


class Comparison:
    """Candidates, the simplest first, compared by their losses on held-out rows.

    Of very many rows some decide the choice; all are used in the fits. There are no losses, scores and distances where
    no rows can be held out, and the best is then the first.
    """

    def __init__(
        self, candidates: Mapping[str, Any], rows: Any, *, cv: int, n_jobs: int | None, random_state: int = 0
    ) -> None:
        if cv < 2:
            raise ValueError(f"cv must be 2 or more, got {cv}")
        if not isinstance(candidates, Mapping):
            raise TypeError(f"candidates must be a dictionary from names to calibrators, got {candidates!r}")
        rows = rows.loaded()
        thinned = rows.thinned()
        folds = max(2, min(cv, int(thinned.count) // 2))  # at least two rows per fold
        fits = CrossFits(thinned, cv=folds, random_state=random_state, n_jobs=n_jobs)
        self.candidates, self.weight = candidates, thinned.weight
        self.losses = {name: fits.losses(_chain_of(step)) for name, step in candidates.items() if fits.splits}
        self.scores = {name: float(np.average(loss, weights=thinned.weight)) for name, loss in self.losses.items()}
        self.best = min(self.scores, key=lambda name: self.scores[name], default=next(iter(candidates)))
        self.behind = {name: self._errors_behind(name) for name in self.scores}
        self.fits = fits if thinned is rows else CrossFits(rows, cv=None)

    def gain(self, name: str, over: str) -> Any:
        """Return the held-out gain of one candidate over another."""
        return held_out_gain(self.losses[over] - self.losses[name], self.weight)

    def _errors_behind(self, name: str) -> float:
        """Return the number of standard errors by which a candidate is behind the best."""
        worse = self.scores[name] - self.scores[self.best] > ALIKE
        return float(self.gain(self.best, name).errors) if worse else 0.0

    def refitted(self, name: str) -> Any:
        """Return a candidate fitted on all rows."""
        candidate = self.candidates[name]
        fitted = self.fits.fitted(_chain_of(candidate))
        if not isinstance(candidate, Composed):
            return fitted[0]
        whole = clone(candidate)
        whole.fitted_ = fitted
        return whole


def _chain_of(calibrator: Any) -> Chain:
    return calibrator.chain if isinstance(calibrator, Composed) else (calibrator,)


@dataclass(eq=False, repr=False)
class AutoCalibrator(Calibrator):
    """Calibrator that compares temperatures, vector and matrix scaling and their compositions, and averages the best.

    Candidates are compared by their cross-validated negative log-likelihood (NLL). Those within ``slack`` standard
    errors of the best, in paired differences over the rows, are not distinguishable from it: the calibrated logits are
    the mean of theirs.

    Args:
        candidates: dictionary from names to calibrators; None for Global, Linear and Feature Scaling (the last where
            ``fit`` is given features), vector and structured matrix scaling, and these two followed by Linear or
            Feature Scaling.
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.
        cv: number of folds, at least 2.
        slack: number of standard errors within which candidates are averaged; 0 for the best alone.
        random_state: seed of the folds; also a generator, or None for NumPy's own.
        n_jobs: number of folds that are fitted in parallel; None for one.

    Attributes:
        name_: name of the best candidate.
        members_: dictionary of the averaged candidates, fitted on all rows.
        scores_: cross-validated NLL of each candidate.
        behind_: number of standard errors by which each candidate is behind the best.
        n_classes_: number of classes.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import AutoCalibrator, GlobalTemperature, VectorScaling
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 1000)
        >>> logits = 3 * np.eye(3)[y] + 2 * rng.normal(size=(1000, 3)) + [4, 0, 0]    # too fond of class 0
        >>> auto = AutoCalibrator({"GS": GlobalTemperature(), "VS": VectorScaling()}).fit(logits, y)
        >>> list(auto.members_)
        ['VS']
        >>> auto.scores_["VS"] < auto.scores_["GS"]
        True

    See Also:
        :class:`CalibratedClassifier`, whose default method it is; :class:`AutoScale` for regressors.
    """

    candidates: dict[str, Calibrator] | None = None
    _: KW_ONLY
    cv: int = 5
    slack: float = 2.0
    random_state: Any = 0
    n_jobs: int | None = None

    def _fit_rows(self, rows: LabelledLogits) -> Self:
        candidates = self.candidates or default_candidates(self.n_classes_, features=rows.features is not None)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        compared = Comparison(candidates, rows, cv=self.cv, n_jobs=self.n_jobs, random_state=int(seed))
        self.name_, self.scores_, self.behind_ = compared.best, compared.scores, compared.behind
        chosen = [name for name, errors in self.behind_.items() if errors < self.slack] or [self.name_]
        self.members_ = {name: compared.refitted(name) for name in chosen}
        for member in self.members_.values():
            member.n_classes_ = self.n_classes_
        return self

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        return torch.stack([member._calibrate(logits, features) for member in self.members_.values()]).mean(0)


def default_candidates(classes: int, *, features: bool = False) -> dict[str, Calibrator]:
    """Return the default candidates of ``AutoCalibrator``, simplest first."""
    temperatures: dict[str, Calibrator] = {"LS": LinearTemperature()}
    if features:
        temperatures["LFS"] = FeatureTemperature()
    scalings: dict[str, Calibrator] = {"VS": VectorScaling()}
    if classes <= MATRIX_CLASSES:
        scalings["SMS"] = StructuredMatrixScaling()
        scalings["SMS, fixed"] = StructuredMatrixScaling(penalty=2.0 * classes)
    pairs = {f"{s} → {t}": compose(scalings[s], temperatures[t]) for s in scalings for t in temperatures}
    return {"GS": GlobalTemperature(), **temperatures, **scalings, **pairs}


@dataclass(kw_only=True, eq=False, repr=False)
class AutoScale(ScaleCalibrator):
    """The simplest scale calibrator whose cross-validated negative log-likelihood (NLL) is among the lowest.

    Candidates are compared in their order, simplest first: a later one is chosen if it is better than the best so far
    by more than one standard error of the paired difference.

    Args:
        likelihood: ``"normal"`` or ``"laplace"``, for the default candidates.
        candidates: dictionary from names to calibrators, simplest first. None for :class:`GlobalScale`,
            :class:`LinearScale`, :class:`DeepScale` and :class:`IsotonicScale`, and the second and third followed by
            the last; it is much faster without the networks of :class:`DeepScale`.
        cv: number of folds, at least 2.
        n_jobs: number of folds that are fitted in parallel; None for one.

    Attributes:
        name_: name of the chosen candidate.
        calibrator_: that candidate, fitted on all rows.
        scores_: cross-validated NLL of each candidate.
        behind_: number of standard errors by which each candidate is behind the one of lowest NLL.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import AutoScale, GlobalScale, IsotonicScale
        >>> rng = np.random.default_rng(0)
        >>> mean = rng.normal(size=500)
        >>> few = {"global": GlobalScale(), "isotonic": IsotonicScale()}
        >>> AutoScale(candidates=few).fit(mean, None, mean + rng.normal(size=500)).name_
        'global'

    See Also:
        :class:`CalibratedRegressor`, with ``method="auto"``; :class:`AutoCalibrator` for classifiers.
    """

    candidates: dict[str, Any] | None = None
    cv: int = 5
    n_jobs: int | None = None

    def _fit_rows(self, rows: Forecasts) -> Self:
        candidates = self.candidates or default_scales(self.likelihood)
        compared = Comparison(candidates, rows, cv=self.cv, n_jobs=self.n_jobs)
        self.name_, self.scores_, self.behind_ = next(iter(candidates)), compared.scores, compared.behind
        for name in compared.losses:
            if compared.gain(name, over=self.name_).sure(1.0) > 0:
                self.name_ = name
        self.calibrator_: ScaleCalibrator = compared.refitted(self.name_)
        return self

    def _distribution(self, rows: Forecasts) -> Distribution:
        return self.calibrator_._distribution(rows)

    def _scales(self, rows: Forecasts) -> Tensor:
        return self.calibrator_._scales(rows)


def default_scales(likelihood: str) -> dict[str, Any]:
    """Return the default candidates of ``AutoScale``, simplest first."""
    single = {name: kind(likelihood=likelihood) for name, kind in SCALE_METHODS.items() if name != "auto"}
    pairs = {f"{name}+isotonic": compose(single[name], single["isotonic"]) for name in ("linear", "deep")}
    return {**single, **pairs}


METHODS: dict[str, type[Calibrator]] = {
    "auto": AutoCalibrator,
    "global": GlobalTemperature,
    "linear": LinearTemperature,
    "feature": FeatureTemperature,
    "deep": DeepTemperature,
    "vector": VectorScaling,
    "matrix": StructuredMatrixScaling,
    "platt": PlattScaling,
    "isotonic": IsotonicCalibration,
}
SCALE_METHODS: dict[str, type[ScaleCalibrator]] = {
    "global": GlobalScale,
    "linear": LinearScale,
    "deep": DeepScale,
    "isotonic": IsotonicScale,
    "auto": AutoScale,
}


def make_calibrator(method: Any, kind: type = Calibrator) -> Any:
    """Return an unfitted calibrator of that kind: a copy of the given one, or the one of that name."""
    known: Mapping[str, type] = METHODS if kind is Calibrator else SCALE_METHODS
    if isinstance(method, str) and method in known:
        return known[method]()
    if not isinstance(method, kind):
        error = ValueError if isinstance(method, str) else TypeError
        raise error(f"method must be a {kind.__name__} or one of {', '.join(known)}; got {method!r}")
    if getattr(method, "inputs", "logits") != "logits":
        raise ValueError("the calibrator receives logits here: create it with inputs='logits'")
    return clone(method)
