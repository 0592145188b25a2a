"""Calibrators made of others: several in sequence, and the average of those that cross-validation prefers."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from likely.calibration._composition import AutomaticChoice, Composed, named, refitted
from likely.calibration._held_out import CrossFits
from likely.calibration.classifiers._base import Calibrator
from likely.calibration.classifiers._rows import LabelledLogits
from likely.calibration.classifiers._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration.classifiers._temperature import FeatureTemperature, GlobalTemperature, LinearTemperature

_MATRIX = 200  # classes; a larger matrix has more entries than calibration sets can determine


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

    def _fit_rows(self, rows: LabelledLogits) -> Self:
        self.n_classes_ = rows.answers.shape[1]
        self._fit_steps(rows)
        return self

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        for step in self.fitted_:
            logits = step._calibrate(logits, features)
        return logits

    def _temperatures(self, logits: Tensor, features: Tensor | None) -> Tensor:
        total = logits.new_ones(len(logits))
        for step in self.fitted_:
            total = total * step._temperatures(logits, features)
            logits = step._calibrate(logits, features)
        return total


def compose(*calibrators: Calibrator, cv: int | None = 5, inputs: str = "logits") -> Composition:
    """Put calibrators in sequence, each fitted to the logits that the one before returns.

    Features go to every step that reads them. A step's logits for the rows it was fitted to are too good, and a
    temperature fitted to them is too low; so the next step is fitted to logits of rows held out in ``cv`` folds. The
    steps can be set and read as those of a scikit-learn pipeline.

    Args:
        *calibrators: the steps, the first one first.
        cv: number of folds; None, or logits too many to keep in memory, for the logits of the same rows.
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.

    Returns:
        An unfitted :class:`Composition`.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import LinearTemperature, VectorScaling, compose
        >>> both = compose(VectorScaling(), LinearTemperature())
        >>> both.get_params()["lineartemperature__penalty"]
        'evidence'
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 500)
        >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(500, 3))) + [2, 0, 0]
        >>> both.fit(logits, y).predict_proba(logits[:1]).round(1)
        array([[0., 0., 1.]])

    See Also:
        :func:`compose_scales` for regressors.
    """
    return Composition(named(calibrators), cv=cv, inputs=inputs)


@dataclass(eq=False, repr=False)
class AutoCalibrator(AutomaticChoice, Calibrator):
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
        self.n_classes_ = rows.answers.shape[1]
        candidates = self.candidates or default_candidates(self.n_classes_, features=rows.features is not None)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        rows = rows.loaded()
        some = rows.thinned()  # of very many rows some decide the choice; all are used in the fit
        fits, _ = self._compare(candidates, some, int(seed))
        if some is not rows:
            fits = CrossFits(rows, cv=None)
        chosen = [name for name in candidates if name == self.name_ or self.behind_.get(name, np.inf) < self.slack]
        self.members_ = {name: refitted(candidates[name], fits) for name in chosen}
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
    if classes <= _MATRIX:
        scalings["SMS"] = StructuredMatrixScaling()
        scalings["SMS, fixed"] = StructuredMatrixScaling(penalty=2.0 * classes)
    pairs = {f"{s} → {t}": compose(scalings[s], temperatures[t]) for s in scalings for t in temperatures}
    return {"GS": GlobalTemperature(), **temperatures, **scalings, **pairs}
