"""Bars and tables of the classifier: log-loss and calibration beside the best rival of each set."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from experiments.benchmarks._bars import worst
from experiments.benchmarks._tabular_measure import OURS
from experiments.benchmarks._tabular_rivals import LIGHTGBM
from experiments.entries import Bar
from likely._page import Table


def judge(scores: pd.DataFrame) -> Iterator[Bar]:
    """At or below the best rival of each set in the mean, never far above LightGBM, and as well calibrated as any."""
    loss, ece = (mean_scores(scores, measure) for measure in ("log-loss", "ECE"))
    rivals = loss.drop(columns=OURS, errors="ignore")
    if OURS not in loss or not rivals.size:
        return
    above = loss[OURS] - rivals.min(axis=1)
    yield Bar("classes: log-loss less the best rival's, mean", above.mean(), "≤", 0, case=f"{len(loss)} sets")
    if LIGHTGBM in rivals:
        ratio = loss[OURS] / rivals[LIGHTGBM]
        yield from worst("classes: log-loss over LightGBM's", ratio, "≤", 1.03, cases="sets")
    others = ece.drop(columns=OURS).dropna(axis=1).mean()
    yield Bar("classes: mean ECE", ece[OURS].mean(), "≤", others.min(), case=f"best rival: {others.idxmin()}")


def tables(scores: pd.DataFrame, what: str) -> Iterator[Table]:
    """What was measured on sets of one kind."""
    for measure in ("log-loss", "ECE"):
        frame = mean_scores(scores, measure)
        caption = f"{what}: {measure}, mean over splits."
        yield Table(frame, caption, best={tuple(frame.columns): "lower"}, digits=4)


def mean_scores(scores: pd.DataFrame, measure: str) -> pd.DataFrame:
    """A row per set and a column per method, ours first: the mean over splits."""
    frame = scores.pivot_table(index="set", columns="method", values=measure, aggfunc="mean", sort=False)
    return frame[[OURS, *(method for method in frame if method != OURS)]] if OURS in frame else frame
