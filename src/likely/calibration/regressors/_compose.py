"""Scale calibrators made of others: several in a row, and the one that cross-validation prefers."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor
from torch.distributions import Distribution

from likely._solvers.selection import held_out_gain
from likely.calibration._composition import AutomaticChoice, Composed, named, refitted
from likely.calibration._held_out import CrossFits
from likely.calibration.regressors._isotonic import IsotonicScale
from likely.calibration.regressors._predicted import DeepScale, LinearScale
from likely.calibration.regressors._rows import Forecasts
from likely.calibration.regressors._scale import GlobalScale, ScaleCalibrator


class ScalePipeline(Composed, ScaleCalibrator):
    """Scale calibrators in a row: each starts from the scales of the one before.

    :func:`compose_scales` makes one. Only the last may be an :class:`IsotonicScale`, which changes more than scales.
    A step's scales for its own rows fit them too well, so the next step is fitted on scales of rows held out in ``cv``
    folds (``None``: on the scales as they are).

    >>> import numpy as np
    >>> from likely.calibration import IsotonicScale, LinearScale, compose_scales
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 2))
    >>> mean, y = np.zeros(2000), np.exp(x[:, 0]) * rng.standard_t(3, size=2000)
    >>> both = compose_scales(LinearScale(), IsotonicScale()).fit(mean, None, y, features=x)
    >>> lower, upper = both.predict_interval(mean, None, features=x, coverage=0.5)
    >>> round(float(((lower < y) & (y < upper)).mean()), 1)
    0.5
    """

    def __init__(self, steps: list[tuple[str, Any]], *, cv: int | None = 5) -> None:
        self.steps = steps
        self.cv = cv

    def _fit_rows(self, rows: Forecasts) -> Self:
        if any(isinstance(step, IsotonicScale) for step in self.chain[:-1]):
            raise ValueError("IsotonicScale bends the whole distribution, so it comes last")
        self._fit_steps(rows)
        return self

    def _distribution(self, rows: Forecasts) -> Distribution:
        *before, last = self.fitted_
        return last._distribution(functools.reduce(Forecasts.after, before, rows))

    def _scales(self, rows: Forecasts) -> Tensor:
        return functools.reduce(Forecasts.after, self.fitted_, rows).scale


def compose_scales(*calibrators: Any, cv: int | None = 5) -> ScalePipeline:
    """Scale calibrators in a row, the first one first; see :class:`ScalePipeline`.

    >>> from likely.calibration import IsotonicScale, LinearScale, compose_scales
    >>> [name for name, _ in compose_scales(LinearScale(), IsotonicScale()).steps]
    ['linearscale', 'isotonicscale']
    """
    return ScalePipeline(named(calibrators), cv=cv)


@dataclass(kw_only=True, eq=False, repr=False)
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

    candidates: list[str] | dict[str, Any] | None = None
    cv: int = 5
    n_jobs: int | None = None

    def _fit_rows(self, rows: Forecasts) -> Self:
        candidates = self._candidates()
        rows = rows.loaded()
        some = rows.thinned()  # some of the rows choose, where there are very many elsewhere; all take part in the fit
        fits, losses = self._compare(candidates, some)
        self.name_ = next(iter(candidates))
        for name, loss in losses.items():
            if held_out_gain(losses[self.name_] - loss, some.weight).sure(1.0) > 0:
                self.name_ = name
        if some is not rows:
            fits = CrossFits(rows, cv=None)
        self.calibrator_: ScaleCalibrator = refitted(candidates[self.name_], fits)
        return self

    def _distribution(self, rows: Forecasts) -> Distribution:
        return self.calibrator_._distribution(rows)

    def _scales(self, rows: Forecasts) -> Tensor:
        return self.calibrator_._scales(rows)

    def _candidates(self) -> dict[str, Any]:
        if isinstance(self.candidates, dict) and self.candidates:
            return self.candidates
        common: dict[str, Any] = {"likelihood": self.likelihood}
        linear, deep, isotonic = LinearScale(**common), DeepScale(**common), IsotonicScale(**common)
        known = {
            "global": GlobalScale(**common),
            "linear": linear,
            "deep": deep,
            "isotonic": isotonic,
            "linear+isotonic": compose_scales(linear, isotonic),
            "deep+isotonic": compose_scales(deep, isotonic),
        }
        chosen = list(known) if self.candidates is None else self.candidates
        if not chosen or not set(chosen) <= set(known):
            raise ValueError(f"candidates must be some of {', '.join(known)}; got {self.candidates!r}")
        return {name: known[name] for name in known if name in chosen}
