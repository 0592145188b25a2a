"""Scale calibrators made of others: several in sequence, and the one that cross-validation prefers."""

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
    """Scale calibrators in sequence: each starts from the scales of the one before. Created by :func:`compose_scales`.

    Only the last may be an :class:`IsotonicScale`, which changes more than scales. A step's scales for the rows it was
    fitted to are too good, so the next step is fitted to scales of rows held out in ``cv`` folds.

    Args:
        steps: list of pairs (name, calibrator), the first one first.
        cv: number of folds; None for the scales of the same rows.

    Attributes:
        fitted_: list of the fitted steps.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import IsotonicScale, LinearScale, compose_scales
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(2000, 2))
        >>> mean, y = np.zeros(2000), np.exp(x[:, 0]) * rng.standard_t(3, size=2000)
        >>> both = compose_scales(LinearScale(), IsotonicScale()).fit(mean, None, y, features=x)
        >>> lower, upper = both.predict_interval(mean, None, features=x, coverage=0.5)
        >>> round(float(((lower < y) & (y < upper)).mean()), 1)
        0.5

    See Also:
        :func:`compose_scales`, :class:`AutoScale`; :class:`Composition` for classifiers.
    """

    def __init__(self, steps: list[tuple[str, Any]], *, cv: int | None = 5) -> None:
        self.steps = steps
        self.cv = cv

    def _fit_rows(self, rows: Forecasts) -> Self:
        if any(isinstance(step, IsotonicScale) for step in self.chain[:-1]):
            raise ValueError("IsotonicScale changes the whole distribution, so it comes last")
        self._fit_steps(rows)
        return self

    def _distribution(self, rows: Forecasts) -> Distribution:
        *before, last = self.fitted_
        return last._distribution(functools.reduce(Forecasts.after, before, rows))

    def _scales(self, rows: Forecasts) -> Tensor:
        return functools.reduce(Forecasts.after, self.fitted_, rows).scale


def compose_scales(*calibrators: Any, cv: int | None = 5) -> ScalePipeline:
    """Put scale calibrators in sequence, each starting from the scales that the one before returns.

    Args:
        *calibrators: the steps, the first one first; only the last may be an :class:`IsotonicScale`.
        cv: number of folds whose held-out scales the next step is fitted to; None for the scales of the same rows.

    Returns:
        An unfitted :class:`ScalePipeline`.

    Example:
        >>> from likely.calibration import IsotonicScale, LinearScale, compose_scales
        >>> [name for name, _ in compose_scales(LinearScale(), IsotonicScale()).steps]
        ['linearscale', 'isotonicscale']

    See Also:
        :func:`compose` for classifiers.
    """
    return ScalePipeline(named(calibrators), cv=cv)


@dataclass(kw_only=True, eq=False, repr=False)
class AutoScale(AutomaticChoice, ScaleCalibrator):
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
        rows = rows.loaded()
        some = rows.thinned()  # of very many rows in blocks some decide the choice; all are used in the fit
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
