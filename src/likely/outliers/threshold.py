"""Where outliers begin: thresholds from the scores of rows that were left out of the fit."""

from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from likely._typing import Array, Index

Contamination = Literal["auto"] | float
_FALSE_ALARMS = 0.1  # the share of false alarms that an automatic threshold is meant to have
_RARE = 0.005  # of ordinary rows lie so far out that one is named even where chance may have put it there
_MAX_RARE_SHARE, _MAX_RARE_ROWS = 0.02, 10  # as many are named for that, at most
_MAX_HEAVIER = 2.0  # times the spread of the middle half, a tail is allowed for
_MAX_OVERFITTED = 0.025  # of the rows, at most, are named by a network that has learned its rows by heart
_FEW = 100  # rows of which one is a share that counts
_MAX_LOG_DEVIATION = 2.0  # the standard deviation of the logarithm of a long tail, at most


def threshold(
    fitted: Array,
    unseen: Array,
    weight: Array | None,
    contamination: Contamination,
    long: bool = False,
    judged: Array | None = None,
) -> float:
    r"""The score above which a row is an outlier.

    With a share of rows, the score that this share of unseen rows exceeds. Automatic: the middle half of the scores is
    taken for normal; of the rows that lie further up than so many normal ones would, at most a tenth should be false
    alarms (Benjamini and Hochberg, 1995, under an empirical null as Efron's, 2004). In small tables that can name next
    to nothing, so rows beyond all but 0.5% of the normal are named too, as long as they are a fiftieth of the rows, and
    ten, or fewer. The threshold is the highest score of the others.

    >>> import numpy as np
    >>> from likely.outliers.threshold import threshold
    >>> scores = np.append(np.random.default_rng(0).normal(size=1000), np.full(50, 8.0))
    >>> 2 < threshold(scores, scores, None, "auto") < 8, threshold(np.arange(100.0), np.arange(100.0), None, 0.1)
    (True, 89.0)
    """
    row_weight = np.ones(len(unseen)) if weight is None else weight
    counted, there = row_weight > 0, (row_weight > 0) & ~np.isnan(unseen)
    seen, seen_weight, held, held_weight = fitted[counted], row_weight[counted], unseen[there], row_weight[there]
    if contamination != "auto":
        return _exceeded_by(contamination, seen, seen_weight, held, held_weight)
    judged = held if judged is None else judged[there]
    judged = shortened(judged, held_weight) if long else judged
    cutoff = _automatic(fitted[there], held, judged, held_weight)
    if cutoff >= held.max():  # no row is an outlier, nor is one of which the score if left out is unknown
        cutoff = max(cutoff, _above(float(seen.max())))
    if long and quantiles(held, held_weight, 0.5) > quantiles(seen, seen_weight, 0.75):
        # Half of the unseen rows fit worse than three quarters of the others: their tail tells nothing.
        cutoff = max(cutoff, float(quantiles(held, held_weight, 1 - _MAX_OVERFITTED)))
    return cutoff


def _exceeded_by(share: float, seen: Array, seen_weight: Array, held: Array, held_weight: Array) -> float:
    """The score that this share of unseen rows exceeds.

    Where unseen rows agree within a standard error, the training rows have exactly the share that was asked for.
    """
    level = 1 - share - 1e-9  # a hair lower, for 1 - 0.1 is not nine tenths
    of_seen = float(quantiles(seen, seen_weight, level))
    total = held_weight.sum()
    share_of_held, error = held_weight @ (held > of_seen) / total, np.sqrt(share * (1 - share) / total)
    if abs(share_of_held - share) <= error and total >= _FEW:
        return of_seen
    # Above the k-th highest of n rows there are k / (n + 1) of new ones.
    return float(quantiles(held, held_weight, min(level * (1 + (total < _FEW) / total), 1.0)))


def _automatic(fitted: Array, unseen: Array, judged: Array, weight: Array) -> float:
    """The highest score of unseen rows that are not outliers as ``judged``; if none is, no training row is one.

    A training row fits better than if it had been left out. The threshold is low enough for those that are outliers,
    unless that would name more than a fiftieth of all new rows, or more than ten of as many as there are.
    """
    order, beyond, above = tails = _tails(judged, weight)
    named = _false_among(*tails) <= _FALSE_ALARMS
    few = min(_MAX_RARE_SHARE * above[-1], _MAX_RARE_ROWS)  # in large tables false alarms can be told from others
    named[order] |= (beyond <= _RARE) & (above <= few)
    if not named.any():
        return _above(max(float(unseen.max()), float(fitted.max())))
    highest = float(unseen[~named].max(initial=unseen.min()))
    lowest = float(fitted[named].min())
    lowest -= 1e-8 * (1 + abs(lowest))
    return _above(min(highest, max(lowest, float(quantiles(unseen, weight, 1 - few / above[-1])))))


def _above(score: float) -> float:
    """A hair higher: rounding may depend on the rows beside a row."""
    return score + 1e-9 * (1 + abs(score))


def false_alarms(scores: Array, weight: Array | None = None) -> Array:
    """The share of false alarms among rows at least as odd, if the middle half of the scores is that of a normal.

    >>> import numpy as np
    >>> from likely.outliers.threshold import false_alarms
    >>> scores = np.append(np.random.default_rng(0).normal(size=1000), [9.0, 10.0])
    >>> (false_alarms(scores) < 0.1).nonzero()[0]
    array([1000, 1001])
    """
    return _false_among(*_tails(scores, weight))


def _false_among(order: Index, beyond: Array, above: Array) -> Array:
    """The share of false alarms among rows at least as odd as each, by the tails of all."""
    shares = np.empty(len(order))
    shares[order] = np.minimum.accumulate((beyond * above[-1] / above)[::-1])[::-1]
    return shares


def _tails(scores: Array, weight: Array | None) -> tuple[Index, Array, Array]:
    """Rows from the highest score down; the share of ordinary rows above each; the weight of the rows down to it."""
    order = np.argsort(-scores)
    above = np.cumsum(np.ones(len(scores)) if weight is None else weight[order])
    lower, middle, upper, high = quantiles(scores, weight, [0.25, 0.5, 0.75, 0.9])
    # Where half of the rows are alike, what sets the others apart is all there is to go by.
    spread = max(upper - middle, middle - lower) / 0.6745 or float(scores.std())
    # Heavy tails show at the ninth decile; but where a tenth of the rows are outliers it may be theirs.
    spread = max(spread, min((high - middle) / 1.2816, _MAX_HEAVIER * spread))
    beyond: Array = ndtr((middle - scores[order]) / spread) if spread else np.ones(len(scores))
    return order, beyond, above


def shortened(scores: Array, weight: Array | None) -> Array:
    """Scores in the same order whose upper tail, if it is long as a lognormal's, is that of a normal.

    The tail is Tukey's g, by the median, the upper quartile and the ninth decile. Likelihoods of networks are so.

    >>> import numpy as np
    >>> from likely.outliers.threshold import false_alarms, shortened
    >>> scores = np.exp(np.random.default_rng(0).normal(size=1000))
    >>> [int((false_alarms(own) < 0.1).sum()) for own in (scores, shortened(scores, None))]
    [24, 0]
    """
    middle, upper, high = quantiles(scores, weight, [0.5, 0.75, 0.9])
    near, far = upper - middle, high - middle
    if not far > 1.9 * near > 0:  # as a normal's are, or where there is nothing to go by
        return scores
    root, steps = 1.9, np.exp(0.6745 * np.linspace(1e-3, _MAX_LOG_DEVIATION, 400))
    base = steps[min(np.searchsorted((steps**root - 1) / (steps - 1), far / near), len(steps) - 1)]
    short: Array = np.where(
        scores > middle,
        middle + near * np.log1p(np.maximum(scores - middle, 0) * (base - 1) / near) / np.log(base),
        scores,
    )
    return short


def quantiles(values: Any, weight: Array | None, levels: Any) -> Array:
    """The least values that at least these shares of the weight do not exceed."""
    # A hair lower, for sums of weights are rounded.
    shares = np.asarray(levels) * (1 - 1e-12)
    return np.quantile(values, shares, axis=0, weights=weight, method="inverted_cdf")
