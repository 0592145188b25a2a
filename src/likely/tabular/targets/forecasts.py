"""The predicted distributions of some rows, from the model of each target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.distributions import Distribution

from likely._typing import Array, Index
from likely.likelihoods._distribution import quantile
from likely.tabular.targets.continuous import ContinuousTarget
from likely.tabular.targets.counts import CountTarget


@dataclass(frozen=True)
class Forecast:
    """The predicted distribution of one target: its model, and the parameters of each row."""

    model: ContinuousTarget | CountTarget
    parameters: dict[str, Array]

    @property
    def distribution(self) -> Distribution:
        """The distribution of each row's target."""
        return self.model.distribution(**self.parameters)

    def select(self, rows: Index) -> Forecast:
        """Return the forecast of some of the rows."""
        return Forecast(self.model, {name: values[rows] for name, values in self.parameters.items()})


def means_of(forecasts: Sequence[Forecast]) -> Array:
    """Return the means, of shape (rows, targets)."""
    return np.column_stack([forecast.model.mean(**forecast.parameters) for forecast in forecasts])


def deviations_of(forecasts: Sequence[Forecast]) -> Array:
    """Return the standard deviations, of shape (rows, targets)."""
    return np.column_stack([_deviation(forecast.distribution) for forecast in forecasts])


def nlls_of(forecasts: Sequence[Forecast], targets: Array) -> Array:
    """Return the NLLs of targets, of shape (rows, targets)."""
    pairs = zip(forecasts, targets.T, strict=True)
    return np.column_stack([-np.asarray(forecast.distribution.log_prob(torch.as_tensor(y))) for forecast, y in pairs])


def conformities_of(forecasts: Sequence[Forecast], targets: Array) -> list[Array]:
    """Return the distance of the targets from the middle of their distributions, (rows,) per target."""
    pairs = zip(forecasts, targets.T, strict=True)
    return [forecast.model.conformity(y, **forecast.parameters) for forecast, y in pairs]


def intervals_of(forecasts: Sequence[Forecast], reach: Sequence[float]) -> tuple[Array, Array]:
    """Return the lower and upper ends of the intervals up to a distance per target, each of shape (rows, targets)."""
    pairs = zip(forecasts, reach, strict=True)
    ends = [forecast.model.interval(distance, **forecast.parameters) for forecast, distance in pairs]
    lower, upper = (np.column_stack(side) for side in zip(*ends, strict=True))
    return lower, upper


def _deviation(distribution: Distribution) -> Array:
    """Return the standard deviation, or half the central 68% interval where it does not exist."""
    try:
        deviation = np.asarray(distribution.stddev)
    except NotImplementedError:
        deviation = np.full(distribution.batch_shape, np.nan)
    valid = np.isfinite(deviation) & (deviation > 0)  # squares of very large and very small numbers are neither
    if valid.all():
        return deviation
    low, high = (quantile(distribution, level) for level in (0.1587, 0.8413))
    least = np.finfo(np.float64).tiny
    return np.where(valid, deviation, np.maximum(high / 2 - low / 2, least))


def reach_of(conformity: Array, coverage: float) -> float:
    """Return the smallest score that holds ``coverage`` of n + 1 rows; ∞ where there are too few rows for that."""
    rank = int(np.ceil(coverage * (len(conformity) + 1)))
    return float(np.sort(conformity)[rank - 1]) if rank <= len(conformity) else np.inf
