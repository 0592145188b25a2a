"""Likelihood regressors and classifiers of tables, against the same networks without, NGBoost and deep ensembles.

Inputs and targets are in units of the training rows. `plain` is the default's five networks by squared error, with one
fitted scale; `deep ensemble` is five networks whose means and scales learn jointly, mixed. Sets marked * were looked at
(in other splits) when defaults were chosen; the others were not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import joblib
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPRegressor
from torch.distributions import Distribution, Normal

from experiments.benchmarks import _network_classes as classes
from experiments.benchmarks._bars import result_of, worst
from experiments.benchmarks._timing import timed
from experiments.data import Regression, list_regression, load_regression, make_heteroscedastic
from experiments.entries import Bar, Context, Result
from experiments.entries.cores import one_core
from experiments.entries.parts import Table
from likely.metrics import negative_log_likelihood, quantile_calibration_error
from likely.tabular import NetworkRegressor

Array = NDArray[np.float64]
DEFAULT, PLAIN, ENSEMBLE, NGBOOST, SINGLE = "default", "plain", "deep ensemble", "NGBoost", "scikit-learn MLP"
SETS = {  # the paper's eight, then UCI sets with published splits, then one more
    "crime": "crime",
    "kin8nm": "uci_kin8nm",
    "bank8FM": "bank8FM",
    "wine white*": "wine_white",
    "mpg": "mpg",
    "cpu": "cpu",
    "soil": "soil_visualizing",
    "fried": "fried",
    "boston": "uci_boston",
    "wine red": "uci_wine_red",
    "protein": "uci_protein",
    "bank32nh*": "bank32nh",
}
SPLITS, FEWER = 10, 5
MANY = 20_000  # rows from which on there are fewer splits: protein is published with five
SOME = 5000  # rows from which on NGBoost sees fewer splits: it takes a minute for each
CORRUPTED = ("bank8FM", "kin8nm", "wine white*", "boston", "mpg")
CORRUPTIONS = {"targets, 10%": 0.1, "targets, 20%": 0.2, "inputs, 20%": 0.2}
ROBUST: dict[str, Any] = {"likelihood": "student_t", "scale": "global"}


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows to be judged by, in units of the former."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


def run(context: Context) -> Result:
    """All sets, splits and methods; then corrupted rows; then classifiers."""
    steps = 150 if context.quick else 2000
    sets = find_sets(context)
    splits = {name: 2 if context.quick else SPLITS if len(sets[name].y) < MANY else FEWER for name in sets}
    jobs = [(name, split) for name in sorted(sets, key=lambda n: -len(sets[n].y)) for split in range(splits[name])]
    regress = (joblib.delayed(regression)(sets[name], name, split, steps) for name, split in jobs)
    dirty = [job for job in jobs if (job[0] in CORRUPTED or context.quick) and job[1] < 5]
    corrupt = (joblib.delayed(corruption)(sets[name], name, split, steps) for name, split in dirty)
    label = (joblib.delayed(classes.measure)(*job) for job in classes.jobs(context.quick, context.seed))
    parts: list[list[Any]] = []
    for work, share in ((regress, 0.7), (corrupt, 0.9), (label, 1.0)):
        parts.append([row for rows in joblib.Parallel(n_jobs=-1)(work) for row in rows])
        context.progress(share)
    scores = pd.DataFrame(parts[0], columns=["set", "split", "method", "NLL", "MSE", "CAL", "seconds"])
    ratios = pd.DataFrame(parts[1], columns=["set", "split", "corruption", "method", "ratio"])
    labels = pd.DataFrame(parts[2], columns=classes.COLUMNS)
    bars = [*judge(scores), *judge_corruption(ratios), *classes.judge(labels)]
    return result_of(bars, (*tables(scores, ratios), *classes.tables(labels)))


def find_sets(context: Context) -> dict[str, Regression]:
    """The sets that are in the data folder; without one, two that are always at hand."""
    here = set(list_regression(context.data))
    found = {name: load_regression(file, context.data) for name, file in SETS.items() if file in here}
    if found and not context.quick:
        return found
    X, y = load_diabetes(return_X_y=True)
    noisy = make_heteroscedastic(600, random_state=context.seed)
    return {"diabetes": Regression("diabetes", X, y), "synthetic": Regression("synthetic", noisy[0], noisy[1])}


def make_split(table: Regression, number: int) -> Split:
    """A published split, or one row in ten (in five of a small set) drawn for the test."""
    n = len(table.y)
    if table.test_index is not None and number < len(table.test_index):
        test = table.test_index[number]
    else:
        test = np.random.default_rng(number).permutation(n)[: n // (10 if n > 1000 else 5)]
    train = np.setdiff1d(np.arange(n), test)
    X = SimpleImputer(strategy="median").fit(table.X[train]).transform(table.X)
    mean, deviation = X[train].mean(0), X[train].std(0)
    X = (X - mean) / np.where(deviation > 1e-12, deviation, 1)
    y = (table.y - table.y[train].mean()) / table.y[train].std()
    return Split(X[train], y[train], X[test], y[test])


def regression(table: Regression, name: str, number: int, steps: int) -> list[tuple[Any, ...]]:
    """Test NLL, MSE, CAL and seconds of every method on one split."""
    split = make_split(table, number)
    rows = []
    with one_core(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method, fit in methods(number, steps, peers=number < FEWER or len(table.y) < SOME):
            distribution, seconds = timed(lambda fit=fit: fit(split))  # type: ignore[misc]
            nll = float(negative_log_likelihood(split.y_test, distribution))
            mse = float(np.mean(np.square(np.asarray(distribution.mean) - split.y_test)))
            cal = quantile_calibration_error(split.y_test, distribution)
            rows.append((name, number, method, nll, mse, cal, seconds))
    return rows


def methods(seed: int, steps: int, peers: bool) -> Iterator[tuple[str, Callable[[Split], Distribution]]]:
    """Name and fit of each; the distributions are those of the test rows."""

    def ours(**settings: Any) -> Callable[[Split], Distribution]:
        model = NetworkRegressor(max_steps=steps, random_state=seed, **settings)
        return lambda split: model.fit(split.X, split.y).predict_dist(split.X_test)

    def ngboost(split: Split) -> Distribution:
        from ngboost import NGBRegressor

        found = NGBRegressor(verbose=False, random_state=seed).fit(split.X, split.y).pred_dist(split.X_test)
        return Normal(torch.from_numpy(found.loc), torch.from_numpy(found.scale))

    def single(split: Split) -> Distribution:
        model = MLPRegressor(hidden_layer_sizes=(64, 64), early_stopping=True, random_state=seed).fit(split.X, split.y)
        scale = np.sqrt(np.mean(np.square(split.y - model.predict(split.X))))
        return Normal(torch.from_numpy(model.predict(split.X_test)), torch.tensor(scale))

    yield DEFAULT, ours()
    yield PLAIN, ours(scale="global")
    yield ENSEMBLE, ours(objective="joint")
    yield SINGLE, single
    if peers and find_spec("ngboost"):
        yield NGBOOST, ngboost


def corruption(table: Regression, name: str, number: int, steps: int) -> list[tuple[Any, ...]]:
    """Test MSE after training on rows some of which are wrong, over that of the plain networks on the others."""
    split, rows = make_split(table, number), []

    def error(X: Array, y: Array, **settings: Any) -> float:
        model = NetworkRegressor(max_steps=steps, random_state=number, **settings).fit(X, y)
        return float(np.mean(np.square(model.predict(split.X_test) - split.y_test)))

    with one_core():
        for kind, share in CORRUPTIONS.items():
            X, y, wrong = corrupted(split, kind, share, number)
            clean = error(split.X[~wrong], split.y[~wrong], scale="global")
            rows.append((name, number, kind, "plain", error(X, y, scale="global") / clean))
            rows.append((name, number, kind, "student_t", error(X, y, **ROBUST) / clean))
    return rows


def corrupted(split: Split, kind: str, share: float, seed: int) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Targets off by 5 to 15 deviations; or inputs ten times as wide that have nothing to do with the target."""
    rng = np.random.default_rng([seed, 1])
    X, y = split.X.copy(), split.y.copy()
    wrong = rng.random(len(y)) < share
    if kind.startswith("targets"):
        y[wrong] += rng.choice([-1, 1], wrong.sum()) * rng.uniform(5, 15, wrong.sum())
    else:
        X[wrong] = 10 * rng.normal(size=(wrong.sum(), X.shape[1]))
    return X, y, wrong


def judge(scores: pd.DataFrame) -> Iterator[Bar]:
    """A better likelihood than one fitted scale at no cost to the mean, and no worse than those who take longer."""
    mean = scores.pivot_table(index="set", columns="method", values=["NLL", "MSE", "CAL", "seconds"], aggfunc="mean")
    above = mean["NLL"][DEFAULT] - mean["NLL"][PLAIN]
    better, case = mean["CAL"][DEFAULT] < mean["CAL"][PLAIN], f"{len(mean)} sets"
    yield Bar("share of sets with an NLL below one fitted scale", (above < 0).mean(), "≥", 0.9, case=case)
    yield from worst("NLL less that of one fitted scale", above, "≤", 0.02, cases="sets")
    yield from worst("MSE over the plain networks'", mean["MSE"][DEFAULT] / mean["MSE"][PLAIN], "≤", 1.01, cases="sets")
    yield Bar("share of sets with a better CAL", better.mean(), "≥", 0.9, case=case)
    yield Bar("NLL of the worst split", scores.loc[scores["method"] == DEFAULT, "NLL"].max(), "≤", 10)
    ranks = ranked(scores)
    for rival in (NGBOOST, ENSEMBLE):
        if rival in mean["NLL"]:
            yield Bar(f"mean rank, beside {rival}", ranks[DEFAULT], "≤", ranks[rival])
    if NGBOOST in mean["seconds"]:
        slower = mean["seconds"][DEFAULT] / mean["seconds"][NGBOOST]
        yield from worst("time over NGBoost's", slower, "≤", 1 / 3, cases="sets")


def ranked(scores: pd.DataFrame) -> pd.Series:
    """The mean rank over sets, of the default and those it has to be no worse than, by splits that all have seen."""
    nll = scores.pivot_table(index=["set", "split"], columns="method", values="NLL")
    shown = nll[[m for m in (DEFAULT, ENSEMBLE, NGBOOST) if m in nll]].dropna()
    return shown.groupby("set").mean().rank(axis=1).mean()


def judge_corruption(ratios: pd.DataFrame) -> Iterable[Bar]:
    """Close to training on clean rows wherever the plain networks are not."""
    mean = ratios.pivot_table(index=["set", "corruption"], columns="method", values="ratio", aggfunc="mean")
    hurt = mean[mean["plain"] > 1.5]["student_t"]
    return worst("MSE over that of clean training, by Student's t", hurt, "≤", 1.1)


def tables(scores: pd.DataFrame, ratios: pd.DataFrame) -> Iterator[Table]:
    """What was measured."""
    for measure, digits in (("NLL", 3), ("MSE", 4), ("CAL", 4)):
        frame = scores.pivot_table(index="set", columns="method", values=measure, aggfunc="mean", sort=False)
        yield Table(frame, f"Test {measure}, mean over splits.", best={tuple(frame.columns): "lower"}, digits=digits)
    nll = scores.pivot_table(index=["set", "split"], columns="method", values="NLL")
    paired = pd.DataFrame({m: (nll[DEFAULT] - nll[m]).groupby("set").agg(_with_error) for m in nll if m != DEFAULT})
    yield Table(paired, "NLL of the default less that of each other, with the standard error over splits.")
    yield Table(ranked(scores).to_frame("mean rank"), "Mean rank by NLL.", best={"mean rank": "lower"}, digits=2)
    time = scores.pivot_table(index="set", columns="method", values="seconds", aggfunc="median", sort=False)
    yield Table(time.div(time[DEFAULT], axis=0), "CPU seconds to fit and predict, over the default's.", digits=2)
    frame = ratios.pivot_table(
        index=["set", "corruption"], columns="method", values="ratio", aggfunc="mean", sort=False
    )
    yield Table(frame, "Test MSE over that of training on the clean rows only.", digits=2)


def _with_error(values: pd.Series) -> str:
    return f"{values.mean():+.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"
