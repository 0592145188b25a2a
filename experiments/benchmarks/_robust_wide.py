"""Robust regression with thirty columns, where random samples without outliers are rare, beside its peers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import HuberRegressor, LinearRegression, RANSACRegressor, TheilSenRegressor

from experiments.benchmarks._bars import worst
from experiments.benchmarks._robust_linear import NOISE, OURS, Tukey, measured
from experiments.entries import Bar
from experiments.entries.cores import one_core
from experiments.entries.parts import Table
from likely.linear import RobustLinearRegression

Array = NDArray[np.float64]
ROWS, COLUMNS = 1000, 30
KINDS = ("clean", "moved targets", "wrong inputs", "mixed units")
SHARES = (0.2, 0.4)
NEAR_PEERS = 1.5


@one_core()
def run_wide(seeds: range, quick: bool, track: Callable[[list[Any]], Iterable[Any]]) -> tuple[list[Table], list[Bar]]:
    """Two tables, of errors and of times, and bars; quick takes one seed and one share."""
    seeds, shares = (seeds[:1], SHARES[-1:]) if quick else (seeds, SHARES)
    cells = [("clean", 0.0), *((kind, share) for kind in KINDS[1:] for share in shares)]
    lines = [pd.DataFrame([one(kind, share, seed) for seed in seeds]) for kind, share in track(cells)]
    index = pd.MultiIndex.from_tuples(cells, names=["wrong", "share"])
    medians = pd.DataFrame([frame.median() for frame in lines]).set_index(index)
    found = {part: medians[[name for name in medians if name[1] == part]] for part in ("error", "seconds")}
    errors, times = (frame.rename(columns=lambda name: name[0]) for frame in found.values())
    warned = pd.Series([frame[(OURS, "warned")].mean() for frame in lines], index)
    times = times[OURS].mul(1e3).to_frame(f"{OURS} ms").join(times.drop(columns=OURS).div(times[OURS], axis=0))
    told = f"medians of {len(seeds)} seeds, {ROWS} rows, {COLUMNS} columns"
    return [
        Table(
            errors.assign(warned=warned),
            f"Error of the coefficients over their length, {told}. In a share of the rows the target is moved by 50, "
            "one column is another number around 10, or one column is 1000 times as large. RANSAC knows the noise and "
            "takes a thousand samples; MM and RLM (statsmodels, Tukey's norm), Huber and Theil-Sen have their "
            "defaults. Warned: share of the seeds in which ours says that another line fits about as well.",
            {tuple(errors.columns): "lower"},
            digits=4,
        ),
        Table(times, f"CPU time of the same fits over ours, in one process on one core: {told}.", digits=2),
    ], list(judge(errors))


def problem(kind: str, share: float, seed: int) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    """Inputs, targets, true coefficients with the intercept last, and which rows are wrong."""
    rng = np.random.default_rng([seed, KINDS.index(kind), round(100 * share)])
    X, truth = rng.normal(size=(ROWS, COLUMNS)), rng.normal(size=COLUMNS + 1)
    y = X @ truth[:-1] + truth[-1] + NOISE * rng.normal(size=ROWS)
    bad = rng.permutation(ROWS) < share * ROWS
    if kind == "moved targets":
        y[bad] += 50
    elif kind == "wrong inputs":
        X[bad, 0] = 10 + rng.normal(size=bad.sum())
    elif kind == "mixed units":
        X[bad, 0] *= 1000
    return X, y, truth, bad


def methods(seed: int) -> dict[str, Callable[[Array, Array], Any]]:
    """Ours and the peers that are installed, as functions that fit."""
    ransac = RANSACRegressor(residual_threshold=3 * NOISE, max_trials=1000, random_state=seed)
    found: dict[str, Callable[[Array, Array], Any]] = {
        OURS: RobustLinearRegression(random_state=seed).fit,
        "least squares": LinearRegression().fit,
        "Huber": HuberRegressor(max_iter=1000).fit,
        "RANSAC": ransac.fit,
        "Theil-Sen": TheilSenRegressor(random_state=seed).fit,
    }
    if find_spec("statsmodels"):
        return found | {"RLM": Statsmodels("RLM").fit, "MM": Statsmodels("RLMDetSMM").fit}
    return found | {"MM": Tukey(4.685, seed).fit}


class Statsmodels:
    """A robust regression of statsmodels with Tukey's norm."""

    def __init__(self, name: str) -> None:
        self.name = name

    def fit(self, X: Array, y: Array) -> Statsmodels:
        """Fit a line with an intercept."""
        from statsmodels.robust.norms import TukeyBiweight
        from statsmodels.robust.resistant_linear_model import RLMDetSMM
        from statsmodels.robust.robust_linear_model import RLM

        design, norm = np.column_stack([np.ones(len(X)), X]), TukeyBiweight()
        model = RLM(y, design, M=norm) if self.name == "RLM" else RLMDetSMM(y, design, norm=norm)
        self.intercept_, *self.coef_ = model.fit().params
        return self


def one(kind: str, share: float, seed: int) -> dict[tuple[str, str], float]:
    """Errors and times of all methods on one table, and whether ours warned."""
    X, y, truth, _ = problem(kind, share, seed)
    found: dict[tuple[str, str], float] = {}
    for name, fit in methods(seed).items():
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            error, seconds = measured(fit, X, y, truth)
        found |= {(name, "error"): error, (name, "seconds"): seconds}
        if name == OURS:
            found[OURS, "warned"] = float(len(raised) > 0)
    return found


def judge(errors: pd.DataFrame) -> Iterator[Bar]:
    """Near the best peer in every cell."""
    over = errors[OURS] / errors.drop(columns=OURS).min(axis=1)
    yield from worst(f"robust regression, {COLUMNS} columns, error over the best peer's", over, "≤", NEAR_PEERS)
