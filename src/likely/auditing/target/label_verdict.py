"""Labels that are probably wrong, by their likelihood under a predicted temperature, and what they may have to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax

from likely._page import Picture, Table
from likely._page.svg import INK, SERIES, panel, styled, to_svg
from likely._rows.reading.table import listed
from likely._typing import Array, Mask, Places
from likely.auditing.results.finding import Explained, Finding, Reason, worst_first
from likely.auditing.target.folds import fold_out
from likely.auditing.target.predictability import Predictable, beats, mixed, predictable_labels
from likely.calibration import FeatureTemperature, LinearTemperature

LEAST = 0.01  # the share of wrong labels that is assumed where the data do not speak for more
MOST = 0.15  # of the labels, and of those of rows like this one, may be called wrong; else they are hard to predict
HARD = 0.2  # of the labels may differ from predictions; of more, wrong ones cannot be told from uncertain ones
_STEPS = 100
_SCALES = np.exp(np.arange(-4.0, 5.0, 0.15))  # that logits of unit deviation are multiplied by
_SHARED = 3  # rows with the same given and predicted labels from which they are one finding
_GAIN = 2.0  # log-likelihood that wrong labels must add to what a temperature explains: two standard errors
_MANY = 0.05  # of the labels: where fewer seem wrong, their share is not why they are not judged


@dataclass(frozen=True)
class LabelVerdict:
    """For every row the calibrated log-probabilities, its temperature, the NLL of its label, and P(label is wrong).

    ``share`` is the share of wrong labels, zero where uncertainty alone explains the labels as well; ``too_many`` says
    that so many labels differ from predictions that wrong ones cannot be told from uncertain ones; ``predictable``,
    whether labels, and each class, can be predicted at all. In both cases none is called wrong.
    """

    log_p: Array
    temperature: Array
    nll: Array
    wrong: Array
    share: float
    too_many: bool
    predictable: Predictable

    @property
    def judged(self) -> bool:
        """Whether labels can be predicted, so that a prediction speaks against one."""
        return self.predictable.labels

    def expected(self, rows: Places) -> Array:
        """The probabilities of the labels as they are given, the wrong ones included."""
        q = np.exp(self.log_p[rows])
        return _given(q, self.share, q.shape[1])


def judge_labels(
    logits: NDArray[np.floating], y: Places, features: NDArray[np.floating] | None = None, seed: int = 0
) -> LabelVerdict:
    r"""Which labels do logits that were not trained on them speak against?

    A label is right with probability :math:`1 - \epsilon` and then drawn from
    :math:`q = \mathrm{softmax}(z / T)`; else it is one of the other classes. A common T and ε are fitted first,
    jointly, for a temperature alone would take wrong labels for uncertainty and hide them; but where it explains the
    labels as well (to two standard errors), ε is zero: honest labels that are hard to predict leave no excess of
    surprises. Then each row gets a temperature of its own, linear in the features (or the logits), fitted to other
    rows, each weighing as much as its label is likely to be right, where that beats the common one by two standard
    errors of the NLL. Rows rank by :math:`-\log q_y`.

    A plateau of 70% right labels is also one of labels that are hard to predict. So P(wrong) stays at a half or below
    where more than 15% of the labels of rows like this one would be called wrong; and everywhere, if ε is above zero
    but not surely below 15%, or predictions differ from 20% of the labels. It is zero where labels, or a class, cannot
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
    z: NDArray[np.floating] = logits if logits.dtype == np.float32 else logits.astype(np.float64)
    predictable = predictable_labels(z, y, seed)
    if not predictable.labels:
        return _unjudged(y, classes, predictable, seed)
    common, share = _common(z, y, seed)
    same = log_softmax(z.astype(np.float64) / common, axis=1)
    right = 1 - posterior_of_wrong(np.exp(same[np.arange(n), y]), share, classes)
    temperature = _temperatures(z, y, features, right, seed)
    calibrated = log_softmax(z.astype(np.float64) / temperature[:, None], axis=1)
    if not beats(right * (calibrated - same)[np.arange(n), y]):
        calibrated, temperature = same, np.full(n, common)
    nll = -calibrated[np.arange(n), y]
    for _ in range(_STEPS):
        share = float(posterior_of_wrong(np.exp(-nll), share, classes).mean())
    wrong = posterior_of_wrong(np.exp(-nll), max(share, LEAST), classes) * predictable.classes[y]
    differ = float((calibrated.argmax(1) != y).mean())
    too_many = share > 0 and (_at_most(share, n) > MOST or _at_most(differ, n) > HARD)
    named = np.flatnonzero(wrong > 0.5)
    wrong[named[(accused_share(calibrated[named], share) > MOST) | too_many]] = 0.5
    return LabelVerdict(calibrated, temperature, nll, wrong, share, too_many, predictable)


def _temperatures(
    z: NDArray[np.floating], y: Places, features: NDArray[np.floating] | None, right: Array, seed: int
) -> Array:
    """A temperature per row, linear in the features or the logits, fitted to other rows as their labels are right."""
    # Calibrators multiply features and logits of one type only.
    read = None if features is None else np.asarray(features, dtype=z.dtype)
    temperature = np.empty(len(y))
    for fit, rows in fold_out(len(y), seed + 1):
        calibrator = LinearTemperature() if read is None else FeatureTemperature()
        extra, new = (None, None) if read is None else (read[fit], read[rows])
        calibrator.fit(z[fit], y[fit], extra, sample_weight=right[fit] + 1e-3)
        temperature[rows] = calibrator.temperature(z[rows], new)
    return temperature


def reconsider(verdict: LabelVerdict, y: Places, rows: Places, log_p: Array) -> LabelVerdict:
    """The verdict where some rows are judged by other log-probabilities, too, if these speak for their labels."""
    if not len(rows):
        return verdict
    q = np.exp(log_p[np.arange(len(rows)), y[rows]])
    wrong = verdict.wrong.copy()
    wrong[rows] = np.minimum(wrong[rows], posterior_of_wrong(q, max(verdict.share, LEAST), log_p.shape[1]))
    return replace(verdict, wrong=wrong)


def _unjudged(y: Places, classes: int, predictable: Predictable, seed: int) -> LabelVerdict:
    """No verdict: every row is expected to have the class shares of other rows."""
    log_p = np.empty((len(y), classes))
    for fit, rows in fold_out(len(y), seed + 1):
        log_p[rows] = np.log((np.bincount(y[fit], minlength=classes) + 0.5) / (len(fit) + 0.5 * classes))
    nll = -log_p[np.arange(len(y)), y]
    return LabelVerdict(log_p, np.ones(len(y)), nll, np.zeros(len(y)), 0.0, False, predictable)


def _common(z: NDArray[np.floating], y: Places, seed: int) -> tuple[float, float]:
    """The temperature and the share of wrong labels of highest likelihood; the share is zero unless it adds to it."""
    classes = z.shape[1]
    enough = min(20_000, max(2_000, 200_000 // classes))
    some = np.random.RandomState(seed).permutation(len(y))[:enough]
    logits, labels = z[some].astype(np.float64), y[some]
    # One temperature unit is that at which logits have unit deviation, whatever scale they come in.
    unit = max(float(np.std(logits - logits.mean(1, keepdims=True))), 1e-12)
    row = np.arange(len(labels))
    q = np.exp([log_softmax(logits * (scale / unit), axis=1)[row, labels] for scale in _SCALES])
    weight, best = mixed(q, (1 - q) / (classes - 1))
    likelihood = np.log(np.maximum(_given(q[best], 1 - weight, classes), 1e-300)).sum()
    without = np.log(np.maximum(q, 1e-300)).sum(1)
    if likelihood - without.max() < _GAIN:
        return unit / float(_SCALES[without.argmax()]), 0.0
    return unit / float(_SCALES[best]), 1 - weight


def _at_most(share: float, n: int) -> float:
    """A share and its standard error."""
    return float(share + np.sqrt(share * (1 - share) / n))


def accused_share(log_p: Array, share: float) -> Array:
    """The share of the labels of rows like each of these that would be called wrong."""
    q, classes = np.exp(log_p), log_p.shape[1]
    called = posterior_of_wrong(q, max(share, LEAST), classes) > 0.5
    return np.asarray((_given(q, share, classes) * called).sum(1))


def _given(q: Array, share: float, classes: int) -> Array:
    """The probability of a label to be given, where q is the probability that it is right."""
    return np.asarray((1 - share) * q + share * (1 - q) / (classes - 1))


def posterior_of_wrong(q: Array, share: float, classes: int) -> Array:
    """P(wrong), where a right label has probability q and a wrong one is any of the others."""
    wrong = share * (1 - q) / (classes - 1)
    return np.asarray(wrong / np.maximum(wrong + (1 - share) * q, 1e-300))


def wrong_labels(
    verdict: LabelVerdict,
    y: Places,
    classes: Sequence[str],
    rows: Places,
    n: int,
    by: str = "the columns",
) -> Finding:
    """Rows whose label is more likely wrong than right. ``rows`` are those with a label, of ``n`` in the data.

    ``by`` names what the labels were predicted from.
    """
    names = np.asarray(classes, dtype=object)
    guess = verdict.log_p.argmax(1)
    doubted = (verdict.wrong > 0.5) & (guess != y)
    suspicious = spread_out(doubted, rows, n, 0.0) > 0
    place = spread_out(np.arange(len(rows), dtype=np.float64), rows, n, -1.0).astype(np.int64)
    pairs = names[y] + " → " + names[guess]
    counts = pd.Series(pairs[doubted], dtype=object).value_counts()

    def explain(top: Places) -> Iterator[Explained]:
        for i in place[top].tolist():
            yield _explained(verdict, classes, int(y[i]), i, shared=counts[pairs[i]] >= _SHARED)

    table = counts.head(10).to_frame("rows")
    table.index.name = "given → predicted"
    suggested = np.full(n, "", dtype=object)
    suggested[rows] = np.where(doubted, names[guess], "")
    count = int(suspicious.sum())
    unjudged = [classes[c] for c in np.unique(y) if not verdict.predictable.classes[c]]
    judged = verdict.predictable.classes[y] & verdict.judged
    return Finding(
        "labels",
        "Labels that are probably wrong",
        _sentence(verdict, count, len(rows), unjudged, by),
        scores={
            "label_wrong": spread_out(np.where(judged, verdict.wrong, np.nan), rows, n, np.nan),
            "label_nll": spread_out(verdict.nll, rows, n, np.nan),
            "temperature": spread_out(verdict.temperature, rows, n, np.nan),
            "suggested": suggested,
        },
        numbers={
            "rows": count,
            "judged": verdict.judged,
            "share_wrong": verdict.share if verdict.judged and not verdict.too_many else None,
            "classes_not_judged": unjudged,
        },
        judged=verdict.judged,
        tables=(Table(table, "The most frequent pairs of given and predicted label."),) if count else (),
        pictures=(partial(_histogram, verdict.nll, verdict.wrong > 0.5),) if verdict.judged else (),
        **worst_first("labels", spread_out(verdict.wrong, rows, n, 0.0), suspicious, explain),
    )


def _explained(verdict: LabelVerdict, classes: Sequence[str], given: int, row: int, *, shared: bool) -> Explained:
    """What is said of one label; ``shared`` if other rows have the same given and predicted labels."""
    p = np.exp(verdict.log_p[row])
    guess = int(p.argmax())
    likeliest = [c for c in np.argsort(-p)[:3].tolist() if p[c] > 0.005 and c != given]
    reasons = [Reason("given", classes[given], _percent(p[given]), float(p[given]))]
    reasons += [Reason("predicted", classes[c], _percent(p[c]), float(p[c])) for c in likeliest]
    hard = verdict.temperature[row] / float(np.median(verdict.temperature))
    reasons.append(Reason("temperature", f"{hard:.2f} × the median", "noise of similar rows"))
    # If the label is wrong, it is one of the others, in proportion to their probabilities.
    sure = float(verdict.wrong[row] * p[guess] / max(1 - p[given], 1e-12))
    return Explained(
        f"label {classes[given]}, but {classes[guess]} with probability {_percent(sure)}",
        reasons,
        far=float(np.sqrt(2 * verdict.nll[row])),
        group=f"given {classes[given]}, looks like {classes[guess]}" if shared else "",
    )


def _sentence(verdict: LabelVerdict, count: int, rows: int, unjudged: list[str], by: str) -> str:
    """How many labels are called wrong, and which are not judged, and why."""
    if not verdict.judged:
        return f"These labels cannot be predicted from {by}, so they are not judged."
    if verdict.too_many:
        many = f"{verdict.share:.0%} of the labels differ from confident predictions"
        few = "Predictions differ from many of the labels, or too few rows show how many are wrong"
        return (
            f"{many if verdict.share >= _MANY else few}: wrong labels cannot be distinguished from labels that are "
            "hard to predict, so none is listed."
        )
    are = "is" if count == 1 else "are"
    sentence = f"{count:,} of {rows:,} labels {are} more likely wrong than right{overall(verdict.share)}."
    if not unjudged:
        return sentence
    because = f"because {by} do not distinguish them from the others"
    return f"{sentence} Classes that are not judged, {because}: {listed(unjudged)}."


def spread_out(values: Array, rows: Places, n: int, elsewhere: float) -> Array:
    """Values of some rows, in an array of all rows."""
    array = np.full(n, elsewhere)
    array[rows] = values
    return array


def overall(share: float) -> str:
    """The estimated share of wrong ones, for a sentence, where there is one."""
    return f"; in all, about {share:.1%} seem to be wrong" if share >= 0.001 else ""


def _percent(p: float) -> str:
    return "> 99.9%" if p > 0.9995 else "< 0.1%" if p < 0.0005 else f"{p:.1%}"


@styled
def _histogram(nll: Array, wrong: Mask) -> Picture:
    figure, axes = panel(4.6, 3.0)
    edges = np.linspace(0, max(float(np.quantile(nll, 0.999)), 1e-3) * 1.1, 50)
    inside = np.minimum(nll, edges[-1])
    axes.hist(
        [inside[~wrong], inside[wrong]],
        edges.tolist(),
        stacked=True,
        color=[SERIES[1], SERIES[4]],
        label=["right", "wrong"],
    )
    axes.set(yscale="log", xlabel="Negative log-probability of the given label (nats)", ylabel="Rows")
    axes.legend(title="probably", title_fontproperties={"size": 8}, labelcolor=INK)
    axes.grid(axis="x", visible=False)
    return Picture(
        to_svg(figure),
        "Histogram of the negative log-probability of labels",
        "The further right, the less probable is the given label.",
    )
