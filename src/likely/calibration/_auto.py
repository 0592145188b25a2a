"""The calibrators that cross-validation likes best, averaged."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from torch import Tensor

from likely._rows.blocks import Rows
from likely.calibration._base import Calibrator, like
from likely.calibration._compose import Composition, compose
from likely.calibration._cross_fit import KEPT, Chain, CrossFits
from likely.calibration._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration._temperature import FeatureTemperature, GlobalTemperature, LinearTemperature

_MATRIX = 200  # a matrix of more classes than this has more entries than calibration sets can speak for


class AutoCalibrator(Calibrator):
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

    def temperature(self, logits: Any, features: Any = None) -> Any:
        """The temperature of each row, where all members have one: their harmonic mean."""
        rows = self._rows(logits)
        plain = torch.cat([rows[part] for part in rows.blocks()])
        inverse = torch.stack([1 / member.temperature(plain, features) for member in self.members_.values()])
        return like(1 / inverse.mean(0), logits)

    def _fit(
        self, logits: Rows, y: NDArray[np.int64], features: Rows | None, weight: NDArray[np.float64] | None
    ) -> None:
        if self.cv < 2:
            raise ValueError(f"cv must be 2 or more, got {self.cv}")
        candidates = self.candidates or default_candidates(logits.shape[1], features=features is not None)
        # Some of the rows choose, where there are very many; all take part in the fit.
        thin = -(-len(y) // (KEPT // logits.shape[1]))
        some, seed = slice(0, len(y), thin), self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        seed = int(seed)
        extra = None if features is None else Rows(features[some])
        mass = np.ones(len(y[some])) if weight is None else weight[some]
        count = float(mass.sum())
        folds = max(2, min(self.cv, int(count) // 2))
        if count < 2 * folds:  # nothing can be held out: the first, which is the simplest, stands
            candidates = dict(list(candidates.items())[:1])
        fits = CrossFits(Rows(logits[some]), y[some], extra, mass, cv=folds, seed=seed, n_jobs=self.n_jobs)
        losses = {name: _nll(fits.held_out(_chain(each)), y[some]) for name, each in candidates.items()}
        self.scores_ = {name: float(np.average(each, weights=mass)) for name, each in losses.items()}
        self.name_ = min(self.scores_, key=lambda name: self.scores_[name])
        self.behind_ = {name: _in_errors(each - losses[self.name_], mass) for name, each in losses.items()}
        if thin > 1:
            fits = CrossFits(logits, y, features, weight, cv=None, seed=seed)
        self.members_ = {
            name: self._member(candidates[name], fits)
            for name in candidates
            if name == self.name_ or self.behind_[name] < self.slack
        }

    def _member(self, candidate: Calibrator, fits: CrossFits) -> Calibrator:
        fitted = fits.fitted(_chain(candidate))
        if not isinstance(candidate, Composition):
            return fitted[0]
        member: Composition = clone(candidate)
        member.fitted_, member.n_classes_, member.classes_ = fitted, self.n_classes_, self.classes_
        return member

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        return torch.stack([member._calibrate(logits, features) for member in self.members_.values()]).mean(0)


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


def _chain(candidate: Calibrator) -> Chain:
    return candidate.chain if isinstance(candidate, Composition) else (candidate,)


# Nats per row: candidates that fall back to the same map differ by rounding, which can be many standard errors.
_ALIKE = 1e-6


def _in_errors(difference: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    mean = np.average(difference, weights=weight)
    error = np.sqrt((weight * (difference - mean) ** 2).sum()) / weight.sum()  # a row of weight two is two rows
    return float(mean / error) if mean > _ALIKE else 0.0


def _nll(logits: Rows, y: NDArray[np.int64]) -> NDArray[np.float64]:
    log_p = torch.cat([torch.log_softmax(logits[part].double(), 1).cpu() for part in logits.blocks()])
    # A true class that was ruled out costs ∞ under every candidate, and must not hide how they differ elsewhere.
    nll: NDArray[np.float64] = np.minimum(-log_p.numpy()[np.arange(len(y)), y], 1e6)
    return nll
