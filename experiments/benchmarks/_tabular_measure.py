"""Scores and times of each rival and of our estimators on one table in one split."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks._tabular_problems import Problem
from experiments.benchmarks._tabular_rivals import LIGHTGBM, MODULES, rivals
from experiments.benchmarks._tabular_scores import LEVEL, scores
from experiments.benchmarks._timing import timed
from experiments.entries.cores import one_core
from experiments.entries.digest import digest
from likely._files import replacing
from likely._page.machine import machine, version
from likely.tabular import LikelihoodClassifier, LikelihoodRegressor

OURS = "likely"
CORRUPTIONS = ("× 10", "swapped", "another row's")
WRONG = 0.05  # of the training targets
DISTRIBUTIONS = {**MODULES, "GP": "scikit-learn", "AutoGluon": "autogluon.tabular"}
Scores = dict[str, float]


class StoredScores:
    """Scores of rivals from earlier runs: they depend only on the table, the split and the library, and take hours.

    Times also depend on the machine; LightGBM, whose times are a bar, is fitted again on another machine.

    Args:
        folder: Where the file is written; None keeps the scores in memory only.
        stored: A file of scores to start with, in addition to that in the folder.
    """

    def __init__(self, folder: Path | None, stored: Path | None = None) -> None:
        self.path = folder / "tabular-rivals.json" if folder else None
        self.scores: dict[str, Scores] = {}
        for path in (stored, self.path):
            if path and path.exists():
                self.scores.update(json.loads(path.read_text()))

    def select(self, problem: Problem, split: int) -> dict[str, Scores]:
        """Return the known scores of a table in a split, by rival; of any version where it is not installed."""
        known_scores: dict[str, Scores] = {}
        for rival, distribution in DISTRIBUTIONS.items():
            name = key(rival, problem, split)
            if version(distribution) is None and rival != LIGHTGBM:
                start = name.removesuffix(str(None))
                name = max((stored for stored in self.scores if stored.startswith(start)), default=name)
            if name in self.scores:
                known_scores[rival] = self.scores[name]
        return known_scores

    def add(self, new_scores: Mapping[str, Scores]) -> None:
        """Add scores by key, and write the file."""
        self.scores.update(new_scores)
        if self.path is None or not new_scores:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as temporary:
            temporary.write_text(json.dumps(self.scores, indent=0, sort_keys=True) + "\n")


def key(rival: str, problem: Problem, split: int) -> str:
    """Name what the scores of a rival depend on: its version, the table and the split; for LightGBM the machine."""
    # As text: every version of pandas writes the same, and a rival may need another than ours.
    rows = b"".join(frame.to_csv(index=False).encode() for frame in (problem.X, problem.X_test))
    content = rows + problem.y.tobytes() + problem.y_test.tobytes()
    on = f" on {machine()['cpu']}" if rival == LIGHTGBM else ""
    return f"{problem.name}, split {split} ({digest(content)[:12]}): {rival} {version(DISTRIBUTIONS[rival])}{on}"


def measure(
    problem: Problem, split: int, names: tuple[str, ...], known_scores: Mapping[str, Scores]
) -> dict[str, Scores]:
    """Measure scores and CPU seconds of our estimator and of rivals.

    Args:
        problem: The table in a split.
        split: Its number.
        names: Which rivals to compare with, where installed.
        known_scores: Scores that need not be measured again.

    Returns:
        The scores by method, the known ones included.
    """
    results: dict[str, Scores] = {}
    with one_core(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results[OURS] = score_ours(problem, split)
        installed = rivals(problem, results[OURS]["seconds"])
        for name in names:
            if name in known_scores:
                results[name] = known_scores[name]
            elif name in installed:
                prediction, seconds = timed(partial(installed[name], problem))
                results[name] = {**scores(problem, prediction), "seconds": seconds}
    return results


def score_ours(problem: Problem, seed: int) -> Scores:
    """Measure scores and CPU seconds of the default estimators, fitted to the table without preparation."""
    if problem.kind == "classes":
        proba, seconds = timed(lambda: _proba(problem, seed))
        return {**scores(problem, proba), "seconds": seconds}

    def work() -> tuple[Any, ...]:
        model = LikelihoodRegressor(random_state=seed).fit(problem.X, problem.y)
        X = problem.X_test
        interval = model.predict_interval(X, LEVEL) if problem.kind == "regression" else None
        return model.predict_dist(X), np.asarray(model.predict(X)), interval

    prediction, seconds = timed(work)
    return {**scores(problem, *prediction), "seconds": seconds}


def _proba(problem: Problem, seed: int) -> NDArray[np.float64]:
    model = LikelihoodClassifier(random_state=seed).fit(problem.X, problem.y)
    proba = np.zeros((len(problem.X_test), problem.classes))
    proba[:, np.asarray(model.classes_, dtype=np.int64)] = model.predict_proba(problem.X_test)
    return proba


def corruption(problem: Problem, split: int) -> list[tuple[str, str, float]]:
    """Return set, kind and ratio of the test RMSE after training with 5% wrong targets to that with correct ones."""
    with one_core(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clean = _error(problem, problem, split)
        return [(problem.label, kind, _error(corrupted(problem, kind), problem, split) / clean) for kind in CORRUPTIONS]


def _error(train: Problem, test: Problem, seed: int) -> float:
    mean = LikelihoodRegressor(random_state=seed).fit(train.X, train.y).predict(test.X_test)
    return float(np.sqrt(np.mean(np.square(np.asarray(mean) - test.y_test))))


def corrupted(problem: Problem, kind: str) -> Problem:
    """Return the same table with one training target in twenty wrong.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"x": range(40)})
    >>> table = Problem("a", "regression", rows, np.arange(1, 41.0), rows, np.arange(40.0))
    >>> [int((corrupted(table, kind).y != table.y).sum()) for kind in CORRUPTIONS]
    [2, 2, 2]
    """
    rng = np.random.default_rng(5)
    order, count = rng.permutation(len(problem.y)), 2 * round(WRONG * len(problem.y) / 2)
    wrong, donors = order[:count], order[count : 2 * count]
    y = problem.y.copy()
    if kind == CORRUPTIONS[0]:
        y[wrong] *= 10
    else:
        y[wrong] = problem.y[np.roll(wrong, count // 2) if kind == CORRUPTIONS[1] else donors]
    return replace(problem, y=y)
