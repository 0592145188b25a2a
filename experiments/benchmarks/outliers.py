"""Outlier detectors on the ODDS sets, beside those of PyOD that the paper compares with: how well, and how fast."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from scipy.stats import wilcoxon
from sklearn.ensemble import IsolationForest

from experiments.benchmarks._bars import result_of
from experiments.benchmarks._timing import peak_megabytes
from experiments.data import list_outliers, load_outliers
from experiments.entries import Bar, Context, Result
from experiments.entries.cores import one_core
from experiments.entries.parts import Table
from experiments.paper._detectors import BEYOND, ROWS, SLOW_ROWS, Score, cut, judged, rivals
from likely.outliers import (
    LikelihoodDetector,
    ScaledAutoencoderDetector,
    ScaledPCADetector,
    ScatterDetector,
)

DEFAULT, PCA_S, AE_S = "LikelihoodDetector", "PCA+S", "AE+S"
Make = Callable[[int], Any]
OURS: Mapping[str, Make] = {
    DEFAULT: lambda seed: LikelihoodDetector(random_state=seed),
    "ScatterDetector": lambda _: ScatterDetector(),
    PCA_S: lambda seed: ScaledPCADetector(random_state=seed),
    AE_S: lambda seed: ScaledAutoencoderDetector(random_state=seed),
}
SPLIT = (DEFAULT, "ScatterDetector", PCA_S, AE_S, "IF", "HBOS", "COPOD", "PCA")  # these on 60/40 too
SEEDS = 5


def run(context: Context) -> Result:
    """Score every set with every detector, then the clock and the memory."""
    names = list_outliers(context.data)
    if not names:
        raise FileNotFoundError("no odds/*.npz in the data folder: set LIKELY_DATA to one that has them")
    if context.quick:
        names = [name for name in names if name in ("glass", "lympho", "vertebral", "wbc", "wine")]
    seeds = range(context.seed, context.seed + (2 if context.quick else SEEDS))
    units = [unit for name in names for unit in planned(name, seeds)]
    # A process per core, each of one thread: what is timed below has the machine to itself.
    scored = Parallel(n_jobs=-1, return_as="generator")(delayed(score)(unit, context.data) for unit in units)
    scores = pd.DataFrame([score for _, score in zip(context.track(units), scored, strict=True)])
    with one_core():
        speed, fast = clock(context)
    memory, small = streaming(100_000 if context.quick else 10_000_000)
    return result_of([*judge(scores), *fast, *small], (*tables(scores), speed, memory))


class Unit(NamedTuple):
    """One detector to fit to one set."""

    set: str
    method: str
    seed: int
    split: bool = False
    rows: int = ROWS


def planned(name: str, seeds: range) -> Iterator[Unit]:
    """Every detector on one set; those that no seed moves once, slow ones once and on few rows."""
    for method in OURS:
        for seed in seeds if method != "ScatterDetector" else seeds[:1]:
            yield Unit(name, method, seed)
    for method, rival in rivals().items():
        for seed in seeds if rival.random and not rival.slow else seeds[:1]:
            yield Unit(name, method, seed, rows=SLOW_ROWS if rival.slow else ROWS)
    for method in SPLIT:
        if method in OURS or method in rivals():
            for seed in seeds[:1] if method in (PCA_S, AE_S) else seeds:
                yield Unit(name, method, seed, split=True)


def score(unit: Unit, folder: Path | None) -> Score:
    """How well the detector does, on one core."""
    make = OURS[unit.method] if unit.method in OURS else rivals()[unit.method].make
    with one_core():
        data = cut(load_outliers(unit.set, folder), unit.rows)
        return judged(data, unit.method, make, unit.seed, split=unit.split)


def by_set(scores: pd.DataFrame, measure: str, protocol: str = "all rows") -> pd.DataFrame:
    """Means over seeds, a row for each set and a column for each detector."""
    own = scores[scores["protocol"] == protocol]
    return own.pivot_table(index="set", columns="method", values=measure, sort=False)


def summary(scores: pd.DataFrame, protocol: str) -> pd.DataFrame:
    """Over sets: means and medians of both measures, and a paired test of the default against each."""
    auc, ap = by_set(scores, "AUC", protocol), by_set(scores, "AP", protocol)
    listed = [name for name in auc.index if name not in BEYOND]
    frame = pd.DataFrame(
        {
            "mean AUC": auc.mean(),
            "median AUC": auc.median(),
            "mean AP": ap.mean(),
            "median AP": ap.median(),
            "mean AUC, paper's": auc.loc[listed].mean(),
            "median AUC, paper's": auc.loc[listed].median(),
            "seed spread": seed_spread(scores, protocol),
            "wins, AUC": auc.apply(lambda other: f"{(auc[DEFAULT] > other).sum()} of {len(auc)}"),
            "p, AUC": auc.apply(lambda other: _p(auc[DEFAULT], other)),
            "p, AP": ap.apply(lambda other: _p(ap[DEFAULT], other)),
        }
    ).sort_values("mean AUC", ascending=False)
    frame.index.name = "detector"
    return frame


def seed_spread(scores: pd.DataFrame, protocol: str) -> pd.Series[float]:
    """The standard deviation over seeds of the mean AUC over sets."""
    own = scores[scores["protocol"] == protocol]
    return own.groupby(["method", "seed"])["AUC"].mean().groupby("method").std()


def _p(ours: pd.Series[float], theirs: pd.Series[float]) -> float:
    """Wilcoxon's signed rank test, two-sided; NaN of a detector with itself."""
    return float(wilcoxon(ours, theirs, nan_policy="omit").pvalue) if (ours != theirs).any() else np.nan


def tables(scores: pd.DataFrame) -> list[Table]:
    """Summaries of both protocols, and the AUC of every set."""
    found = []
    sets = scores["set"].nunique()
    best = dict.fromkeys(("mean AUC", "median AUC", "mean AP", "median AP"), "higher")
    for protocol, words in (
        ("all rows", "fitted and scored on all rows"),
        ("60/40", "fitted on 60% and scored on 40%, PCA+S and AE+S once"),
    ):
        caption = (
            f"{sets} sets, {words}; means over {scores['seed'].nunique()} seeds. Sets are cut to {ROWS:,} rows, "
            f"to {SLOW_ROWS:,} for slow detectors of PyOD, which ran once. p is Wilcoxon's over sets, of {DEFAULT} "
            "against each. Where the paper is named, the average is over those of its sets that are here."
        )
        found.append(Table(summary(scores, protocol), caption, best))  # type: ignore[arg-type]
    shown = [
        name
        for name in (DEFAULT, "ScatterDetector", PCA_S, AE_S, "IF", "COPOD", "KNN")
        if name in set(scores["method"])
    ]
    frame = by_set(scores, "AUC")[shown]
    return [*found, Table(frame, "AUC of every set, means over seeds.", {tuple(shown): "higher"})]


def judge(scores: pd.DataFrame) -> Iterator[Bar]:
    """Above every rival, as good as the paper says, and the same with every seed."""
    auc, ap = by_set(scores, "AUC"), by_set(scores, "AP")
    for measure, frame in (("AUC", auc), ("AP", ap)):
        peers = frame[[name for name in rivals() if name in frame]].mean()
        best = peers.max() if len(peers) else None
        case = f"the best rival is {peers.idxmax()}" if len(peers) else ""
        yield Bar(f"{DEFAULT}, mean {measure}", frame[DEFAULT].mean(), ">", best, case=case)
    listed = [name for name in auc.index if name not in BEYOND]
    if len(listed) >= 20:  # a few sets say nothing about the paper's
        for method, bar in ((PCA_S, 0.868), (AE_S, 0.846)):
            own = scores[(scores["protocol"] == "all rows") & (scores["method"] == method) & scores["set"].isin(listed)]
            medians = own.groupby("seed")["AUC"].median()
            yield Bar(f"{method}, median AUC on the paper's sets", medians.median(), "≥", bar, spread=medians.std())
    yield Bar(f"{DEFAULT}, mean AUC moved by seeds", seed_spread(scores, "all rows")[DEFAULT], "<", 0.01)


def clock(context: Context) -> tuple[Table, list[Bar]]:
    """Seconds of CPU to fit and score."""
    rng = np.random.default_rng(context.seed)
    rows = 20_000 if context.quick else 286_048
    X = (rng.normal(size=(rows, 10)) @ rng.normal(size=(10, 10))).astype(np.float32)
    what = f"{rows:,} × 10"
    found = {
        f"{DEFAULT}, {what}": _seconds(lambda: LikelihoodDetector(random_state=0).fit(X).outlier_score(X)),
        f"ScatterDetector, {what}": _seconds(lambda: ScatterDetector().fit(X).outlier_score(X)),
        f"IsolationForest, {what}": _seconds(lambda: IsolationForest(random_state=0).fit(X).score_samples(X)),
    }
    name = "mammography"
    bars = []
    if name in list_outliers(context.data) and not context.quick:
        data = load_outliers(name, context.data)
        slow: dict[str, Any] = {"learning_rate": 5e-4, "batch_size": len(data.y), "max_steps": 4000}
        ours, theirs = (judged(data, PCA_S, partial(_pca, own), context.seed) for own in ({}, slow))
        found[f"PCA+S, {name}: AUC {ours.AUC:.3f}"] = ours.seconds
        found[f"the same by 4000 steps on all rows, {name}: AUC {theirs.AUC:.3f}"] = theirs.seconds
        bars.append(Bar(f"{PCA_S}, faster than 4000 steps", theirs.seconds / ours.seconds, "≥", 10, "×"))
    bars.append(Bar(f"{DEFAULT}, {what}", found[f"{DEFAULT}, {what}"], "<", None if context.quick else 1, " s"))
    frame = pd.DataFrame({"seconds": found})
    frame.index.name = "detector"
    return Table(frame, "Seconds of CPU to fit and score, on one core.", digits=2), bars


def _pca(options: dict[str, Any], seed: int) -> ScaledPCADetector:
    return ScaledPCADetector(random_state=seed, **options)


def _seconds(way: Callable[[], object]) -> float:
    """The least of three."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        way()
        taken.append(time.process_time() - start)
    return min(taken)


def streaming(rows: int) -> tuple[Table, list[Bar]]:
    """The memory of a process that fits and scores a memory-mapped file."""
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as pool:
        file = Path(folder) / "rows.npy"
        stored = np.lib.format.open_memmap(file, "w+", np.float32, (rows, 10))
        rng = np.random.default_rng(0)
        for start in range(0, rows, 100_000):
            stored[start : start + 100_000] = rng.normal(size=(min(100_000, rows - start), 10))
        stored.flush()
        megabytes, seconds = pool.apply(_streamed, (str(file),))
    frame = pd.DataFrame({"megabytes": [megabytes], "of which the file": [rows * 40 / 2**20], "seconds": [seconds]})
    frame.index = pd.Index([f"{rows:,} × 10 float32"], name="file")
    caption = (
        f"The most memory of a process in which a {DEFAULT} fits and scores a memory-mapped file, libraries and the "
        "pages of the file that the system keeps included."
    )
    return Table(frame, caption, digits=0), [Bar(f"memory for {rows:,} rows", megabytes, "<", 1024, " MB")]


def _streamed(file: str) -> tuple[float, float]:
    torch.set_num_threads(1)
    start = time.perf_counter()
    X = np.load(file, mmap_mode="r")
    LikelihoodDetector(random_state=0).fit(X).outlier_score(X)
    seconds = time.perf_counter() - start
    return peak_megabytes(), seconds
