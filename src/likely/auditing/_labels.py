"""The finding about labels: which are probably wrong, and what they should perhaps be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._page import Picture, Table
from likely._page.svg import INK, SERIES, panel, styled, to_svg
from likely.auditing._finding import Finding, Reason, worst_first
from likely.auditing._source import listed
from likely.auditing._wrong_labels import LabelVerdict


def wrong_labels(
    verdict: LabelVerdict,
    y: NDArray[np.int64],
    classes: Sequence[str],
    rows: NDArray[np.int64],
    n: int,
    by: str = "the columns",
) -> Finding:
    """Rows whose label is more likely wrong than right. ``rows`` are those with a label, of ``n`` in the data.

    ``by`` names what the labels were predicted from.
    """
    guess = verdict.log_p.argmax(1)
    certainty = spread_out(verdict.wrong, rows, n, 0.0)
    suspicious = np.zeros(n, bool)
    suspicious[rows] = (verdict.wrong > 0.5) & (guess != y)
    place = np.full(n, -1)
    place[rows] = np.arange(len(rows))
    usual = float(np.median(verdict.temperature))

    def explain(top: NDArray[np.int64]) -> Any:
        for i in place[top]:
            p = np.exp(verdict.log_p[i])
            likeliest = [c for c in np.argsort(-p)[:3] if p[c] > 0.005 and c != y[i]]
            reasons = [Reason("given", classes[y[i]], _percent(p[y[i]]), float(p[y[i]]))]
            reasons += [Reason("predicted", classes[c], _percent(p[c]), float(p[c])) for c in likeliest]
            hard = verdict.temperature[i] / usual
            reasons.append(Reason("temperature", f"{hard:.2f} × the usual", "how hard rows like this one are"))
            yield f"{classes[y[i]]}, but looks like {classes[guess[i]]} ({_percent(p[guess[i]])})", reasons

    swaps = pd.Series(
        [f"{classes[y[i]]} → {classes[guess[i]]}" for i in place[np.flatnonzero(suspicious)]], dtype=object
    ).value_counts()
    table = swaps.head(10).to_frame("rows")
    table.index.name = "given → predicted"
    names = np.asarray(classes, dtype=object)
    suggested = np.full(n, "", dtype=object)
    suggested[rows] = np.where(suspicious[rows], names[guess], "")
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
        tables=(Table(table, "What is most often given for what is predicted."),) if count else (),
        pictures=(partial(_histogram, verdict.nll, verdict.wrong > 0.5),) if verdict.judged else (),
        **worst_first("labels", certainty, suspicious, explain),
    )


def _sentence(verdict: LabelVerdict, count: int, rows: int, unjudged: list[str], by: str) -> str:
    """How many labels are called wrong, and which are not judged, and why."""
    if not verdict.judged:
        return f"These labels cannot be predicted from {by}, so they are not judged."
    if verdict.too_many:
        return (
            f"{verdict.share:.0%} of the labels differ even from sure predictions: wrong labels cannot be told from "
            "labels that are hard to predict, so none is named."
        )
    found = f"{count:,} of {rows:,} labels are more likely wrong than right{overall(verdict.share)}."
    if not unjudged:
        return found
    return f"{found} Not judged, because {by} do not tell them from the others: {listed(unjudged)}."


def spread_out(values: NDArray[np.float64], rows: NDArray[np.int64], n: int, elsewhere: float) -> NDArray[np.float64]:
    """Values of some rows, among all."""
    found = np.full(n, elsewhere)
    found[rows] = values
    return found


def overall(share: float) -> str:
    """The estimated share of wrong ones, for a sentence, where there is one."""
    return f"; in all, about {share:.1%} seem to be wrong" if share >= 0.001 else ""


def _percent(p: float) -> str:
    return "> 99.9%" if p > 0.9995 else "< 0.1%" if p < 0.0005 else f"{p:.1%}"


@styled
def _histogram(nll: NDArray[np.float64], wrong: NDArray[np.bool_]) -> Picture:
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
    axes.set(yscale="log", xlabel="Surprise: −log of the probability of the given label (nats)", ylabel="Rows")
    axes.legend(title="probably", title_fontproperties={"size": 8}, labelcolor=INK)
    axes.grid(axis="x", visible=False)
    return Picture(
        to_svg(figure),
        "Histogram of the surprise of labels",
        "How surprising each label is at the temperature of its row.",
    )
