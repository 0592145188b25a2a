"""Is a temperature a row ever worse than one for all? Paired test NLL on every network's outputs there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax

from likely.calibration import DeepTemperature, FeatureTemperature, GlobalTemperature, LinearTemperature
from likely.datasets import Logits, list_logits, load_logits
from likely.reproduce import Context, Result, Table
from likely.reproduce._comparison import Difference, paired

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
    failures = judge(splits)
    mean = splits.pivot_table(index=["network", "method"], columns="n", values="difference", aggfunc="mean")
    worst = splits.groupby(["method", "n"])["difference"].agg(["mean", "max", "count", lambda d: (d > 1e-4).mean()])
    worst.columns = pd.Index(["mean", "worst", "splits", "share worse"])
    return Result(
        "holds" if not failures else "does not hold",
        "; ".join(failures) or "From 1000 rows on never clearly worse and better in the mean; below hardly ever.",
        tables=(
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


def judge(splits: pd.DataFrame) -> list[str]:
    """The bars that are missed, in words."""
    found = []
    for method, own in splits.groupby("method"):
        large, small = own[own["n"] >= SMALL], own[own["n"] < SMALL]
        clearly = large[(large["difference"] > 0.003) & (large["difference"] > 2 * large["error"])]
        if len(clearly):
            found.append(f"{method} is clearly worse on {len(clearly)} of {len(large)} splits of 1000 rows or more")
        if len(large) and large["difference"].mean() >= 0:
            found.append(f"{method} is not better in the mean from 1000 rows on")
        if len(small) and ((small["difference"] > 1e-4).mean() > 0.1 or small["difference"].max() > 0.005):
            found.append(f"{method} is worse on too many small splits, or by too much")
    return found
