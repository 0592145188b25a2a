"""Table 3: fifteen detectors on the ODDS sets by median AUC, thirteen of them PyOD's with their defaults.

As in the paper rows are standardised, and every detector is fitted to all rows and scores the same. The paper names
neither its sets nor its seeds; these are the sets that its printed medians point to. Without a data folder, classes of
scikit-learn's sets stand in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.data import Outliers, list_outliers, load_outliers
from experiments.entries.cores import one_core
from experiments.entries.entry import Context, Result, Verdict
from experiments.paper._detectors import BEYOND, Score, cut, judged, refused, rivals, stand_ins
from likely._page import Table
from likely.outliers import LikelihoodDetector, ScaledAutoencoderDetector, ScaledPCADetector, ScatterDetector

PCA_S, AE_S, SCATTER, LIKELIHOOD = "PCA+S", "AE+S", "ScatterDetector", "LikelihoodDetector"
PAPER = {
    "LOF": 0.669,
    "FB": 0.702,
    "ABOD": 0.727,
    "AE": 0.737,
    "VAE": 0.792,
    "COPOD": 0.799,
    "PCA": 0.808,
    "OCSVM": 0.814,
    "MCD": 0.820,
    "KNN": 0.822,
    "HBOS": 0.822,
    "IF": 0.823,
    "CBLOF": 0.836,
    AE_S: 0.846,
    PCA_S: 0.868,
}
SLOW = ("FB", "ABOD", "AE", "VAE", "MCD", "OCSVM")  # left out of a quick run
Make = Callable[[int], Any]
_SCORED: dict[tuple[bool, int, Path | None], pd.DataFrame] = {}


def ours(quick: bool) -> Mapping[str, Make]:
    """The paper's two with its settings, and those that come with this package; if quick, all with few, long steps."""
    few: dict[str, Any] = {"max_steps": 60} if quick else {}
    steps: dict[str, Any] = few or {"learning_rate": 5e-4, "max_steps": 4000, "batch_size": 1024}
    paper: dict[str, Any] = {"dimension": "row", "score_by": "scale", **steps}
    return {
        PCA_S: lambda seed: ScaledPCADetector(random_state=seed, **paper),
        AE_S: lambda seed: ScaledAutoencoderDetector(random_state=seed, **paper),
        "PCA+S, ours": lambda seed: ScaledPCADetector(random_state=seed, **few),
        "AE+S, ours": lambda seed: ScaledAutoencoderDetector(random_state=seed, **few),
        SCATTER: lambda _: ScatterDetector(),
        LIKELIHOOD: lambda seed: LikelihoodDetector(random_state=seed),
    }


def run(context: Context) -> Result:
    """Score every set with every detector."""
    scores = score_all(context)
    auc = scores.pivot_table(index="method", columns="set", values="AUC")
    verdict, notes = judge(auc, missing=[name for name in PAPER if name not in auc.index])
    table = pd.DataFrame({"median AUC": auc.median(axis=1), "paper": pd.Series(PAPER)}).dropna(subset="median AUC")
    table.insert(1, "±", over_seeds(scores))
    table["mean AUC"] = auc.mean(axis=1)
    table["mean AP"] = scores.groupby("method")["AP"].mean()
    table = table.sort_values("median AUC")
    table.index.name = "method"
    best = dict.fromkeys(("median AUC", "paper", "mean AUC", "mean AP"), "higher")
    caption = (
        f"{auc.shape[1]} sets, every detector fitted to all rows and scoring them; where it draws, AUCs are means over "
        f"{seeds_of(context.quick)} seeds and ± is the standard deviation of the median over seeds. PCA+S and AE+S as "
        "in the paper: one scale a row, which is the score; ours have one a feature and score by the likelihood. The "
        f"90% interval of the median of PCA+S over sets is {interval(auc, PCA_S)}."
    )
    return Result(verdict, notes + refused(scores), tables=(Table(table, caption, best),))  # type: ignore[arg-type]


def score_all(context: Context, *, backwards: bool = False) -> pd.DataFrame:
    """A row for each set, detector and seed; the figure and the table share them.

    In one process they do by memory. In two that run side by side one goes ``backwards``, so that they meet half way.
    """
    key = (context.quick, context.seed, context.data)
    if key not in _SCORED:
        _SCORED[key] = _score_all(context, -1 if backwards else 1)
    return _SCORED[key]


def _score_all(context: Context, step: int) -> pd.DataFrame:
    methods: dict[str, Make] = {name: own.make for name, own in rivals().items()}
    if context.quick:
        methods = {name: make for name, make in methods.items() if name not in SLOW}
    methods |= ours(context.quick)
    draws = {name: own.random for name, own in rivals().items()}
    work = [
        (data, name, make, context.seed + seed)
        for data in sets(context)
        for name, make in methods.items()
        for seed in range(seeds_of(context.quick) if draws.get(name, name != SCATTER) else 1)
    ]
    with one_core():
        found: list[Score] = [
            context.once((data.name, name, seed), judged, data, name, make, seed)
            for data, name, make, seed in context.track(work[::step])
        ]
    return pd.DataFrame(found[::step])


def seeds_of(quick: bool) -> int:
    """How often a detector that draws is fitted to a set."""
    return 2 if quick else 3


def over_seeds(scores: pd.DataFrame) -> pd.Series[float]:
    """The standard deviation over seeds of a detector's median AUC; none where nothing is drawn."""
    medians = scores.groupby(["method", "seed"])["AUC"].median()
    return medians.groupby("method").std()


def sets(context: Context) -> list[Outliers]:
    """The paper's sets that are in the data folder, the smaller ones of them if quick; else stand-ins."""
    there = [name for name in list_outliers(context.data) if name not in BEYOND] if context.data else []
    loaded = [cut(load_outliers(name, context.data), 10_000) for name in there]
    if context.quick:
        loaded = [data for data in loaded if data.X.size < 30_000]
    return loaded or stand_ins(context.seed)


def judge(auc: pd.DataFrame, missing: list[str]) -> tuple[Verdict, str]:
    """The claim: PCA+S and AE+S are the two best by median AUC."""
    medians = auc.loc[[name for name in PAPER if name in auc.index]].median(axis=1)
    others = medians.drop([PCA_S, AE_S])
    best = others.max() if len(others) else -np.inf
    lead = [name for name in (PCA_S, AE_S) if medians[name] > best]
    verdict: Verdict = "holds" if len(lead) == 2 else "holds in part" if lead else "does not hold"
    words = (
        f"On {auc.shape[1]} sets the median AUC of PCA+S is {medians[PCA_S]:.3f} (paper {PAPER[PCA_S]:.3f}), of AE+S "
        f"{medians[AE_S]:.3f} ({PAPER[AE_S]:.3f})"
    )
    words += f"; the best of the others is {others.idxmax()} with {best:.3f}." if len(others) else "."
    lower, upper = _quantiles(auc, PCA_S)
    words += (
        f" Medians of so few sets are uncertain: sets drawn anew put that of PCA+S between {lower:.2f} and {upper:.2f}."
    )
    ours = [f"{name} has {auc.loc[name].median():.3f}" for name in (SCATTER, LIKELIHOOD) if name in auc.index]
    words += f" Of ours, {' and '.join(ours)}." if ours else ""
    if missing:
        words += f" Not run: {', '.join(missing)}."
    return verdict, words


def interval(auc: pd.DataFrame, method: str) -> str:
    """The 90% bootstrap interval of the median over sets."""
    lower, upper = _quantiles(auc, method)
    return f"{lower:.3f} to {upper:.3f}"


def _quantiles(auc: pd.DataFrame, method: str) -> tuple[float, float]:
    values = auc.loc[method].to_numpy()
    drawn = np.random.default_rng(0).choice(values, size=(2000, len(values)))
    lower, upper = np.quantile(np.median(drawn, axis=1), [0.05, 0.95])
    return float(lower), float(upper)
