"""Detectors of the paper's table on outlier sets: PyOD's with their defaults, and ours."""

from __future__ import annotations

import contextlib
import io
import math
import time
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from experiments.data import Outliers

ROWS, SLOW_ROWS = 100_000, 2_000  # of a set, at most; and for detectors that are slow in many rows
BEYOND = ("cover", "http", "shuttle", "smtp")  # sets of ODDS that are probably not among the paper's 22


class Rival(NamedTuple):
    """A detector of PyOD's: where it is, whether its answer depends on a seed, whether it is slow in many rows."""

    module: str
    name: str
    random: bool = False
    slow: bool = True

    def make(self, seed: int) -> Any:
        """The detector with PyOD's defaults, told to be quiet."""
        detector = getattr(import_module(f"pyod.models.{self.module}"), self.name)()
        quiet = {"random_state": seed, "verbose": 0}
        return detector.set_params(**{key: quiet[key] for key in quiet if key in detector.get_params()})


RIVALS: Mapping[str, Rival] = {
    "LOF": Rival("lof", "LOF"),
    "FB": Rival("feature_bagging", "FeatureBagging", random=True),
    "ABOD": Rival("abod", "ABOD"),
    "AE": Rival("auto_encoder", "AutoEncoder"),  # these two draw, but PyOD seeds them the same whatever it is told
    "VAE": Rival("vae", "VAE"),
    "COPOD": Rival("copod", "COPOD", slow=False),
    "PCA": Rival("pca", "PCA", slow=False),
    "OCSVM": Rival("ocsvm", "OCSVM"),
    "MCD": Rival("mcd", "MCD", random=True),
    "KNN": Rival("knn", "KNN"),
    "HBOS": Rival("hbos", "HBOS", slow=False),
    "IF": Rival("iforest", "IForest", random=True, slow=False),
    "CBLOF": Rival("cblof", "CBLOF", random=True),
}


def rivals() -> dict[str, Rival]:
    """Those that can run here: none without PyOD; feature bagging needs combo beside it."""
    return {name: own for name, own in RIVALS.items() if find_spec("pyod") and (name != "FB" or find_spec("combo"))}


class Score(NamedTuple):
    """How well one detector did on one set, and the seconds of CPU it took to fit and to score."""

    set: str
    method: str
    seed: int
    protocol: str
    AUC: float
    AP: float
    seconds: float


def judged(data: Outliers, method: str, make: Callable[[int], Any], seed: int, *, split: bool = False) -> Score:
    """Fit and score all rows (transductive), or fit 60% and score the other 40%; the labels only judge.

    A rival may refuse a set, as CBLOF does where it finds no large and small clusters: its scores are then NaN.
    """
    X, y, protocol = data.X, data.y, "60/40" if split else "all rows"
    if split:
        # Shares of outliers are kept, or a small set may have none to find.
        fit, test, _, y = train_test_split(X, y, test_size=0.4, random_state=seed, stratify=y)
    else:
        fit = test = X
    scaler = StandardScaler().fit(fit)
    fit, test = scaler.transform(fit), scaler.transform(test)
    # PyOD's PCA and MCD divide by the variance of every column, which may be zero.
    varies = np.ptp(fit, axis=0) > 0
    fit, test = fit[:, varies], test[:, varies]

    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with warnings.catch_warnings(), quiet[0], quiet[1]:
        warnings.simplefilter("ignore")  # the rivals': of convergence, of covariances that are not of full rank
        start = time.process_time()
        try:
            detector = make(seed).fit(fit)
        except ValueError:
            if method not in RIVALS:
                raise
            return Score(data.name, method, seed, protocol, math.nan, math.nan, time.process_time() - start)
        # PyOD's decision function is higher for outliers, scikit-learn's is lower; ours has one of each.
        found = getattr(detector, "outlier_score", detector.decision_function)(test)
        seconds = time.process_time() - start
    found = np.nan_to_num(np.asarray(found, dtype=np.float64), nan=0.0)
    auc, precision = roc_auc_score(y, found), average_precision_score(y, found)
    return Score(data.name, method, seed, protocol, float(auc), float(precision), seconds)


def refused(scores: pd.DataFrame) -> str:
    """In words, which rivals refused which sets."""
    pairs = scores.loc[scores["AUC"].isna(), ["method", "set"]].drop_duplicates()
    words = ", ".join(f"{name} failed on the set “{of}”" for name, of in pairs.to_numpy())
    return f" {words}." if words else ""


def cut(data: Outliers, rows: int, seed: int = 0) -> Outliers:
    """So many rows at most, with the share of outliers as it was, or five of them where that is fewer."""
    if len(data.y) <= rows:
        return data
    rng = np.random.default_rng(seed)
    out, rest = (rng.permutation(np.flatnonzero(data.y == k)) for k in (1, 0))
    keep = max(5, round(rows * data.share))
    pick = rng.permutation(np.concatenate([out[:keep], rest[: rows - keep]]))
    return Outliers(data.name, data.X[pick], data.y[pick])


def stand_ins(seed: int) -> list[Outliers]:
    """Sets that need no folder: a few rows of one class among those of the others."""
    rng = np.random.default_rng(seed)
    sources = {"iris": (load_iris, 2), "wine, stand-in": (load_wine, 0), "breast cancer": (load_breast_cancer, 0)}
    sources |= {f"digits, {odd}": (load_digits, odd) for odd in (0, 4, 8)}
    found = []
    for name, (load, odd) in sources.items():
        X, y = load(return_X_y=True)
        out, rest = np.flatnonzero(y == odd), np.flatnonzero(y != odd)
        few = rng.choice(out, max(5, len(rest) // 20), replace=False)
        pick = rng.permutation(np.concatenate([rest, few]))
        found.append(Outliers(name, X[pick], (y[pick] == odd).astype(np.int64)))
    return found
