"""The choice among scale calibrators by cross-validated likelihood."""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor
from torch.distributions import Distribution

from likely._solvers.selection import held_out_gain
from likely.calibration._composition import AutomaticChoice, refitted
from likely.calibration.regressors._compose import compose_scales
from likely.calibration.regressors._deep import DeepScale
from likely.calibration.regressors._isotonic import IsotonicScale
from likely.calibration.regressors._linear import LinearScale
from likely.calibration.regressors._rows import Forecasts
from likely.calibration.regressors._scale import GlobalScale, ScaleCalibrator


class AutoScale(AutomaticChoice, ScaleCalibrator):
    """The scale calibrator of lowest cross-validated NLL, simplest first.

    Args:
        candidates: names of candidates, or a dictionary from names to calibrators, simplest first. None stands for
            ``"global"``, ``"linear"`` and ``"deep"``, then ``"isotonic"``, ``"linear+isotonic"`` and
            ``"deep+isotonic"``; without the networks it is much faster. A later one must beat the best so far by a
            standard error of the paired difference.
        cv: number of folds.
        likelihood: ``"normal"`` or ``"laplace"``, of candidates given by name.
        n_jobs: folds to fit at the same time.

    Attributes:
        name_: the name of the candidate chosen.
        calibrator_: that candidate, fitted on all rows.
        scores_: the cross-validated NLL of every candidate.
        behind_: how many standard errors each candidate is behind the best.

    >>> import numpy as np
    >>> from likely.calibration import AutoScale
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=500)
    >>> few = ["global", "linear", "isotonic"]
    >>> AutoScale(candidates=few).fit(mean, None, mean + rng.normal(size=500)).name_
    'global'
    """

    def __init__(
        self,
        *,
        candidates: list[str] | dict[str, Any] | None = None,
        cv: int = 5,
        likelihood: str = "normal",
        n_jobs: int | None = None,
    ) -> None:
        self.candidates = candidates
        self.cv = cv
        self.likelihood = likelihood
        self.n_jobs = n_jobs

    def _fit_rows(self, rows: Forecasts) -> Self:
        candidates = self._candidates()
        fits, losses = self._compare(candidates, rows)
        self.name_ = next(iter(candidates))
        for name, loss in losses.items():
            if held_out_gain(losses[self.name_] - loss, rows.weight).sure(1.0) > 0:
                self.name_ = name
        self.calibrator_ = refitted(candidates[self.name_], fits)
        return self

    def _distribution(self, rows: Forecasts) -> Distribution:
        distribution: Distribution = self.calibrator_._distribution(rows)
        return distribution

    def _scales(self, rows: Forecasts) -> Tensor:
        scales: Tensor = self.calibrator_._scales(rows)
        return scales

    def _candidates(self) -> dict[str, Any]:
        if isinstance(self.candidates, dict) and self.candidates:
            return self.candidates
        kinds = {"global": GlobalScale, "linear": LinearScale, "deep": DeepScale}
        plain: dict[str, Any] = {name: kind(likelihood=self.likelihood) for name, kind in kinds.items()}
        bent: dict[str, Any] = {"isotonic": IsotonicScale(likelihood=self.likelihood)}
        for name in ("linear", "deep"):
            bent[f"{name}+isotonic"] = compose_scales(plain[name], bent["isotonic"])
        known = plain | bent
        chosen = list(known) if self.candidates is None else self.candidates
        if not chosen or not set(chosen) <= set(known):
            raise ValueError(f"candidates must be some of {', '.join(known)}; got {self.candidates!r}")
        return {name: known[name] for name in known if name in chosen}
