"""Targets with a wrong unit or sign: how much better they fit once mended, compared with placebo factors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from likely._typing import Array
from likely.auditing._by_chance import APART, by_chance
from likely.auditing._possible import Possible
from likely.auditing._squash import FACTORS, Squash

_SETS = (1.0, APART, 1 / APART)  # the first leaves the factors of slips as they are; the others make placebos
_OFF = 2.0  # scales: a target nearer to its prediction is not tried
_REACH = 3.0  # scales: a mended target must be nearer to its prediction
_MOVED = 3.0  # scales: a slip must move the target further
Nll = Callable[[Array, Array], Array]


def slips_by_chance(u: Array, mean: Array, scale: Array, nll: Nll, squash: Squash) -> Array:
    """For each target, the share of false alarms among targets that gain at least as much by another unit or sign."""
    gains = np.zeros((len(_SETS), len(u)))
    rows = np.flatnonzero(np.abs(u - mean) > _OFF * scale)
    y = squash.back(u)
    possible = Possible.of(y)
    before = nll(u[rows] - mean[rows], scale[rows])
    for number_of_set, times in enumerate(_SETS):
        for factor in FACTORS:
            may = possible(y[rows] * factor)
            mended = squash.times(u[rows], factor * times)
            stretch = np.minimum(squash.log_stretch(u[rows], mended, factor * times), 0.0)
            gain = before - nll(mended - mean[rows], scale[rows]) + stretch
            gain += possible.nats(y[rows]) - possible.nats(y[rows] * factor)
            near = np.abs(mended - mean[rows]) < _REACH * scale[rows]
            moved = np.abs(mended - u[rows]) > _MOVED * scale[rows]
            best = np.where(may & near & moved, gain, 0.0)
            gains[number_of_set][rows] = np.maximum(gains[number_of_set][rows], best)
    return by_chance(gains[0], gains[1:])
