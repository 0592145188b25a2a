"""Priors that tune themselves, against strengths tuned by cross-validation and by those who know the truth."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.benchmarks._bars import result_of, worst
from experiments.benchmarks._robust_linear import run_robust
from experiments.benchmarks._robust_wide import run_wide
from experiments.benchmarks._timing import timed
from experiments.data import LinearProblem, list_regression, load_regression, make_linear
from experiments.entries import Bar, Context, Result
from experiments.entries.cores import one_core
from experiments.entries.parts import Table
from experiments.paper._recovery import known_support, oracle_lasso, oracle_ridge, recovery_error
from likely.linear import DynamicLasso, DynamicRegression, DynamicRidge, MultiLasso, SpikeSlabRegression

SHARES = (0.01, 0.05, 0.1, 0.3, 0.5)
ROWS = 4000  # of a real set, at most


@dataclass(frozen=True)
class Setting:
    """A problem to make."""

    n: int
    d: int
    share: float
    noise: float
    weights: str
    correlation: float = 0.0

    def make(self, seed: int) -> LinearProblem:
        """The problem of a seed."""
        return make_linear(**vars(self), seed=seed)


def run(context: Context) -> Result:
    """Recover known weights, predict real targets, and shrug off outliers, beside the peers."""
    seeds = range(1000 + context.seed, 1000 + context.seed + (3 if context.quick else 5))
    with one_core(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the peers'
        parts = [
            dense(seeds, context),
            sparse(seeds, context),
            transition(seeds, context),
            automatic(seeds, context),
            real(context),
        ]
        shared = (range(seeds.start, seeds.start + 5), context.quick, context.track)
        (robust, robust_bars), (wide, wide_bars) = run_robust(*shared), run_wide(*shared)
    tables = [table for table, _ in parts if len(table.frame)]
    return result_of(chain(*(bars for _, bars in parts), robust_bars, wide_bars), [*tables, *robust, *wide])


def dense(seeds: range, context: Context) -> tuple[Table, list[Bar]]:
    """Dynamic Ridge against the best strength, and against RidgeCV's time."""
    shapes = [(500, 500), (1000, 500)] if context.quick else [(500, 500), (1000, 500), (2000, 200)]
    settings = [Setting(n, d, 1.0, s, w) for (n, d), s, w in product(shapes, (1.0, 10.0), ("normal", "positive"))]
    rows = []
    for setting in context.track(settings):
        each = [
            {
                "Dynamic Ridge / oracle": _error(DynamicRidge(), problem) / oracle_ridge(problem),
                "RidgeCV / oracle": _error(RidgeCV(), problem) / oracle_ridge(problem),
                "times faster": _seconds(RidgeCV(), problem) / _seconds(DynamicRidge(), problem),
            }
            for problem in map(setting.make, seeds)
        ]
        rows.append({**vars(setting), **pd.DataFrame(each).median()})
    frame = pd.DataFrame(rows).set_index(["n", "d", "noise", "weights"])
    caption = f"Dense weights: error over that of the best λ, medians of {len(seeds)} seeds."
    return Table(frame, caption, digits=2), list(judge_dense(frame, judge_speed=not context.quick))


def judge_dense(frame: pd.DataFrame, *, judge_speed: bool) -> Iterator[Bar]:
    """Near the best strength, and faster than searching for it."""
    yield from worst("Dynamic Ridge, error over the oracle's", frame["Dynamic Ridge / oracle"], "≤", 1.05)
    fast = 1.5 if judge_speed else None
    yield from worst("Dynamic Ridge, faster than RidgeCV", frame["times faster"], "≥", fast, unit="×")


def sparse(seeds: range, context: Context) -> tuple[Table, list[Bar]]:
    """Dynamic Lasso, Multi Lasso and spike and slab against the best strength and against LassoCV's time."""
    models = {"Dynamic Lasso": DynamicLasso(), "Multi Lasso": MultiLasso(), "spike and slab": SpikeSlabRegression()}
    rows = []
    for share in context.track(SHARES[1:4] if context.quick else SHARES):
        setting, each = Setting(500, 500, share, 1.0, "signed"), []
        for problem in map(setting.make, seeds):
            taken = _seconds(LassoCV(), problem)
            found = {"oracle λ": oracle_lasso(problem), "known support": known_support(problem)}
            found |= {"LassoCV": _error(LassoCV(), problem)}
            for name, model in models.items():
                found |= {name: _error(model, problem), f"{name}, times faster": taken / _seconds(model, problem)}
            each.append(found)
        rows.append({"share": share, **pd.DataFrame(each).median()})
    frame = pd.DataFrame(rows).set_index("share")
    caption = f"500 × 500, noise 1, weights ±Uniform[1, 2]: error over |w|, medians of {len(seeds)} seeds."
    return Table(frame, caption, digits=3), list(judge_sparse(frame, judge_speed=not context.quick))


def judge_sparse(frame: pd.DataFrame, *, judge_speed: bool) -> Iterator[Bar]:
    """Near the best strength or far better than it, and faster than searching for it."""
    near = (frame["Dynamic Lasso"] / frame["oracle λ"])[frame.index >= 0.05]
    yield from worst("Dynamic Lasso, error over the oracle's", near, "≤", 1.1)
    best, of = frame[["Multi Lasso", "spike and slab"]].min(axis=1), "the best of Multi Lasso and spike and slab"
    yield from worst(f"{of}, better than the oracle λ", frame["oracle λ"] / best, "≥", 2, unit="×")
    yield from worst(f"{of}, error over that on the known support", best / frame["known support"], "≤", 1.2)
    for name, bar in (("Dynamic Lasso", 10), ("spike and slab", 8)):
        fast = bar if judge_speed else None
        yield from worst(f"{name}, faster than LassoCV", frame[f"{name}, times faster"], "≥", fast, unit="×")


def transition(seeds: range, context: Context) -> tuple[Table, list[Bar]]:
    """Spike and slab where the lasso fails."""
    cells = list(product(("positive", "normal", "signed"), (0.2, 0.225, 0.25), (0.1, 0.01)))
    rows = []
    for weights, share, noise in context.track(cells[::3] if context.quick else cells):
        problems = [Setting(250, 500, share, noise, weights).make(seed) for seed in seeds]
        each = [(oracle_lasso(p), known_support(p), _error(SpikeSlabRegression(), p)) for p in problems]
        oracle, known, ours = np.median(np.array(each), axis=0)
        rows.append((weights, share, noise, oracle, known, ours, np.median([o / s for o, _, s in each])))
    columns = ["weights", "share", "noise", "oracle λ", "known support", "spike and slab", "times better"]
    frame = pd.DataFrame(rows, columns=columns).set_index(columns[:3])
    caption = f"250 × 500: error over |w|, medians of {len(seeds)} seeds."
    return Table(frame, caption, digits=4), list(judge_transition(frame))


def judge_transition(frame: pd.DataFrame) -> Iterable[Bar]:
    """Only where the lasso fails is there a factor of fifty to be had."""
    below = frame[frame["oracle λ"] > 50 * frame["known support"]]
    name = "spike and slab below the transition, better than the oracle λ"
    return worst(name, below["times better"], "≥", 50, unit="×", cases="settings")


def automatic(seeds: range, context: Context) -> tuple[Table, list[Bar]]:
    """The prior chosen by evidence against the better of the best ridge and the best lasso."""
    grid = [
        Setting(n, d, share, noise, weights, correlation)
        for (n, d), share, noise, weights, correlation in product(
            ((200, 100), (300, 300), (150, 300)),
            (0.05, 0.3, 1.0),
            (0.5, 3.0),
            ("signed", "positive", "normal"),
            (0.0, 0.7),
        )
    ]
    rows = []
    for setting in context.track(grid[::9] if context.quick else grid):
        each, chosen = [], []
        for problem in map(setting.make, seeds):
            model = DynamicRegression().fit(problem.X, problem.y)
            each.append(recovery_error(problem, model.coef_) / min(oracle_ridge(problem), oracle_lasso(problem)))
            chosen.append(model.prior_)
        rows.append({**vars(setting), "ratio": np.median(each), "prior": max(set(chosen), key=chosen.count)})
    frame = pd.DataFrame(rows).set_index(["n", "d", "share", "noise", "weights", "correlation"])
    middle = frame["ratio"].median()
    caption = (
        f"Error over that of the better of the best ridge and the best lasso, medians of {len(seeds)} seeds; the "
        f"median of all {len(frame)} settings is {middle:.2f}. The ten worst:"
    )
    shown = frame.sort_values("ratio", ascending=False).head(10)
    return Table(shown, caption, digits=2), list(judge_automatic(frame))


def judge_automatic(frame: pd.DataFrame) -> Iterable[Bar]:
    """Near the better of the two oracles."""
    return worst("automatic prior, error over the better oracle's", frame["ratio"], "≤", 1.1, cases="settings")


def real(context: Context) -> tuple[Table, list[Bar]]:
    """Test error on real sets, beside cross-validation's."""
    names = list_regression(context.data)
    rows = [_predict(name, context) for name in context.track(names[:3] if context.quick else names)]
    if not rows:
        return Table(pd.DataFrame(), ""), []
    frame = pd.DataFrame(rows).set_index("set")
    return Table(frame, "Test error (MSE over the variance), means of 10 splits.", digits=4), list(judge_real(frame))


def judge_real(frame: pd.DataFrame) -> Iterator[Bar]:
    """As good as cross-validation."""
    peers = frame[["RidgeCV", "LassoCV"]].min(axis=1)
    for model in ("Dynamic Ridge", "automatic"):
        name = f"{model} on real sets, error over the better peer's"
        yield from worst(name, frame[model] / peers, "≤", 1.02, cases="sets")


def _predict(name: str, context: Context) -> dict[str, Any]:
    rows = load_regression(name, context.data)
    pick = np.random.default_rng(context.seed).permutation(len(rows.y))[:ROWS]
    X, y = rows.X[pick], rows.y[pick]
    models = {
        "RidgeCV": RidgeCV(np.logspace(-3, 5, 25)),
        "LassoCV": LassoCV(),
        "Dynamic Ridge": DynamicRidge(),
        "Dynamic Lasso": DynamicLasso(),
        "automatic": DynamicRegression(),
    }
    scores: dict[str, list[float]] = {label: [] for label in models}
    splits = ShuffleSplit(3 if context.quick else 10, test_size=0.2, random_state=context.seed)
    for train, test in splits.split(X):
        for label, model in models.items():
            pipe = make_pipeline(SimpleImputer(), StandardScaler(), model).fit(X[train], y[train])
            scores[label].append(float(((pipe.predict(X[test]) - y[test]) ** 2).mean() / y.var()))
    return {"set": name, **{label: float(np.mean(each)) for label, each in scores.items()}}


def _error(model: Any, problem: LinearProblem) -> float:
    coef: NDArray[np.float64] = model.fit(problem.X, problem.y).coef_
    return recovery_error(problem, coef)


def _seconds(model: Any, problem: LinearProblem) -> float:
    """CPU time of a fit, the least of three; a slow one is fitted once."""
    taken: list[float] = []
    for _ in range(3):
        taken.append(timed(lambda: model.fit(problem.X, problem.y))[1])
        if taken[0] > 0.5:
            break
    return min(taken)
