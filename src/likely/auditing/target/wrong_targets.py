"""Targets and labels that are probably wrong: what was expected instead, and what would bring a target back."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from likely._rows.reading.table import listed
from likely._typing import Array, Mask, Places
from likely.auditing.columns.scale import FACTORS, ColumnLimits
from likely.auditing.results.finding import Explained, Finding, OfAll, Reason, chance, number, worst_first
from likely.auditing.target.label_verdict import LabelVerdict
from likely.auditing.target.target_verdict import TargetVerdict

_SHARED = 3  # rows with the same given and predicted labels, or the same hint, from which they are one finding


def wrong_labels(
    verdict: LabelVerdict,
    classes: Sequence[str],
    rows: Places,
    n: int,
    by: str = "the columns",
    of_all: OfAll = None,
) -> Finding:
    """Rows whose label is more likely wrong than right. ``rows`` are those with a label, of ``n`` in the data.

    ``by`` names what the labels were predicted from.
    """
    y, names, guess = verdict.y, np.asarray(classes, dtype=object), verdict.suggested
    doubted = guess >= 0

    def explain(top: Places) -> Iterator[Explained]:
        for place in np.searchsorted(rows, top).tolist():
            yield _explained_label(verdict, classes, place)

    count, total = of_all or (int(doubted.sum()), len(rows))
    unjudged = [classes[c] for c in np.unique(y) if not verdict.predictable.classes[c]]
    finding = Finding(
        "labels",
        "Labels that are probably wrong",
        _sentence_of_labels(verdict, count, total, unjudged, by),
        numbers={"rows": count, "classes_not_judged": unjudged},
    )
    suggested = spread_out(np.where(doubted, names[guess], ""), rows, n, "")
    return _judged(finding, verdict, rows, n, doubted, explain, suggested=suggested)


def wrong_targets(verdict: TargetVerdict, target: str, rows: Places, n: int, of_all: OfAll) -> Finding:
    """Rows whose target is more likely wrong than right. ``rows`` are those with a target, of ``n`` in the data."""
    wrong = verdict.wrong > 0.5

    def explain(top: Places) -> Iterator[Explained]:
        places = np.searchsorted(rows, top)
        for place, hint in zip(places.tolist(), _hints(verdict, places), strict=True):
            yield _explained_target(verdict, target, place, hint)

    count, total = of_all or (int(wrong.sum()), len(rows))
    finding = Finding(
        "targets",
        "Targets that are probably wrong",
        _sentence_of_targets(verdict, count, total, target),
        numbers={"rows": count, "df": verdict.df},
    )
    return _judged(finding, verdict, rows, n, wrong, explain)


def _judged(
    finding: Finding,
    verdict: LabelVerdict | TargetVerdict,
    rows: Places,
    n: int,
    wrong: Mask,
    explain: Callable[[Places], Iterator[Explained]],
    **scores: Any,
) -> Finding:
    """A finding with what is the same of labels and of targets; rows without one have no scores."""
    share = verdict.share if verdict.judged and not verdict.too_many else None
    certainty, suspicious = spread_out(verdict.wrong, rows, n), spread_out(wrong, rows, n, False)

    def grouped(top: Places) -> Iterator[Explained]:
        told = list(explain(top))
        often = Counter(own.group for own in told)
        return (own if often[own.group] >= _SHARED else own._replace(group="") for own in told)

    return replace(
        finding,
        scores=spread_scores(verdict, rows, n) | scores,
        numbers={**finding.numbers, "judged": verdict.judged, "share_wrong": share},
        judged=verdict.judged,
        found=False,
        **worst_first(finding.name, certainty, suspicious, grouped),
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


def _hints(verdict: TargetVerdict, rows: Places) -> Array:
    """In words, the likeliest unit or sign that makes each target fit its prediction; nothing where none does."""
    u, mean, scale = (values[rows] for values in (verdict.u, verdict.mean, verdict.scale))
    y, possible = verdict.squash.back(u), ColumnLimits.of(verdict.squash.back(verdict.u))
    highest, hints = np.full(len(rows), -np.inf), np.full(len(rows), "", object)
    for factor, name in FACTORS.items():
        density, moved, near = verdict.mended(u, mean, scale, factor)
        better = possible(y * factor) & moved & near & (density > highest)
        highest[better], hints[better] = density[better], f"{name} would fit"
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
    headline = f"{target} = {number(y)}, expected {expected}" + (f"; {hint}" if hint else "")
    return Explained(headline, reasons, far=abs(u - mean) / scale, group=hint and f"{hint} {target}")


def _explained_label(verdict: LabelVerdict, classes: Sequence[str], row: int) -> Explained:
    """What is said of one label."""
    p, given = np.exp(verdict.log_p[row]), int(verdict.y[row])
    guess = int(p.argmax())
    likeliest = [c for c in np.argsort(-p)[:3].tolist() if p[c] > 0.005 and c != given]
    # If the label is wrong, it is one of the others, in proportion to their probabilities.
    wrong = float(verdict.wrong[row])
    right = p * wrong / max(1 - p[given], 1e-12)
    right[given] = 1 - wrong
    reasons = [
        Reason("given" if c == given else "predicted", classes[c], f"right with probability {chance(q)}", q)
        for c, q in zip((given, *likeliest), right[[given, *likeliest]].tolist(), strict=True)
    ]
    return Explained(
        f"label {classes[given]}, where {classes[guess]} is expected: wrong with probability {chance(wrong)}",
        reasons,
        far=float(np.sqrt(-2 * verdict.log_p[row, given])),
        group=f"given {classes[given]}, looks like {classes[guess]}",
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
        return (
            "Predictions differ from many of the labels, or too few rows show how many are wrong: wrong labels cannot "
            "be distinguished from labels that are hard to predict, so none is listed."
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
