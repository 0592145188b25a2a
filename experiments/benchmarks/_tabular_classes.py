"""Bars and tables of the classifier: log-loss and calibration compared with the best rival of each set."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from experiments.benchmarks._bars import worst
from experiments.benchmarks._tabular_measure import OURS
from experiments.benchmarks._tabular_rivals import LIGHTGBM
from experiments.entries import Bar
from experiments.entries.parts import Table


def judge(scores: pd.DataFrame) -> Iterator[Bar]:
    """Yield the bars: log-loss against the best rival and LightGBM, and calibration error against the best rival."""
    loss, ece = (mean_scores(scores, measure) for measure in ("log-loss", "ECE"))
    rivals = loss.drop(columns=OURS, errors="ignore")
    if OURS not in loss or not rivals.size:
        return
    excess = loss[OURS] - rivals.min(axis=1)
    yield Bar("classes: log-loss less the best rival's, mean", excess.mean(), "≤", 0, case=f"{len(loss)} sets")
    if LIGHTGBM in rivals:
        ratio = loss[OURS] / rivals[LIGHTGBM]
        yield from worst("classes: log-loss over LightGBM's", ratio, "≤", 1.03, cases="sets")
    rivals_ece = ece.drop(columns=OURS).dropna(axis=1).mean()
    yield Bar("classes: mean ECE", ece[OURS].mean(), "≤", rivals_ece.min(), case=f"best rival: {rivals_ece.idxmin()}")


def tables(scores: pd.DataFrame, group: str) -> Iterator[Table]:
    """Yield the tables of the sets of one group."""
    for measure in ("log-loss", "ECE"):
        frame = mean_scores(scores, measure)
        caption = f"{group}: {measure}, mean over splits."
        yield Table(frame, caption, best={tuple(frame.columns): "lower"}, digits=4)


def mean_scores(scores: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the mean over splits, one row per set and one column per method, ours first.

    A rival that was measured in fewer splits is compared with ours in those: its mean is moved by as much as ours of
    these splits differs from ours of all.

    >>> rows = [("a", 0, OURS, 1.0), ("a", 1, OURS, 3.0), ("a", 0, "rival", 1.5)]
    >>> mean_scores(pd.DataFrame(rows, columns=["set", "split", "method", "NLL"]), "NLL").loc["a"].tolist()
    [2.0, 2.5]
    """
    frame = scores.pivot_table(index=["set", "split"], columns="method", values=measure, sort=False)
    sets = frame.groupby("set", sort=False)
    if OURS not in frame:
        return sets.mean()
    ours_beside = frame.notna().mul(frame[OURS], axis=0).where(frame.notna()).groupby("set", sort=False).mean()
    mean = sets.mean() - ours_beside.sub(sets[OURS].mean(), axis=0)
    return mean[[OURS, *(method for method in frame if method != OURS)]]
