"""Table 3: fifteen detectors on the ODDS sets by median AUC, thirteen of them PyOD's with their defaults.

As in the paper rows are standardised, and every detector is fitted to all rows and scores the same. PCA+S and AE+S are
those of `outlier_letter`, to the letter of the paper. The paper names neither its sets nor its seeds; these are the
sets that its printed medians point to. Without a data folder, classes of
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
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Table
from experiments.paper._detectors import BEYOND, Score, judged, refused, rivals, stand_ins
from experiments.paper._letter_table import interval as over_sets, readings
from experiments.paper.outlier_letter import AS_READ, FREE, letter, not_run, to_the_letter
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
SLOW = ("FB", "ABOD", "AE", "VAE", "MCD", "OCSVM", "HBOS")  # to fit or, by Numba, to compile: not in a quick run
Make = Callable[[int], Any]
_Key = tuple[bool, int, Path | None]
_SCORED: dict[_Key, pd.DataFrame] = {}
_LETTER: dict[_Key, pd.DataFrame] = {}


def ours(quick: bool) -> Mapping[str, Make]:
    """The detectors of this package; if quick, with few steps."""
    few: dict[str, Any] = {"max_steps": 30} if quick else {}
    return {
        "PCA+S, ours": lambda seed: ScaledPCADetector(random_state=seed, **few),
        "AE+S, ours": lambda seed: ScaledAutoencoderDetector(random_state=seed, **few),
        SCATTER: lambda _: ScatterDetector(),
        LIKELIHOOD: lambda seed: LikelihoodDetector(random_state=seed),
    }


def run(context: Context) -> Result:
    """Score every set with every detector."""
    scores = score_all(context)
    auc = scores.pivot_table(index="method", columns="set", values="AUC")
    rivals_best = _others(auc).max()
    every = readings(letter_all(context), rivals_best)
    notes = describe(auc, every, missing=[name for name in PAPER if name not in auc.index])
    table = pd.DataFrame({"median AUC": auc.median(axis=1), "paper": pd.Series(PAPER)}).dropna(subset="median AUC")
    table.insert(1, "±", over_seeds(scores))
    table.insert(2, "90% interval", pd.Series({name: interval(auc, name) for name in auc.index}))
    table["less the best rival, 95%"] = pd.Series(
        {name: less_best_rival(auc, name) if name in (PCA_S, AE_S) else "–" for name in auc.index}
    )
    table["mean AUC"] = auc.mean(axis=1)
    table["mean AP"] = scores.groupby("method")["AP"].mean()
    table = table.sort_values("median AUC")
    table.index.name = "method"
    best = dict.fromkeys(("median AUC", "paper", "mean AUC", "mean AP"), "higher")
    caption = (
        f"{auc.shape[1]} sets, every detector fitted to all rows and scoring them. Where it draws, AUCs are means over "
        "seeds and ± is the standard deviation of the median over seeds; the intervals are over sets drawn anew. PCA+S "
        "and AE+S are to the letter of the paper: one scale per row, which is the score; ours have one per feature and "
        "score by the likelihood."
    )
    note = (
        "PCA+S and AE+S for each choice that the paper leaves open, one at a time: the start of the scale's network "
        "and of the components, the batch, the code, the hidden layers, the rate of the scale, and whether it is "
        f"predicted or free. Median AUC: mean over seeds of the median over sets; the best rival has {rivals_best:.3f}."
        + "".join(f" Not run: {words}, which the time limit cut." for words in not_run(letter_all(context)))
        + ("" if context.quick else " `python -m experiments.paper.outlier_letter` trains them.")
    )
    tables = (Table(table, caption, best), Table(every, note))  # type: ignore[arg-type]
    return Result("not judged", notes + refused(scores), tables=tables)


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
    to_letter = to_the_letter(letter_all(context)).rename(columns={"model": "method"})
    return pd.concat([pd.DataFrame(found[::step]), to_letter[["set", "method", "seed", "AUC", "AP"]]])


def letter_all(context: Context) -> pd.DataFrame:
    """Every reading of PCA+S and AE+S on every set; trained once in a process."""
    key = (context.quick, context.seed, context.data)
    if key not in _LETTER:
        with one_core():
            _LETTER[key] = letter(context, sets(context))
    return _LETTER[key]


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
    loaded = [load_outliers(name, context.data) for name in there]
    if context.quick:
        loaded = [data for data in loaded if data.X.size < 30_000]
    return loaded or stand_ins(context.seed)


def describe(auc: pd.DataFrame, every: pd.DataFrame, missing: list[str]) -> str:
    """The median AUC of PCA+S and AE+S beside the best rival, from every start that the paper may mean."""
    medians, others = auc.median(axis=1), _others(auc)
    best = others.max() if len(others) else -np.inf
    words = (
        f"To the letter, on {auc.shape[1]} sets, the median AUC of PCA+S is {medians[PCA_S]:.3f} (paper "
        f"{PAPER[PCA_S]:.3f}), of AE+S {medians[AE_S]:.3f} ({PAPER[AE_S]:.3f})"
    )
    words += f"; the best of {len(others)} rivals is {others.idxmax()} with {best:.3f}." if len(others) else "."
    for model in (PCA_S, AE_S):
        own = every.loc[model].xs(AS_READ, level="reading")["median AUC"]
        words += f" From the starts that the paper may mean {model} has {own.min():.3f} to {own.max():.3f}."
    words += _free(every, best)
    lower, upper = _quantiles(auc, PCA_S)
    words += f" Sets drawn anew put the median of PCA+S between {lower:.2f} and {upper:.2f}."
    own_words = [f"{name} has {medians[name]:.3f}" for name in (SCATTER, LIKELIHOOD) if name in auc.index]
    words += f" Of ours, {' and '.join(own_words)}." if own_words else ""
    if missing:
        words += f" Not run: {', '.join(missing)}."
    return words


def _free(every: pd.DataFrame, best: float) -> str:
    """What PCA+S comes to with one free scale per row, if that was run."""
    if FREE not in every.index.get_level_values("reading"):
        return ""
    own = every.xs(FREE, level="reading").loc[PCA_S].droplevel("start")
    parts = [f"{of['median AUC']:.3f} ± {of['±']:.3f} with {name} components" for name, of in own.iterrows()]
    above = own["above the best rival"].str.cat(sep=" and ")
    return (
        " “Data-conditioned”, in the paper's own terms, is one free scale per training row, though the text around it "
        f"speaks of prediction: so read, PCA+S has {' and '.join(parts)}, above {best:.3f} in {above}."
    )


def _others(auc: pd.DataFrame) -> pd.Series[float]:
    """The median AUC of the paper's rivals."""
    return auc.loc[[name for name in PAPER if name in auc.index and name not in (PCA_S, AE_S)]].median(axis=1)


def interval(auc: pd.DataFrame, method: str) -> str:
    """The 90% bootstrap interval of the median over sets."""
    lower, upper = _quantiles(auc, method)
    return f"{lower:.3f} to {upper:.3f}"


def less_best_rival(auc: pd.DataFrame, method: str) -> str:
    """The best rival by median AUC, and the 95% interval of the difference of medians, sets drawn anew."""
    others = _others(auc)
    if not len(others):
        return "–"
    rival = str(others.idxmax())
    both = auc.loc[[method, rival]].dropna(axis="columns").to_numpy()
    drawn = np.random.default_rng(0).integers(0, both.shape[1], size=(10_000, both.shape[1]))
    own, theirs = np.median(both[:, drawn], axis=-1)
    low, high = np.quantile(own - theirs, (0.025, 0.975))
    return f"{rival}; {low:.4f}; {high:.4f}"


def _quantiles(auc: pd.DataFrame, method: str) -> tuple[float, float]:
    return over_sets(auc.loc[method].dropna().to_numpy())
