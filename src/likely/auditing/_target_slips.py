"""Targets in which a unit or a sign slipped: what mends them, held against factors that nobody mistakes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from likely._typing import Array
from likely.auditing._by_chance import APART, by_chance
from likely.auditing._possible import Possible
from likely.auditing._squash import UNITS, Squash

_SETS = (1.0, APART, 1 / APART)  # by which units are multiplied: the first set is that of slips
_OFF = 2.0  # scales: a target nearer to what is expected has not slipped
_REACH = 3.0  # scales from what is expected within which a mended target lies
_MOVED = 3.0  # scales by which a slip moves a target
Nll = Callable[[Array, Array], Array]


def slips_by_chance(u: Array, mean: Array, scale: Array, nll: Nll, squash: Squash) -> Array:
    """The share of false alarms among targets that another unit or sign mends at least as well as each.

    Args:
        u: squashed targets, of shape (rows,).
        mean: what is expected.
        scale: the scales of the residuals.
        nll: of residuals, with their scales.
        squash: how targets were squashed.

    Returns:
        The shares, of shape (rows,).
    """
    gains = np.zeros((len(_SETS), len(u)))
    rows = np.flatnonzero(np.abs(u - mean) > _OFF * scale)
    y = squash.back(u)
    possible = Possible.of(y)
    before = nll(u[rows] - mean[rows], scale[rows])
    for number_of_set, times in enumerate(_SETS):
        for factor in UNITS:
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
