"""The default regressor and classifier of tables, compared with other libraries.

Rivals: LightGBM, XGBoost and CatBoost (the last with a variance per row) cross-fitted on five folds, RealMLP with five
folds and the settings that its authors recommend, AutoGluon's best quality within ten times our time (at least a
minute), NGBoost, and a Gaussian process on 1,200 rows; each on one core. At most 5,000 training rows and 5,000 test
rows, in random splits. CRPS, NLL and RMSE are in units of the training targets' deviation, except the NLL of counts. On
sets marked *, defaults may have been chosen, in these splits or others; the bars of frames use only sets without *.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes

from experiments.benchmarks import _tabular_classes as classes, _tabular_million as million
from experiments.benchmarks._bars import result_of, worst
from experiments.benchmarks._tabular_classes import mean_scores
from experiments.benchmarks._tabular_measure import OURS, StoredScores, corruption, key, measure
from experiments.benchmarks._tabular_problems import Kind, Problem, list_problems, load_problem, split_of
from experiments.benchmarks._tabular_rivals import AUTOGLUON, CATBOOST, GP, LIGHTGBM, NGBOOST, REALMLP, XGBOOST
from experiments.data import Frame
from experiments.entries import Bar, Context, Result
from experiments.entries.parts import Table

STORED = Path(__file__).parent / "results" / "rivals" / "tabular.json"
SPLITS, MORE = 2, 5  # number of splits per set, and per small set, whose few test rows make scores noisy
SMALL = 2000  # number of rows below which a set is small
ROWS = 1000  # number of rows above which coverage has a bar
SOME_SECONDS = 1.25  # smallest time of LightGBM that counts: ours may always take 4 times as much, 5 s
SLOW = ("kin8nm", "wine white")  # sets where RealMLP is far better than trees, but takes minutes


class Group(NamedTuple):
    """Sets of one source and one kind, and the rivals to compare with."""

    kind: Kind
    frames: bool
    rivals: tuple[str, ...]


GROUPS = {
    "numbers": Group("regression", False, (LIGHTGBM, CATBOOST, XGBOOST, REALMLP, AUTOGLUON, NGBOOST, GP)),
    "classes": Group("classes", False, (LIGHTGBM, CATBOOST, XGBOOST, REALMLP, AUTOGLUON)),
    "frames": Group("regression", True, (LIGHTGBM, CATBOOST, XGBOOST, REALMLP, AUTOGLUON, NGBOOST)),
    "classes of frames": Group("classes", True, (LIGHTGBM, CATBOOST, XGBOOST, REALMLP, AUTOGLUON)),
    "counts": Group("counts", True, (LIGHTGBM, CATBOOST, XGBOOST)),
}


def run(context: Context) -> Result:
    """Measure all sets, splits and methods, then training with wrong targets, then a million rows."""
    stored = StoredScores(context.units, STORED)
    rows: list[dict[str, Any]] = []
    jobs = list(find_jobs(context))
    work = (
        joblib.delayed(measure)(problem, split, rivals, stored.select(problem, split))
        for _, problem, split, rivals in jobs
    )
    results = joblib.Parallel(n_jobs=-1, return_as="generator")(work)
    for number, ((group, problem, split, _), results_by_method) in enumerate(zip(jobs, results, strict=True), start=1):
        stored.add({key(rival, problem, split): row for rival, row in results_by_method.items() if rival != OURS})
        columns = {"group": group, "set": problem.label, "split": split, "rows": len(problem.y) + len(problem.y_test)}
        columns["chosen on"] = problem.chosen_on
        rows += [{**columns, "method": method, **row} for method, row in results_by_method.items()]
        context.progress(0.8 * number / len(jobs))
    dirty = [(problem, split) for group, problem, split, _ in jobs if group == "numbers" and split == context.seed]
    wrong = [
        row for part in joblib.Parallel(n_jobs=-1)(joblib.delayed(corruption)(*job) for job in dirty) for row in part
    ]
    context.progress(0.95)
    scores = pd.DataFrame(rows)
    ratios = pd.DataFrame(wrong, columns=["set", "targets", "ratio"]).set_index(["set", "targets"])
    bars = [*judge(scores), *worst("wrong targets: RMSE over that of clean training", ratios["ratio"], "≤", 1.1)]
    return result_of([*bars, *million.bars(context.quick)], (*tables(scores), _wrong_table(ratios)))


def find_jobs(context: Context) -> Iterator[tuple[str, Problem, int, tuple[str, ...]]]:
    """Yield group, table, split and rivals; in a quick run, or without data, two tables that are always available."""
    sets = {name: list_problems(group.kind, frames=group.frames, data=context.data) for name, group in GROUPS.items()}
    if context.quick or not any(sets.values()):
        for group, load in {"numbers": load_diabetes, "classes": load_breast_cancer}.items():
            X, y = load(return_X_y=True, as_frame=True)
            frame = Frame(load.__name__.removeprefix("load_"), X, y.to_numpy(), GROUPS[group].kind)
            yield group, split_of(frame, context.seed), context.seed, (LIGHTGBM,)
        return
    for group, names in sets.items():
        for name in names:
            problem = load_problem(name, context.seed, context.data)
            splits = MORE if len(problem.y) + len(problem.y_test) < SMALL else SPLITS
            yield group, problem, context.seed, GROUPS[group].rivals
            for split in range(context.seed + 1, context.seed + splits):
                yield group, load_problem(name, split, context.data), split, GROUPS[group].rivals


def judge(scores: pd.DataFrame) -> Iterator[Bar]:
    """Yield the bars of every measured group of sets, then those of the time."""
    groups = {str(group): part for group, part in scores.groupby("group", sort=False)}
    if "numbers" in groups:
        yield from judge_numbers(groups["numbers"])
    if "classes" in groups:
        yield from classes.judge(groups["classes"])
    unseen = {group: part[~part["chosen on"].astype(bool)] for group, part in groups.items()}
    if len(part := unseen.get("frames", scores[:0])) and LIGHTGBM in set(part["method"]):
        ratio, nll = _over_lightgbm(part, "CRPS"), mean_scores(part, "NLL")
        case = f"{len(ratio)} frames"
        yield Bar("frames: CRPS over LightGBM's, geometric mean", _geometric(ratio), "≤", 0.9, case=case)
        yield Bar("frames: NLL below LightGBM's, share", (nll[OURS] < nll[LIGHTGBM]).mean(), "≥", 0.9, case=case)
    if len(part := unseen.get("classes of frames", scores[:0])) and LIGHTGBM in set(part["method"]):
        ratio = _over_lightgbm(part, "log-loss")
        case = f"{len(ratio)} frames"
        yield Bar("frames: log-loss over LightGBM's, geometric mean", _geometric(ratio), "≤", 0.97, case=case)
    if "counts" in groups and LIGHTGBM in set(groups["counts"]["method"]):
        below = [_over_lightgbm(groups["counts"], measure) < 1 for measure in ("deviance", "CRPS")]
        case = f"of {len(below[0])}"
        yield Bar(
            "counts: tables with deviance and CRPS below LightGBM's", (below[0] & below[1]).sum(), "≥", 3, case=case
        )
    yield from judge_time(scores)


def judge_numbers(scores: pd.DataFrame) -> Iterator[Bar]:
    """Yield bars against the best rival of each set, and of the share of targets in 90% intervals."""
    mean = {measure: mean_scores(scores, measure) for measure in ("CRPS", "NLL", "RMSE", "coverage")}
    if mean["CRPS"].shape[1] > 1:
        best = {measure: frame.drop(columns=OURS).min(axis=1) for measure, frame in mean.items()}
        crps, rmse = (mean[measure][OURS] / best[measure] for measure in ("CRPS", "RMSE"))
        excess = mean["NLL"][OURS] - best["NLL"]
        case = f"{len(crps)} sets"
        yield Bar("CRPS over the best rival's, geometric mean", _geometric(crps), "≤", 1.02, case=case)
        yield from worst("CRPS over the best rival's", crps, "≤", 1.08, cases="sets")
        yield Bar("NLL below every rival's, share of sets", (excess < 0).mean(), "≥", 0.7, case=case)
        yield from worst("NLL less the best rival's", excess, "≤", 0.03, cases="sets")
        yield Bar("RMSE over the best rival's, geometric mean", _geometric(rmse), "≤", 1.03, case=case)
    large = scores.groupby("set")["rows"].max() > ROWS
    covered = mean["coverage"][OURS][large[large].index.intersection(mean["coverage"].index)]
    yield from worst("90% intervals, lowest coverage", covered, "≥", 0.87, cases="sets")
    yield from worst("90% intervals, highest coverage", covered, "≤", 0.93, cases="sets")


def judge_time(scores: pd.DataFrame) -> Iterator[Bar]:
    """Yield bars of the time against LightGBM's, and of accuracy against RealMLP's where that takes minutes."""
    seconds, crps = mean_scores(scores, "seconds"), mean_scores(scores, "CRPS") if "CRPS" in scores else pd.DataFrame()
    if LIGHTGBM in seconds:
        slower = seconds[OURS] / seconds[LIGHTGBM].clip(lower=SOME_SECONDS)
        case = f"{len(slower.dropna())} sets; LightGBM's, or {SOME_SECONDS} s where that is more"
        yield Bar("time over LightGBM's, median", slower.median(), "≤", 4, "×", case=case)
    slow = [name for name in seconds.index if name.removesuffix("*") in SLOW]
    if REALMLP in crps and slow:
        ratio = crps.loc[slow, OURS] / crps.loc[slow, REALMLP]
        yield from worst("CRPS over RealMLP's where trees are behind", ratio, "≤", 1)
        yield from worst("seconds where RealMLP takes minutes", seconds.loc[slow, OURS], "≤", 40, unit=" s")


def tables(scores: pd.DataFrame) -> Iterator[Table]:
    """Yield the tables of scores, group by group, then of the seconds."""
    shown = {"numbers": ("CRPS", "NLL", "RMSE"), "frames": ("CRPS", "NLL", "RMSE"), "counts": ("deviance", "CRPS")}
    for name, part in scores.groupby("group", sort=False):
        if "classes" in str(name):
            yield from classes.tables(part, str(name).capitalize())
        for score in shown.get(str(name), ()):
            frame = mean_scores(part, score)
            caption = f"{str(name).capitalize()}: {score}, mean over splits."
            yield Table(frame, caption, best={tuple(frame.columns): "lower"})
        if "coverage" in part and str(name) in ("numbers", "frames"):
            yield Table(mean_scores(part, "coverage"), f"{str(name).capitalize()}: targets in 90% intervals.")
    caption = "CPU seconds to fit and predict; of rivals whose scores are stored, on the machine they were measured on."
    yield Table(mean_scores(scores, "seconds"), caption, digits=1)


def _wrong_table(ratios: pd.DataFrame) -> Table:
    frame = ratios["ratio"].unstack(sort=False)
    return Table(frame, "Test RMSE with 5% of the training targets wrong, over that of clean training.", digits=2)


def _over_lightgbm(scores: pd.DataFrame, measure: str) -> pd.Series:
    mean = mean_scores(scores, measure)
    return (mean[OURS] / mean[LIGHTGBM]).dropna()


def _geometric(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean()))
