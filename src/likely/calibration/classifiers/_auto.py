"""The calibrators that cross-validation likes best, averaged."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from likely.calibration._composition import AutomaticChoice, refitted
from likely.calibration._held_out import CrossFits
from likely.calibration.classifiers._base import Calibrator
from likely.calibration.classifiers._compose import compose
from likely.calibration.classifiers._rows import LabelledLogits
from likely.calibration.classifiers._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration.classifiers._temperature import FeatureTemperature, GlobalTemperature, LinearTemperature

_MATRIX = 200  # a matrix of more classes than this has more entries than calibration sets can speak for


class AutoCalibrator(AutomaticChoice, Calibrator):
    """Tries temperatures, vector and matrix scaling and their compositions; averages the best by cross-validated NLL.

    ``candidates`` maps names to calibrators; None stands for Global, Linear and Feature Scaling (the last where ``fit``
    is given features), vector and structured matrix scaling, and those followed by Linear or Feature Scaling.
    Candidates within ``slack`` standard errors of the best, in paired differences over the rows, cannot be told from
    it: the answer is the mean of their logits, with ``slack=0`` the best alone. ``scores_`` has the cross-validated
    NLL of each candidate, ``behind_`` how many standard errors it is behind the best, ``name_`` the name of the best,
    and ``members_`` those averaged, fitted on all rows.

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
    """

    def __init__(
        self,
        candidates: dict[str, Calibrator] | None = None,
        *,
        cv: int = 5,
        slack: float = 2.0,
        random_state: Any = 0,
        n_jobs: int | None = None,
        inputs: str = "logits",
    ) -> None:
        super().__init__(inputs=inputs)
        self.candidates = candidates
        self.cv = cv
        self.slack = slack
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit_rows(self, rows: LabelledLogits) -> Self:
        if self.cv < 2:
            raise ValueError(f"cv must be 2 or more, got {self.cv}")
        self.n_classes_ = rows.answers.shape[1]
        candidates = self.candidates or default_candidates(self.n_classes_, features=rows.features is not None)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        some = rows.thinned()  # some of the rows choose, where there are very many; all take part in the fit
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
        """The harmonic mean of the members' temperatures, where all have one."""
        return 1 / torch.stack([1 / member._temperatures(logits, features) for member in self.members_.values()]).mean(
            0
        )


def default_candidates(classes: int, *, features: bool = False) -> dict[str, Calibrator]:
    """What ``AutoCalibrator`` tries, simplest first."""
    temperatures: dict[str, Calibrator] = {"LS": LinearTemperature()}
    if features:
        temperatures["LFS"] = FeatureTemperature()
    scalings: dict[str, Calibrator] = {"VS": VectorScaling()}
    if classes <= _MATRIX:
        scalings["SMS"] = StructuredMatrixScaling()
        scalings["SMS, fixed"] = StructuredMatrixScaling(penalty=2.0 * classes)
    pairs = {f"{s} → {t}": compose(scalings[s], temperatures[t]) for s in scalings for t in temperatures}
    return {"GS": GlobalTemperature(), **temperatures, **scalings, **pairs}
