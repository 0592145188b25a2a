"""Is one temperature per row ever worse than one for all? Paired test NLL on every network's outputs there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax

from experiments.benchmarks._bars import result_of
from experiments.data import Logits, list_logits, load_logits
from experiments.entries import Bar, Context, Result
from experiments.entries.parts import Table
from experiments.paper._comparison import Difference, paired
from likely.calibration import DeepTemperature, FeatureTemperature, GlobalTemperature, LinearTemperature

SMALL, SIZES = 1000, (250, 500, 1000, 2500, 5000)
METHODS = {"LS": LinearTemperature, "LFS": FeatureTemperature, "DS": DeepTemperature}  # LS and DS read the logits


def run(context: Context) -> Result:
    """Fit LS, LFS and DS on calibration rows of several numbers, and hold them against GS on the other rows."""
    names = list_logits(context.data)
    if not names:
        raise FileNotFoundError("no logits/*.npz in the data folder: set LIKELY_DATA to one that has them")
    work = [(name, method) for name in names for method in METHODS]
    seeds = range(context.seed, context.seed + (1 if context.quick else 3))
    sizes = SIZES[:3] if context.quick else SIZES
    rows = [row for name, method in context.track(work) for row in measure(name, method, sizes, seeds, context.data)]
    splits = pd.DataFrame(rows, columns=["network", "method", "n", "difference", "error"])
    mean = splits.pivot_table(index=["network", "method"], columns="n", values="difference", aggfunc="mean")
    worst = splits.groupby(["method", "n"])["difference"].agg(["mean", "max", "count", lambda d: (d > 1e-4).mean()])
    worst.columns = pd.Index(["mean", "worst", "splits", "share worse"])
    return result_of(
        judge(splits),
        (
            Table(mean, "Test NLL less that of Global Scaling, mean over splits, by calibration rows.", digits=4),
            Table(worst, "Over all networks; a split is worse if it loses more than .0001.", digits=4),
        ),
    )


def measure(
    name: str, method: str, sizes: tuple[int, ...], seeds: range, data: Any
) -> Iterator[tuple[str, str, int, float, float]]:
    """The paired difference of every split, with its standard error over test rows."""
    rows = load_logits(name, data)
    if method == "LFS":
        if rows.features is None:
            return
        rows = rows.described
    for n in sizes:
        for seed in seeds:
            order = np.random.default_rng([seed, n]).permutation(len(rows.labels))
            if n <= len(order) // 2:
                difference = compare(rows, method, order[:n], order[len(order) // 2 :])
                yield name, method, n, difference.mean, difference.error


def compare(rows: Logits, method: str, fit: NDArray[np.int64], test: NDArray[np.int64]) -> Difference:
    """The mean NLL of the test rows, less that under one temperature."""
    features = rows.features if method == "LFS" else None
    known, new = (None, None) if features is None else (features[fit], features[test])
    ours = METHODS[method]().fit(rows.logits[fit], rows.labels[fit], known)
    base = GlobalTemperature().fit(rows.logits[fit], rows.labels[fit])
    logits, labels = rows.logits[test], rows.labels[test]
    return paired(nll(ours.transform(logits, new), labels), nll(base.transform(logits), labels), test_per_train=0)


def nll(logits: NDArray[np.float32], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """The NLL of each row."""
    found: NDArray[np.float64] = -log_softmax(logits.astype(np.float64), axis=1)[np.arange(len(y)), y]
    return found


def judge(splits: pd.DataFrame) -> Iterator[Bar]:
    """Of each method: never clearly worse and better in the mean on many rows, hardly ever worse on few."""
    for method, own in splits.groupby("method"):
        large, small = own[own["n"] >= SMALL], own[own["n"] < SMALL]
        if len(large):
            clearly = (large["difference"] > 0.003) & (large["difference"] > 2 * large["error"])
            mean, error = large["difference"].mean(), large["difference"].sem()
            case = f"{len(large)} splits"
            yield Bar(f"{method}, 1000 rows or more: splits clearly worse", clearly.sum().item(), "≤", 0, case=case)
            yield Bar(f"{method}, 1000 rows or more: mean NLL less GS's", mean, "<", 0, spread=error, case=case)
        if len(small):
            share, case = (small["difference"] > 1e-4).mean(), f"{len(small)} splits"
            yield Bar(f"{method}, fewer rows: share of splits worse", share, "≤", 0.1, case=case)
            yield Bar(f"{method}, fewer rows: worst NLL less GS's", small["difference"].max(), "≤", 0.005, case=case)
