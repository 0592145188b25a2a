"""The calibrator that cross-validation likes best."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from torch import Tensor

from likely._evidence import Rows
from likely.calibration._base import Calibrator, like
from likely.calibration._compose import compose, deal, take
from likely.calibration._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration._temperature import FeatureTemperature, GlobalTemperature, LinearTemperature

_CHOICE = 2**23  # numbers: so many logits, at most, take part in the choice; all take part in the fit
_MATRIX = 200  # a matrix of more classes than this has more entries than calibration sets can speak for


class AutoCalibrator(Calibrator):
    """Tries temperatures, vector and matrix scaling and their compositions; keeps the best by cross-validated NLL.

    ``candidates`` maps names to calibrators, simplest first; None stands for Global, Linear and Feature Scaling
    (the last where ``fit`` is given features), vector and structured matrix scaling, and those followed by Linear or
    Feature Scaling. Of the candidates within ``slack`` standard errors of the best, in paired differences over the
    rows, the first is taken. ``scores_`` has the cross-validated NLL of each, ``name_`` the winner's name and
    ``best_`` the winner, fitted on all rows.

    >>> import numpy as np
    >>> from likely.calibration import AutoCalibrator, GlobalTemperature, VectorScaling
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 1000)
    >>> logits = 3 * np.eye(3)[y] + 2 * rng.normal(size=(1000, 3)) + [4, 0, 0]    # too fond of class 0
    >>> auto = AutoCalibrator({"GS": GlobalTemperature(), "VS": VectorScaling()}).fit(logits, y)
    >>> auto.name_
    'VS'
    >>> auto.scores_["VS"] < auto.scores_["GS"]
    True
    """

    def __init__(
        self,
        candidates: dict[str, Calibrator] | None = None,
        *,
        cv: int = 5,
        slack: float = 0.0,
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
        """The temperature of each row, where the chosen calibrator has one."""
        rows = self._rows(logits)
        plain = torch.cat([rows[part] for part in rows.blocks()])
        return like(self.best_.temperature(plain, features), logits)

    def _fit(
        self, logits: Rows, y: NDArray[np.int64], features: Rows | None, weight: NDArray[np.float64] | None
    ) -> None:
        if self.cv < 2:
            raise ValueError(f"cv must be 2 or more, got {self.cv}")
        # A linear temperature cannot read -∞.
        finite = all(bool(logits[part].isfinite().all()) for part in logits.blocks())
        candidates = self.candidates or default_candidates(
            logits.shape[1], linear=finite, features=features is not None
        )
        thin = max(1, -(-len(y) * logits.shape[1] // _CHOICE))
        folds = [fold[::thin] for fold in deal(y, self.cv, check_random_state(self.random_state))]
        everyone = np.concatenate(folds)
        jobs = [(name, fold) for name in candidates for fold in folds]
        answers = Parallel(n_jobs=self.n_jobs)(
            delayed(_held_out)(candidates[name], logits, y, features, weight, np.setdiff1d(everyone, fold), fold)
            for name, fold in jobs
        )
        held: dict[str, list[NDArray[np.float64]]] = {name: [] for name in candidates}
        for (name, _), answer in zip(jobs, answers, strict=True):
            held[name].append(answer)
        rows = {name: np.concatenate(parts) for name, parts in held.items()}
        mass = np.concatenate([np.ones(len(fold)) if weight is None else weight[fold] for fold in folds])
        self.scores_ = {name: float(np.average(each, weights=mass)) for name, each in rows.items()}
        best = min(self.scores_, key=lambda name: self.scores_[name])
        self.name_ = next(
            name
            for name in candidates
            if self.scores_[name] - self.scores_[best] <= self.slack * _standard_error(rows[name] - rows[best], mass)
        )
        self.best_: Calibrator = clone(candidates[self.name_])._fit_checked(logits, y, features, weight)

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        return self.best_._calibrate(logits, features)


def default_candidates(classes: int, *, linear: bool = True, features: bool = False) -> dict[str, Calibrator]:
    """What ``AutoCalibrator`` tries, simplest first."""
    temperatures: dict[str, Calibrator] = {"LS": LinearTemperature()} if linear else {}
    if features:
        temperatures["LFS"] = FeatureTemperature()
    scalings: dict[str, Calibrator] = {"VS": VectorScaling()}
    if classes <= _MATRIX:
        scalings["SMS"] = StructuredMatrixScaling()
        scalings["SMS, fixed"] = StructuredMatrixScaling(penalty=2.0 * classes)
    pairs = {f"{s} → {t}": compose(scalings[s], temperatures[t]) for s in scalings for t in temperatures}
    return {"GS": GlobalTemperature(), **temperatures, **scalings, **pairs}


def _held_out(
    calibrator: Calibrator,
    logits: Rows,
    y: NDArray[np.int64],
    features: Rows | None,
    weight: NDArray[np.float64] | None,
    kept: NDArray[np.int64],
    held: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The NLL of each row that was held out."""
    part = None if weight is None else weight[kept]
    fitted = clone(calibrator)._fit_checked(take(logits, kept), y[kept], take(features, kept), part)
    extra = None if features is None else take(features, held)[slice(None)]
    calibrated = fitted._calibrate(take(logits, held)[slice(None)], extra)
    log_p = torch.log_softmax(calibrated.double(), 1).cpu().numpy()
    # A true class that was ruled out costs ∞ under every candidate, and must not hide how they differ elsewhere.
    nll: NDArray[np.float64] = np.minimum(-log_p[np.arange(len(held)), y[held]], 1e6)
    return nll


def _standard_error(difference: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    mean = np.average(difference, weights=weight)
    return float(np.sqrt((weight**2 * (difference - mean) ** 2).sum()) / weight.sum())
