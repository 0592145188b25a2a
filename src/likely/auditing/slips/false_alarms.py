"""False-alarm rates of slips: common mistakes are compared with changes that nobody makes by mistake (placebos)."""

from __future__ import annotations

import numpy as np

from likely._typing import Array, Mask

# Judged by the benchmark of slips: without the tail of gains there are 40 false alarms instead of 32 in nine tables,
# without _CELLS hundreds; without _CLEARLY 127 of 140 slips are found instead of 130.
_APART = float(np.sqrt(10.0))  # ratio of the factor of a placebo to that of a slip: halfway to the next power of ten
VARIANTS = (1.0, _APART, 1 / _APART)  # the first leaves the factors of slips as they are; the others make placebos
_BODY, _END = 0.85, 0.95  # quantiles of the gains from which their exponential tail is estimated
_LEAST = 1.0  # the least scale of that tail, in nats
_CELLS = 10.0  # independent slips that are assumed to be tried per row
_CLEARLY = 0.75  # nats by which a placebo must be better than the slip to count: many fit equally well


def by_chance(gains: Array, placebos: Array, first: Mask | None = None) -> Array:
    r"""For each row, the share of false alarms among the rows that gain at least as much by a slip.

    The number of rows that gain as much by chance is estimated in three ways, of which the largest counts:

    - by the tail of the gains themselves, which is taken to be exponential;
    - by :math:`10 n e^{-t}`: if the model is right, a gain of t nats has a probability of at most :math:`e^{-t}`;
    - by the number of rows for which a placebo, such as ÷3.2, is clearly better than any slip, plus one (Barber and
      Candès, 2015). Because of the one, a single slip in a table must be rare enough by the other two.

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
