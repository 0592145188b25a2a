"""Targets and labels that are probably wrong: what was expected instead, and what would bring a target back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from likely._page import Picture, Table
from likely._page.svg import INK, MUTED, SERIES, panel, styled, to_svg
from likely._rows.reading.table import listed
from likely._typing import Array, Mask, Places
from likely.auditing.columns.scale import FACTORS, AsinhScale, ColumnLimits
from likely.auditing.odd_rows.slips import SWAPPED
from likely.auditing.results.finding import Explained, Finding, Reason, label, number, worst_first
from likely.auditing.target.label_verdict import LabelVerdict
from likely.auditing.target.target_verdict import MOVED, NEAR, TargetVerdict

_SHARED = 3  # rows with the same given and predicted labels from which they are one finding
_MANY = 0.05  # of the labels: where fewer seem wrong, their share is not why they are not judged
_TAILS = 0.002  # share of values at each end of a column that are not usual for it
_DRAWN, _POINTS = 3_000, 1_000  # points of the picture, and points that are drawn as shapes
_LABELS = 6  # of an axis, at most
Change = tuple[str, Array, Array, Array]  # in words, targets after it, their predictions, and nats gained elsewhere


def wrong_labels(
    verdict: LabelVerdict,
    classes: Sequence[str],
    rows: Places,
    n: int,
    by: str = "the columns",
    of_all: tuple[int, int] | None = None,
) -> Finding:
    """Rows whose label is more likely wrong than right. ``rows`` are those with a label, of ``n`` in the data.

    ``by`` names what the labels were predicted from; ``of_all`` is the number of wrong labels and of rows, if there are
    more than these.
    """
    y, names, guess = verdict.y, np.asarray(classes, dtype=object), verdict.suggested
    doubted, pairs = guess >= 0, names[y] + " → " + names[guess]
    counts = pd.Series(pairs[doubted], dtype=object).value_counts()

    def explain(top: Places) -> Iterator[Explained]:
        for place in np.searchsorted(rows, top).tolist():
            yield _explained_label(verdict, classes, place, shared=counts[pairs[place]] >= _SHARED)

    count, total = of_all or (int(doubted.sum()), len(rows))
    unjudged = [classes[c] for c in np.unique(y) if not verdict.predictable.classes[c]]
    table = Table(
        counts.head(10).to_frame("rows").rename_axis("given → predicted"),
        "The most frequent pairs of given and predicted label.",
    )
    finding = Finding(
        "labels",
        "Labels that are probably wrong",
        _sentence_of_labels(verdict, count, total, unjudged, by),
        numbers={"rows": count, "classes_not_judged": unjudged},
        tables=(table,) if doubted.any() else (),
    )
    suggested = spread_out(np.where(doubted, names[guess], ""), rows, n, "")
    return _judged(finding, verdict, rows, n, doubted, explain, _histogram, suggested=suggested)


def wrong_targets(
    verdict: TargetVerdict,
    target: str,
    rows: Places,
    n: int,
    swapped: Callable[[Places], Iterable[Change]],
    of_all: tuple[int, int] | None = None,
) -> Finding:
    """Rows whose target is more likely wrong than right. ``rows`` are those with a target, of ``n`` in the data.

    ``swapped`` are the swaps with columns that may have happened to some of these; ``of_all`` is the number of wrong
    targets and of rows, if there are more than these.
    """
    wrong = verdict.wrong > 0.5

    def explain(top: Places) -> Iterator[Explained]:
        places = np.searchsorted(rows, top)
        for place, hint in zip(places.tolist(), _hints(verdict, places, swapped(places)), strict=True):
            yield _explained_target(verdict, target, place, hint)

    count, total = of_all or (int(wrong.sum()), len(rows))
    finding = Finding(
        "targets",
        "Targets that are probably wrong",
        _sentence_of_targets(verdict, count, total, target),
        numbers={"rows": count, "df": verdict.df},
    )
    return _judged(finding, verdict, rows, n, wrong, explain, partial(_scatter, target=target))


def _judged(
    finding: Finding,
    verdict: LabelVerdict | TargetVerdict,
    rows: Places,
    n: int,
    wrong: Mask,
    explain: Callable[[Places], Iterator[Explained]],
    picture: Callable[[Any], Picture],
    **scores: Any,
) -> Finding:
    """A finding with what is the same of labels and of targets; rows without one have no scores."""
    share = verdict.share if verdict.judged and not verdict.too_many else None
    certainty, suspicious = spread_out(verdict.wrong, rows, n), spread_out(wrong, rows, n, False)
    return replace(
        finding,
        scores=spread_scores(verdict, rows, n) | scores,
        numbers={**finding.numbers, "judged": verdict.judged, "share_wrong": share},
        judged=verdict.judged,
        pictures=(partial(picture, verdict),) if verdict.judged else (),
        **worst_first(finding.name, certainty, suspicious, explain),
    )


def spread_scores(verdict: LabelVerdict | TargetVerdict, rows: Places, n: int) -> dict[str, Any]:
    """The scores of a verdict in arrays of all rows; rows that are not judged have none."""
    return {
        name: spread_out(values, rows, n, -1 if name == "suggested" else np.nan)
        for name, values in verdict.scores.items()
    }


def spread_out(values: Any, rows: Places, n: int, elsewhere: Any = np.nan) -> Any:
    """Values of some rows, in an array of all rows."""
    array = np.full(n, elsewhere, dtype=values.dtype)
    array[rows] = values
    return array


def swaps(X: pd.DataFrame, y: Array, predict: Callable[[pd.DataFrame], Array], rows: Places) -> Iterator[Change]:
    """The swaps with columns of numbers that may have happened to the targets of some rows; NaN where none may.

    The target must be a usual value of the column, and the column's value a usual target.
    """
    names = X.select_dtypes("floating").columns
    for name in names:
        column, given = X[name].to_numpy(np.float64), y[rows]
        own = column[rows]
        may = _usual(given, column) & _usual(own, y) & (own != given)
        if may.any():
            unit = AsinhScale.of(column)
            # Minus the log-density in the column, to a constant: Student's t around its median.
            before, after = 2 * np.log1p(np.square((np.array([own, given]) - unit.centre) / unit.spread) / 3)
            mean = predict(X.iloc[rows].assign(**{name: given}))
            yield f"{SWAPPED} {name}", np.where(may, own, np.nan), mean, before - after - np.log(len(names))


def _usual(values: Array, column: Array) -> Mask:
    """Whether values lie between the ends of a column, its tails left out."""
    low, high = np.nanquantile(column, [_TAILS, 1 - _TAILS])
    return np.asarray((values >= low) & (values <= high))


def _hints(verdict: TargetVerdict, rows: Places, swapped: Iterable[Change]) -> Array:
    """In words, the likeliest change that makes each target fit its prediction; nothing where none does."""
    u, mean, scale = (values[rows] for values in (verdict.u, verdict.mean, verdict.scale))
    y, possible = verdict.squash.back(u), ColumnLimits.of(verdict.squash.back(verdict.u))
    best, hints = np.full(len(rows), np.inf), np.full(len(rows), "", object)
    units = []
    for factor, name in FACTORS.items():
        able = possible(y * factor) & (np.abs(verdict.squash.times(u, factor) - u) > MOVED * scale)
        units.append((f"{name} would fit", np.where(able, y * factor, np.nan), mean, np.zeros(len(u))))
    for words, value, expected, gain in (*units, *swapped):
        z = (verdict.squash(value) - expected) / scale
        cost = (verdict.df + 1) / 2 * np.log1p(z * z / verdict.df) - gain
        better = (np.abs(z) <= NEAR) & (cost < best)
        best[better], hints[better] = cost[better], words
    return hints


def _explained_target(verdict: TargetVerdict, target: str, row: int, hint: str) -> Explained:
    """What is said of one target."""
    u, mean, scale = (float(values[row]) for values in (verdict.u, verdict.mean, verdict.scale))
    reach = scale * float(stdtrit(verdict.df, 0.95))
    ends = np.array([u, mean, mean - scale, mean + scale, mean - reach, mean + reach])
    y, centre, below, above, low, high = verdict.squash.back(ends).tolist()
    expected = _with_noise(centre, (above - below) / 2)
    reasons = [
        Reason(target, number(y), "given", 1.0),
        Reason("expected", expected, f"90% between {number(low)} and {number(high)}"),
    ]
    reasons += [Reason("unit", hint.removesuffix(" would fit"), "would make it as expected")] if hint else []
    headline = f"{target} = {number(y)}, expected {expected}" + (f"; {hint}" if hint else "")
    return Explained(headline, reasons, far=abs(u - mean) / scale, group=hint)


def _explained_label(verdict: LabelVerdict, classes: Sequence[str], row: int, *, shared: bool) -> Explained:
    """What is said of one label; ``shared`` if other rows have the same given and predicted labels."""
    p, given = np.exp(verdict.log_p[row]), int(verdict.y[row])
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
        far=float(np.sqrt(-2 * verdict.log_p[row, given])),
        group=f"given {classes[given]}, looks like {classes[guess]}" if shared else "",
    )


def _with_noise(value: float, noise: float) -> str:
    """A value and its noise, to the first two digits of the noise.

    >>> _with_noise(979.8712, 71.23), _with_noise(0.123456, 0.0123), _with_noise(5.0, 0.0)
    ('980 ± 71', '0.123 ± 0.012', '5 ± 0')
    """
    if not 0 < noise < np.inf or not np.isfinite(value):
        return f"{number(value)} ± {number(noise)}"
    digits = 1 - int(np.floor(np.log10(noise)))
    return f"{number(round(value, digits))} ± {number(round(noise, digits))}"


def _sentence_of_labels(verdict: LabelVerdict, count: int, rows: int, unjudged: list[str], by: str) -> str:
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
    sentence = f"{count:,} of {rows:,} labels {are} more likely wrong than right{_overall(verdict.share)}."
    if not unjudged:
        return sentence
    because = f"because {by} do not distinguish them from the others"
    return f"{sentence} Classes that are not judged, {because}: {listed(unjudged)}."


def _sentence_of_targets(verdict: TargetVerdict, count: int, rows: int, target: str) -> str:
    """How many targets are called wrong, or why none is."""
    if verdict.too_many:
        why = f"is far from expected in {verdict.far:.0%} of the rows: such values are normal, so none is listed."
        return f"{target} {why}" if verdict.judged else f"{target} cannot be predicted from the columns, and {why}"
    if verdict.judged:
        are = "is" if count == 1 else "are"
        return f"{count:,} of {rows:,} values of {target} {are} more likely wrong than right{_overall(verdict.share)}."
    alone = (
        f"{target} cannot be predicted from the columns, so values are judged only by how far they lie from the others"
    )
    return f"{alone}: {count:,} of {rows:,} lie too far out."


def _overall(share: float) -> str:
    """The estimated share of wrong ones, for a sentence, where there is one."""
    return f"; in all, about {share:.1%} seem to be wrong" if share >= 0.001 else ""


def _percent(p: float) -> str:
    return "> 99.9%" if p > 0.9995 else "< 0.1%" if p < 0.0005 else f"{p:.1%}"


@styled
def _histogram(verdict: LabelVerdict) -> Picture:
    figure, axes = panel(4.6, 3.0)
    nll, wrong = verdict.nll, verdict.wrong
    edges = np.linspace(0, max(float(np.quantile(nll, 0.999)), 1e-3) * 1.1, 50)
    # A half says neither, and NaN is not judged.
    kinds = {"right": (wrong < 0.5, SERIES[1]), "wrong": (wrong > 0.5, SERIES[4])}
    kinds["not judged"] = ~(kinds["right"][0] | kinds["wrong"][0]), MUTED
    shown = {name: kind for name, kind in kinds.items() if kind[0].any()}
    axes.hist(
        [np.minimum(nll[rows], edges[-1]) for rows, _ in shown.values()],
        edges.tolist(),
        stacked=True,
        color=[colour for _, colour in shown.values()],
        label=list(shown),
    )
    axes.set(yscale="log", xlabel="Negative log-probability of the given label (nats)", ylabel="Rows")
    axes.legend(title="probably", title_fontproperties={"size": 8}, labelcolor=INK)
    axes.grid(axis="x", visible=False)
    return Picture(
        to_svg(figure),
        "Histogram of the negative log-probability of labels",
        "The further right, the less probable is the given label.",
    )


def round_numbers(low: float, high: float, squash: AsinhScale) -> list[float]:
    """Round numbers to label a squashed axis with, about evenly spaced on it.

    >>> round_numbers(-5.0, 30000.0, AsinhScale(20.0, 5.0)), round_numbers(9.0, 47.0, AsinhScale(23.0, 8.0))
    ([0.0, 20.0, 50.0, 300.0, 3000.0, 30000.0], [10.0, 20.0, 30.0])
    """
    even = squash.back(np.linspace(squash(low), squash(high), _LABELS))
    steps = np.pad(np.diff(even), 1, mode="edge")
    unit = 10.0 ** np.round(np.log10(np.minimum(steps[1:], steps[:-1])))
    labels = np.unique(np.round(even / unit) * unit + 0.0)
    return labels[(labels >= low) & (labels <= high)].tolist()


@styled
def _scatter(verdict: TargetVerdict, target: str) -> Picture:
    figure, axes = panel(4.6, 3.6)
    u, wrong, squash = verdict.u, verdict.wrong > 0.5, verdict.squash
    random = np.random.RandomState(0)
    for mask, colour, name, size in (
        (~wrong, SERIES[1], "probably right", 6),
        (wrong, SERIES[4], "probably wrong", 16),
    ):
        some = random.permutation(np.flatnonzero(mask))[:_DRAWN]
        axes.scatter(
            verdict.mean[some],
            u[some],
            s=size,
            color=colour,
            alpha=0.6,
            linewidth=0,
            label=name,
            rasterized=len(some) > _POINTS,  # a raster keeps the colours of light mode in dark mode
        )
    ends = float(min(verdict.mean.min(), u.min())), float(max(verdict.mean.max(), u.max()))
    axes.plot(ends, ends, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    low, high = squash.back(np.array(ends)).tolist()
    shown = round_numbers(low, high, squash)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(squash(np.array(shown)).tolist(), [number(value) for value in shown])
    axes.set(xlabel=f"Expected {label(target)}", ylabel=f"Given {label(target)}")
    axes.legend(loc="lower right", handletextpad=0.2)
    return Picture(
        to_svg(figure),
        "Given over expected targets",
        "One point per row; both axes are compressed far from the middle.",
    )
