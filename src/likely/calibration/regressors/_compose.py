"""Scale calibrators one after the other."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch.distributions import Distribution

from likely._rows.checks import all_or_nothing
from likely.calibration._composition import Composed, named
from likely.calibration.regressors._isotonic import IsotonicScale
from likely.calibration.regressors._rows import ForecastRows
from likely.calibration.regressors._scale import Intervals


class DelegatingScale(Intervals, BaseEstimator):
    """A calibrator that answers as the last fitted one does, with the scale that one expects."""

    def distribution(self, mean: Any, scale: Any, features: Any = None) -> Distribution:
        """The calibrated distribution of every row: log_prob, cdf, icdf, sample."""
        last, own = self._last(mean, scale, features)
        answer: Distribution = last.distribution(mean, own, features)
        return answer

    def predict_scale(self, mean: Any, scale: Any, features: Any = None) -> Any:
        """The calibrated scale of every row."""
        last, own = self._last(mean, scale, features)
        return last.predict_scale(mean, own, features)

    def _last(self, mean: Any, scale: Any, features: Any) -> tuple[Any, Any]:
        raise TypeError("use ScalePipeline or AutoScale")


class ScalePipeline(Composed, DelegatingScale):
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

    @all_or_nothing
    def fit(self, mean: Any, scale: Any, y: Any, features: Any = None, sample_weight: Any = None) -> Self:
        """Fit the steps one by one."""
        if any(isinstance(step, IsotonicScale) for step in self.chain[:-1]):
            raise ValueError("IsotonicScale bends the whole distribution, so it comes last")
        self._fit_steps(ForecastRows.counted(mean, scale, y, features, sample_weight))
        return self

    def _last(self, mean: Any, scale: Any, features: Any) -> tuple[Any, Any]:
        check_is_fitted(self)
        for step in self.fitted_[:-1]:
            scale = step.predict_scale(mean, scale, features)
        return self.fitted_[-1], scale


def compose_scales(*calibrators: Any, cv: int | None = 5) -> ScalePipeline:
    """Scale calibrators in a row, the first one first; see :class:`ScalePipeline`.

    >>> from likely.calibration import IsotonicScale, LinearScale, compose_scales
    >>> [name for name, _ in compose_scales(LinearScale(), IsotonicScale()).steps]
    ['linearscale', 'isotonicscale']
    """
    return ScalePipeline(named(calibrators), cv=cv)
