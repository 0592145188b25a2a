"""The choice among calibrators by their likelihood on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import check_random_state
from torch import Tensor
from torch.distributions import Distribution

from likely._solvers.selection import held_out_gain
from likely.calibration._compose import Composed, compose
from likely.calibration._held_out import Chain, CrossFits
from likely.calibration.classifiers._base import Calibrator, LabelledLogits
from likely.calibration.classifiers._classic import IsotonicCalibration, PlattScaling
from likely.calibration.classifiers._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration.classifiers._temperature import (
    DeepTemperature,
    FeatureTemperature,
    GlobalTemperature,
    LinearTemperature,
)
from likely.calibration.regressors._isotonic import IsotonicScale
from likely.calibration.regressors._predicted import DeepScale, LinearScale
from likely.calibration.regressors._scale import Forecasts, GlobalScale, ScaleCalibrator

# Nats per row: candidates that fall back to the same map differ by rounding, which can be many standard errors.
ALIKE = 1e-6
MATRIX_CLASSES = 200  # a larger matrix has more entries than calibration sets can determine


class Comparison:
    """Candidates, the simplest first, compared by their losses on held-out rows.

    Of very many rows some decide the choice; all are used in the fits. There are no losses, scores and distances where
    no rows can be held out, and the best is then the first.
    """

    def __init__(
        self, candidates: Mapping[str, Any], rows: Any, *, cv: int, n_jobs: int | None, random_state: int = 0
    ) -> None:
        rows = rows.loaded()
        some = rows.thinned()
        folds = max(2, min(cv, int(some.count) // 2)) if cv > 1 else None  # at least two rows per fold
        fits = CrossFits(some, cv=folds, random_state=random_state, n_jobs=n_jobs)
        self.candidates, self.weight = candidates, some.weight
        self.losses = {name: fits.losses(_chain_of(step)) for name, step in candidates.items() if fits.splits}
        self.scores = {name: float(np.average(loss, weights=some.weight)) for name, loss in self.losses.items()}
        self.best = min(self.scores, key=lambda name: self.scores[name], default=next(iter(candidates)))
        self.behind = {name: self._errors_behind(name) for name in self.scores}
        self.fits = fits if some is rows else CrossFits(rows, cv=None)

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
        random_state: seed of the folds.
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
        if self.cv < 2:
            raise ValueError(f"cv must be 2 or more, got {self.cv}")
        candidates = self.candidates or default_candidates(self.n_classes_, features=rows.features is not None)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        compared = Comparison(candidates, rows, cv=self.cv, n_jobs=self.n_jobs, random_state=int(seed))
        self.name_, self.scores_, self.behind_ = compared.best, compared.scores, compared.behind
        behind = self.behind_ or {self.name_: 0.0}
        chosen = [name for name in behind if name == self.name_ or behind[name] < self.slack]
        self.members_ = {name: compared.refitted(name) for name in chosen}
        for member in self.members_.values():
            member.n_classes_ = self.n_classes_
        return self

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        return torch.stack([member._calibrate(logits, features) for member in self.members_.values()]).mean(0)

    def _temperatures(self, logits: Tensor, features: Tensor | None) -> Tensor:
        inverse = [1 / member._temperatures(logits, features) for member in self.members_.values()]
        return 1 / torch.stack(inverse).mean(0)


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
        likelihood: ``"normal"`` or ``"laplace"``, for candidates given by name.
        candidates: list of names, or dictionary from names to calibrators, simplest first. None for ``"global"``,
            ``"linear"`` and ``"deep"``, then ``"isotonic"``, ``"linear+isotonic"`` and ``"deep+isotonic"``; it is much
            faster without the networks (``"deep"``).
        cv: number of folds.
        n_jobs: number of folds that are fitted in parallel; None for one.

    Attributes:
        name_: name of the chosen candidate.
        calibrator_: that candidate, fitted on all rows.
        scores_: cross-validated NLL of each candidate.
        behind_: number of standard errors by which each candidate is behind the one of lowest NLL.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import AutoScale
        >>> rng = np.random.default_rng(0)
        >>> mean = rng.normal(size=500)
        >>> few = ["global", "linear", "isotonic"]
        >>> AutoScale(candidates=few).fit(mean, None, mean + rng.normal(size=500)).name_
        'global'

    See Also:
        :class:`CalibratedRegressor`, with ``method="auto"``; :class:`AutoCalibrator` for classifiers.
    """

    candidates: list[str] | dict[str, Any] | None = None
    cv: int = 5
    n_jobs: int | None = None

    def _fit_rows(self, rows: Forecasts) -> Self:
        candidates = self._candidates()
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

    def _candidates(self) -> dict[str, Any]:
        if isinstance(self.candidates, dict) and self.candidates:
            return self.candidates
        single = {name: kind(likelihood=self.likelihood) for name, kind in SCALE_METHODS.items() if name != "auto"}
        pairs = {f"{name}+isotonic": compose(single[name], single["isotonic"]) for name in ("linear", "deep")}
        known: dict[str, Any] = single | pairs
        chosen = list(known) if self.candidates is None else self.candidates
        if not chosen or not set(chosen) <= set(known):
            raise ValueError(f"candidates must be some of {', '.join(known)}; got {self.candidates!r}")
        return {name: known[name] for name in known if name in chosen}


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


def make_calibrator(method: Any) -> Calibrator:
    """Return an unfitted calibrator of logits: a copy of the given one, or the one of that name."""
    calibrator: Calibrator = _made(method, Calibrator, METHODS, "calibrator")
    if calibrator.inputs != "logits":
        raise ValueError("the calibrator receives logits here: create it with inputs='logits'")
    return calibrator


def make_scale_calibrator(method: Any) -> ScaleCalibrator:
    """Return an unfitted scale calibrator: a copy of the given one, or the one of that name."""
    return _made(method, ScaleCalibrator, SCALE_METHODS, "scale calibrator")


def _made(method: Any, kind: type, known: Mapping[str, Any], name: str) -> Any:
    if isinstance(method, kind):
        return clone(method)
    if isinstance(method, str) and method in known:
        return known[method]()
    error = ValueError if isinstance(method, str) else TypeError
    raise error(f"method must be a {name} or one of {', '.join(known)}; got {method!r}")
