"""Scale calibrators one after the other."""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor
from torch.distributions import Distribution

from likely.calibration._composition import Composed, named
from likely.calibration.regressors._isotonic import IsotonicScale
from likely.calibration.regressors._rows import Forecasts
from likely.calibration.regressors._scale import ScaleCalibrator


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
        distribution: Distribution = self.fitted_[-1]._distribution(self._before_last(rows))
        return distribution

    def _scales(self, rows: Forecasts) -> Tensor:
        scales: Tensor = self.fitted_[-1]._scales(self._before_last(rows))
        return scales

    def _before_last(self, rows: Forecasts) -> Forecasts:
        for step in self.fitted_[:-1]:
            rows = rows.after(step)
        return rows


def compose_scales(*calibrators: Any, cv: int | None = 5) -> ScalePipeline:
    """Scale calibrators in a row, the first one first; see :class:`ScalePipeline`.

    >>> from likely.calibration import IsotonicScale, LinearScale, compose_scales
    >>> [name for name, _ in compose_scales(LinearScale(), IsotonicScale()).steps]
    ['linearscale', 'isotonicscale']
    """
    return ScalePipeline(named(calibrators), cv=cv)
