"""Which labels are probably wrong: their likelihood under a temperature that was not fitted to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax

from likely._numerics.significance import held_out_gain
from likely._typing import Array, Floats, Mask, Places
from likely.auditing.target.held_out import fold_out
from likely.calibration import FeatureTemperature

LEAST = 0.01  # the share of wrong labels that is assumed where the data do not speak for more
MOST = 0.15  # of the labels, and of those of rows like this one, may be called wrong; else they are hard to predict
HARD = 0.2  # of the labels may differ from predictions; of more, wrong ones cannot be told from uncertain ones
_STEPS = 100
_GAIN = 2.0  # log-likelihood that wrong labels must add to what a temperature explains; standard errors of other gains
SCALES = np.exp(np.arange(-4.0, 5.0, 0.15))  # that logits of unit deviation are multiplied by
_EM_STEPS = 50
_ROWS, _NUMBERS = 20_000, 1_000_000  # rows that speak for all, and numbers of a matrix of their probabilities


class Predictable(NamedTuple):
    """Whether the labels can be predicted, and for each class, whether it can be told from the others."""

    labels: bool
    classes: Mask


@dataclass(frozen=True)
class LabelVerdict:
    """For every row its label, the calibrated log-probabilities, the temperature, and P(label is wrong).

    ``wrong`` is NaN where a label is not judged: that is neither right nor wrong. ``share`` is the share of wrong
    labels, zero where uncertainty alone explains the labels as well; ``too_many`` says that so many labels differ from
    predictions that wrong ones cannot be told from uncertain ones; ``predictable``, whether labels, and each class, can
    be predicted at all. In both cases none is called wrong.
    """

    ROWS = ("y", "log_p", "temperature", "wrong")

    y: Places
    log_p: Array
    temperature: Array
    wrong: Array
    share: float
    predictable: Predictable
    too_many: bool

    @property
    def judged(self) -> bool:
        """Whether labels can be predicted, so that a prediction speaks against one."""
        return self.predictable.labels

    @property
    def nll(self) -> Array:
        """The negative log-probability of every label."""
        return -at_labels(self.log_p, self.y)

    @property
    def suggested(self) -> Places:
        """The likelier class of every row whose label is probably wrong, -1 for all others."""
        guess = self.log_p.argmax(1)
        return np.where((self.wrong > 0.5) & (guess != self.y), guess, -1)

    @property
    def scores(self) -> dict[str, Any]:
        """What is written of every row."""
        return {
            "label_wrong": self.wrong,
            "label_nll": self.nll,
            "temperature": self.temperature,
            "suggested": self.suggested,
        }

    def expected(self, rows: Places) -> Array:
        """The probabilities of the labels as they are given, the wrong ones included."""
        return _given(np.exp(self.log_p[rows]), self.share, self.log_p.shape[1])

    def judge(self, logits: Floats, y: Places) -> LabelVerdict:
        """The verdict on the labels of further rows, at the temperature that all rows share."""
        temperature = np.full(len(y), self.temperature[0])
        log_p = log_softmax(logits / temperature[:, None], axis=1)
        return self.judge_calibrated(log_p if self.judged else np.tile(self.log_p[0], (len(y), 1)), temperature, y)

    def judge_calibrated(self, log_p: Array, temperature: Array, y: Places) -> LabelVerdict:
        """The verdict by calibrated probabilities; no row is accused where too many labels of its like would be."""
        classes, share = log_p.shape[1], max(self.share, LEAST)
        judged = self.judged & self.predictable.classes[y]
        wrong = np.where(judged, _posterior(np.exp(at_labels(log_p, y)), share, classes), np.nan)
        named = np.flatnonzero(wrong > 0.5)
        q = np.exp(log_p[named])
        accused = (_given(q, self.share, classes) * (_posterior(q, share, classes) > 0.5)).sum(1)
        wrong[named[(accused > MOST) | self.too_many]] = 0.5
        return replace(self, y=y, log_p=log_p, temperature=temperature, wrong=wrong)

    def reconsider(self, rows: Places, p: Array) -> LabelVerdict:
        """The verdict where some rows are judged by other probabilities, too, if these speak for their labels."""
        wrong = self.wrong.copy()
        by_others = _posterior(at_labels(p, self.y[rows]), max(self.share, LEAST), p.shape[1])
        wrong[rows] = np.minimum(wrong[rows], by_others)
        return replace(self, wrong=wrong)


def judge_labels(logits: Floats, y: Places, features: Floats | None = None, seed: int = 0) -> LabelVerdict:
    r"""Which labels do logits that were not trained on them speak against?

    A label is right with probability :math:`1 - \epsilon` and then drawn from
    :math:`q = \mathrm{softmax}(z / T)`; else it is one of the other classes. A common T and ε are fitted first,
    jointly, for a temperature alone would take wrong labels for uncertainty and hide them; but where it explains the
    labels as well (to two standard errors), ε is zero: honest labels that are hard to predict leave no excess of
    surprises. Where there are features, each row gets a temperature of its own, linear in these, fitted to other
    rows, each weighing as much as its label is likely to be right, if that beats the common one by two standard
    errors of the NLL. Rows rank by :math:`-\log q_y`.

    A plateau of 70% right labels is also one of labels that are hard to predict. So P(wrong) stays at a half or below
    where more than 15% of the labels of rows like this one would be called wrong; and everywhere, if ε is above zero
    but not surely below 15%, or predictions differ from 20% of the labels. It is NaN where labels, or a class, cannot
    be predicted at all.

    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 3, 600)
    >>> logits = 6 * np.eye(3)[truth] + rng.normal(size=(600, 3))
    >>> given = np.where(np.arange(600) < 30, (truth + 1) % 3, truth)        # the first 30 are wrong
    >>> verdict = judge_labels(logits, given)
    >>> wrong = verdict.wrong > 0.5
    >>> int(wrong[:30].sum()), int(wrong[30:].sum()), round(verdict.share, 2)
    (29, 0, 0.05)
    """
    n, classes = logits.shape
    z: Floats = logits if logits.dtype == np.float32 else logits.astype(np.float64)
    predictable = predictable_labels(z, y, seed)
    if not predictable.labels:
        shares = np.log((np.bincount(y, minlength=classes) + 0.5) / (n + 0.5 * classes))
        log_p = np.tile(shares, (n, 1))
        return LabelVerdict(y, log_p, np.ones(n), np.full(n, np.nan), 0.0, predictable, False)
    common, share = _common(z, y, seed)
    temperature, log_p = np.full(n, common), log_softmax(z.astype(np.float64) / common, axis=1)
    if features is not None:
        right = 1 - _posterior(np.exp(at_labels(log_p, y)), share, classes)
        own = _temperatures(z, y, features, right, seed)
        calibrated = log_softmax(z.astype(np.float64) / own[:, None], axis=1)
        if _sure(right * at_labels(calibrated - log_p, y)):
            temperature, log_p = own, calibrated
    q = np.exp(at_labels(log_p, y))
    for _ in range(_STEPS):
        share = float(_posterior(q, share, classes).mean())
    differ = float((log_p.argmax(1) != y).mean())
    too_many = share > 0 and (_at_most(share, n) > MOST or _at_most(differ, n) > HARD)
    verdict = LabelVerdict(y, log_p, temperature, np.full(n, np.nan), share, predictable, too_many)
    return verdict.judge_calibrated(log_p, temperature, y)


def _temperatures(z: Floats, y: Places, features: Floats, right: Array, seed: int) -> Array:
    """A temperature per row, linear in the features, fitted to other rows as their labels are right."""
    features = np.asarray(features, dtype=z.dtype)  # calibrators multiply features and logits of one type only
    temperature = np.empty(len(y))
    for fit, rows in fold_out(len(y), seed + 1):
        calibrator = FeatureTemperature().fit(z[fit], y[fit], features[fit], sample_weight=right[fit] + 1e-3)
        temperature[rows] = calibrator.temperature(z[rows], features[rows])
    return temperature


def _common(z: Floats, y: Places, seed: int) -> tuple[float, float]:
    """The temperature and the share of wrong labels of highest likelihood; the share is zero unless it adds to it."""
    _, _, q, unit = scaled_likelihoods(z, y, seed)
    classes = z.shape[1]
    weight, best = mixed(q, (1 - q) / (classes - 1))
    likelihood = np.log(np.maximum(_given(q[best], 1 - weight, classes), 1e-300)).sum()
    without = np.log(np.maximum(q, 1e-300)).sum(1)
    if likelihood - without.max() < _GAIN:
        weight, best = 1.0, int(without.argmax())
    return unit / float(SCALES[best]), 1 - weight


def _at_most(share: float, n: int) -> float:
    """A share and its standard error."""
    return float(share + np.sqrt(share * (1 - share) / n))


def _given(q: Array, share: float, classes: int) -> Array:
    """The probability of a label to be given, where q is the probability that it is right."""
    return (1 - share) * q + share * (1 - q) / (classes - 1)


def _posterior(q: Array, share: float, classes: int) -> Array:
    """P(wrong), where a right label has probability q and a wrong one is any of the others."""
    return share * (1 - q) / (classes - 1) / np.maximum(_given(q, share, classes), 1e-300)


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
    return Predictable(_sure(at_labels(gain, labels) - same), np.array([_sure(own) for own in gain.T]))


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


def mixed(likelihood: Array, background: Array) -> tuple[float, int]:
    """The weight of the likelihoods beside the background, by EM, in the row in which the mixture is likeliest."""
    weight = np.full((len(likelihood), 1), 0.5)
    for _ in range(_EM_STEPS):
        part = weight * likelihood
        weight = (part / (part + (1 - weight) * background)).mean(1, keepdims=True)
    best = int(np.log(np.maximum((1 - weight) * background + weight * likelihood, 1e-300)).sum(1).argmax())
    return float(weight[best, 0]), best


def _sure(gain: Array) -> bool:
    return held_out_gain(gain).sure(_GAIN) > 0
