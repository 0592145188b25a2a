"""Folds, and whether predictions of rows held out beat a constant: only then do they speak against a target."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax

from likely._rows.contents import deal
from likely._typing import Array, Floats, Index, Mask, Places

FOLDS = 5
FITTED = 20_000  # rows a model is fitted to, at most; all rows are predicted
ERRORS = 2.0  # standard errors by which predictions must beat a constant
SCALES = np.exp(np.arange(-4.0, 5.0, 0.15))  # that logits of unit deviation are multiplied by
_STEPS = 50
_ROWS, _NUMBERS = 20_000, 1_000_000  # rows that speak for all, and numbers of a matrix of their probabilities


def fold_out(n: int, seed: int, most: int = FITTED, groups: Index | None = None) -> Iterator[tuple[Index, Index]]:
    """Rows to fit, at most so many, and rows to predict, for each fold; rows of one group are in the same fold.

    >>> [(len(fit), len(held)) for fit, held in fold_out(1000, seed=0, most=500)]
    [(500, 200), (500, 200), (500, 200), (500, 200), (500, 200)]
    """
    random = np.random.RandomState(seed)
    member = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    for fold in deal(int(member.max()) + 1, FOLDS, random):
        inside = np.isin(member, fold)
        yield np.sort(random.permutation(np.flatnonzero(~inside))[:most]), np.flatnonzero(inside)


class Predictable(NamedTuple):
    """Whether the labels can be predicted, and for each class, whether it can be told from the others."""

    labels: bool
    classes: Mask


def predictable_labels(logits: Floats, y: Places, seed: int = 0) -> Predictable:
    r"""Do probabilities from these logits beat the shares of the classes by two standard errors?

    The probabilities are :math:`(1 - w) \pi + w\,\mathrm{softmax}(s z)`, with the shares :math:`\pi` of the classes and
    the best w and s: logits that are sure of what they do not know get a small w, and lose nothing. A class can be told
    from the others if the same holds for "this class or not". The logits are of a model that was not fitted to these
    rows.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 500)
    >>> predictable_labels(9 * rng.normal(size=(500, 3)), y).labels
    False
    >>> predictable_labels(np.eye(3)[y] + rng.normal(size=(500, 3)), y).classes
    array([ True,  True,  True])
    """
    z, labels, likelihood, _ = scaled_likelihoods(logits, y, seed)
    classes = z.shape[1]
    share = (np.bincount(labels, minlength=classes) + 0.5) / (len(labels) + 0.5 * classes)
    weight, best = mixed(likelihood, share[labels])
    p = (1 - weight) * share + weight * np.exp(log_softmax(SCALES[best] * z, axis=1))
    other = np.log(np.maximum(1 - p, 1e-12) / np.maximum(1 - share, 1e-12))
    gain = np.where(labels[:, None] == np.arange(classes), np.log(p / share), other)
    # Logits that are the same for all rows may smooth the shares well, and still tell no row from another.
    same = np.maximum(np.log(p.mean(0) / share), 0)[labels]
    return Predictable(bool(beats(at_labels(gain, labels) - same)), beats(gain))


def at_labels(values: Array, y: Places) -> Array:
    """Of each row the value of its label."""
    return values[np.arange(len(y)), y]


def scaled_likelihoods(logits: Floats, y: Places, seed: int) -> tuple[Array, Places, Array, float]:
    """Logits of some rows, in units of their deviation, the labels, their likelihood at each scale, and the unit."""
    some = np.random.RandomState(seed).permutation(len(y))[: max(min(_ROWS, _NUMBERS // logits.shape[1]), 1_000)]
    z, labels = logits[some].astype(np.float64), y[some]
    unit = max(float(np.std(z - z.mean(1, keepdims=True))), 1e-12)
    likelihood = np.exp([at_labels(log_softmax(z * (scale / unit), axis=1), labels) for scale in SCALES])
    return z / unit, labels, likelihood, unit


def predictable_targets(mean: Array, u: Array) -> bool:
    """Do predictions beat the median by two standard errors of the difference in absolute error?

    >>> rng = np.random.default_rng(0)
    >>> mean, noise = rng.normal(size=(2, 500))
    >>> predictable_targets(mean, noise), predictable_targets(mean, mean + 2 * noise)
    (False, True)
    """
    return bool(beats(np.abs(u - np.median(u)) - np.abs(u - mean)))


def beats(gain: Array) -> Mask:
    """Whether the mean of gains, one per row, exceeds two standard errors."""
    return gain.mean(0) > ERRORS * gain.std(0) / np.sqrt(len(gain))


def mixed(likelihood: Array, background: Array) -> tuple[float, int]:
    """The weight of the likelihoods beside the background, by EM, in the row in which the mixture is likeliest."""
    weight = np.full((len(likelihood), 1), 0.5)
    for _ in range(_STEPS):
        part = weight * likelihood
        weight = (part / (part + (1 - weight) * background)).mean(1, keepdims=True)
    best = int(np.log(np.maximum((1 - weight) * background + weight * likelihood, 1e-300)).sum(1).argmax())
    return float(weight[best, 0]), best
