"""Labels that are probably wrong, and what they may have to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from likely._page import Picture, Table
from likely._page.svg import INK, SERIES, panel, styled, to_svg
from likely._rows.reading.table import listed
from likely._typing import Array, Mask, Places
from likely.auditing.results.finding import Explained, Finding, Reason, worst_first
from likely.auditing.target.label_verdict import LabelVerdict

_SHARED = 3  # rows with the same given and predicted labels from which they are one finding
_MANY = 0.05  # of the labels: where fewer seem wrong, their share is not why they are not judged


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
    y, names = verdict.y, np.asarray(classes, dtype=object)
    guess = verdict.suggested
    doubted = guess >= 0
    pairs = names[y] + " → " + names[guess]
    counts = pd.Series(pairs[doubted], dtype=object).value_counts()

    def explain(top: Places) -> Iterator[Explained]:
        for place in np.searchsorted(rows, top).tolist():
            yield _explained(verdict, classes, place, shared=counts[pairs[place]] >= _SHARED)

    count, total = (int(doubted.sum()), len(rows)) if of_all is None else of_all
    unjudged = [classes[c] for c in np.unique(y) if not verdict.predictable.classes[c]]
    table = counts.head(10).to_frame("rows").rename_axis("given → predicted")
    return Finding(
        "labels",
        "Labels that are probably wrong",
        _sentence(verdict, count, total, unjudged, by),
        scores={name: spread_out(values, rows, n) for name, values in verdict.scores.items()}
        | {"suggested": spread_out(np.where(doubted, names[guess], ""), rows, n, "")},
        numbers={
            "rows": count,
            "judged": verdict.judged,
            "share_wrong": verdict.share if verdict.judged and not verdict.too_many else None,
            "classes_not_judged": unjudged,
        },
        judged=verdict.judged,
        tables=(Table(table, "The most frequent pairs of given and predicted label."),) if doubted.any() else (),
        pictures=(partial(_histogram, verdict.nll, verdict.wrong > 0.5),) if verdict.judged else (),
        **worst_first("labels", spread_out(verdict.wrong, rows, n, 0.0), spread_out(doubted, rows, n, False), explain),
    )


def _explained(verdict: LabelVerdict, classes: Sequence[str], row: int, *, shared: bool) -> Explained:
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


def spread_out(values: Any, rows: Places, n: int, elsewhere: Any = np.nan) -> Any:
    """Values of some rows, in an array of all rows."""
    array = np.full(n, elsewhere, dtype=values.dtype)
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
