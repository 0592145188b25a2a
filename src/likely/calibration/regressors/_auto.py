"""The choice among scale calibrators by cross-validated likelihood."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from likely._rows.checks import all_or_nothing
from likely.calibration._comparison import Comparison
from likely.calibration._composition import chain_of
from likely.calibration._cross_fit import CrossFits
from likely.calibration.regressors._compose import DelegatingScale, ScalePipeline, compose_scales
from likely.calibration.regressors._deep import DeepScale
from likely.calibration.regressors._isotonic import IsotonicScale
from likely.calibration.regressors._linear import LinearScale
from likely.calibration.regressors._rows import ForecastRows
from likely.calibration.regressors._scale import GlobalScale


class AutoScale(DelegatingScale):
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

    @all_or_nothing
    def fit(self, mean: Any, scale: Any, y: Any, features: Any = None, sample_weight: Any = None) -> Self:
        """Score the candidates on rows left out, then fit the winner on all of them."""
        candidates = self._candidates()
        rows = ForecastRows.counted(mean, scale, y, features, sample_weight)
        # All rows are read once before any are left out, so that bad input fails with its own message.
        rows.fit(GlobalScale(likelihood=self.likelihood))
        fits = CrossFits(rows, cv=rows.folds(self.cv) if self.cv > 1 else None, random_state=0, n_jobs=self.n_jobs)
        self.name_, self.scores_, self.behind_ = next(iter(candidates)), {}, {}
        if fits.splits:
            comparison = Comparison.of(candidates, fits)
            self.name_, self.scores_, self.behind_ = comparison.simplest(1.0), comparison.scores, comparison.behind
        chosen = candidates[self.name_]
        fitted = fits.fitted(chain_of(chosen))
        self.calibrator_ = fitted[0]
        if isinstance(chosen, ScalePipeline):
            self.calibrator_ = clone(chosen)
            self.calibrator_.fitted_ = fitted
        return self

    def _candidates(self) -> dict[str, Any]:
        if isinstance(self.candidates, dict) and self.candidates:
            return self.candidates
        kinds = {"global": GlobalScale, "linear": LinearScale, "deep": DeepScale}
        plain: dict[str, Any] = {name: kind(likelihood=self.likelihood) for name, kind in kinds.items()}
        bent: dict[str, Any] = {"isotonic": IsotonicScale(likelihood=self.likelihood)}
        for name in ("linear", "deep"):
            bent[f"{name}+isotonic"] = compose_scales(clone(plain[name]), clone(bent["isotonic"]))
        known = plain | bent
        chosen = list(known) if self.candidates is None else self.candidates
        if not chosen or not set(chosen) <= set(known):
            raise ValueError(f"candidates must be some of {', '.join(known)}; got {self.candidates!r}")
        return {name: known[name] for name in known if name in chosen}

    def _last(self, mean: Any, scale: Any, features: Any) -> tuple[Any, Any]:
        check_is_fitted(self)
        return self.calibrator_, scale
