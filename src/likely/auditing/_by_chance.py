"""How often a mend succeeds by chance: slips that people make, held against changes that nobody makes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from likely._typing import Array

APART = float(np.sqrt(10.0))  # from a slip, the factor of a change that is no slip: halfway to the next power of ten
_BODY, _END = 0.85, 0.95  # the quantiles of the gains by which their tail is told
_LEAST = 1.0  # nats in which the tail of gains falls by a factor of e, at least
_CELLS = 10.0  # gains by chance that each row is taken to have had a try at
_CLEARLY = 0.75  # nats by which a change that is no slip must be better to count: many fit as well as the slip


def by_chance(gains: Array, placebos: Array, first: NDArray[np.bool_] | None = None) -> Array:
    r"""The share of false alarms among rows that a slip mends at least as well as each row.

    Three estimates of how many rows would gain as much by chance, of which the largest counts: the tail of the gains
    themselves, which is exponential; :math:`10 n e^{-t}`, for a gain of t nats has a probability of at most
    :math:`e^{-t}` if the model is right; and the number of rows for which a change that nobody makes by mistake, such
    as ÷3.2, is clearly better than any slip, and one more (Barber and Candès, 2015): one or two slips of a table have
    to be rare enough by themselves.

    Args:
        gains: of every row, the nats that the best slip takes off; zero where none does.
        placebos: the same of sets of changes that are no slips, of shape (sets, rows).
        first: marks the rows that count; the others are copies, which are judged as these are. All by default.

    Returns:
        The shares, of shape (rows,); 1 where nothing is gained.

    >>> rng = np.random.default_rng(0)
    >>> gains, placebos = rng.exponential(size=1000), rng.exponential(size=(2, 1000))
    >>> gains[:9] = 15.0
    >>> chance = by_chance(gains, placebos)
    >>> bool(chance[:9].max() < 0.1), bool(chance[9:].min() > 0.2)
    (True, True)
    """
    if first is not None and not first.all():
        known = np.argsort(gains[first], kind="stable")
        shares = by_chance(gains[first], placebos[:, first])[known]
        at = np.searchsorted(gains[first][known], gains, "right") - 1
        return np.where(at >= 0, shares[at], 1.0)
    rows = len(gains)
    body, end = np.quantile(gains, [_BODY, _END])
    fall = max(float(end - body) / np.log((1 - _BODY) / (1 - _END)), _LEAST)
    order = np.argsort(-gains, kind="stable")
    least = gains[order]
    better = np.sort(np.concatenate([placebo[placebo > gains + _CLEARLY] for placebo in placebos]))
    expected = np.max(
        [
            rows * (1 - _BODY) * np.exp(-np.clip((least - body) / fall, -50.0, None)),
            _CELLS * rows * np.exp(-least),
            (1 + len(better) - np.searchsorted(better, least)) / len(placebos),
        ],
        axis=0,
    )
    shares = np.empty(rows)
    falling = np.minimum.accumulate((expected / np.arange(1, rows + 1))[::-1])[::-1]
    shares[order] = np.where(least > 0, np.minimum(falling, 1.0), 1.0)
    return shares
