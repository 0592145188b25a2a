"""Classifiers on small tables some of whose labels are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

from experiments.benchmarks._bars import worst
from experiments.entries import Bar
from experiments.entries.cores import one_core
from experiments.entries.parts import Table
from likely.metrics import expected_calibration_error
from likely.tabular import NetworkClassifier

SETS = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}
NOISES = (0.0, 0.1, 0.2, 0.4)
KINDS = ("uniform", "by class")
PLAIN, OURS, CLEANLAB = "cross-entropy", "predicted temperature", "cleanlab"
COLUMNS = ["set", "noise", "kind", "seed", "method", "accuracy", "ECE", "AUPR"]


def jobs(quick: bool, seed: int) -> list[tuple[str, float, str, int]]:
    """Set, share of wrong labels, how they are chosen, seed."""
    seeds = range(seed + 100, seed + (101 if quick else 105))
    names, noises = (list(SETS)[1:], NOISES[:3:2]) if quick else (list(SETS), NOISES)
    every = [(name, noise, kind, s) for name in names for noise in noises for kind in KINDS for s in seeds]
    return [job for job in every if job[1] > 0 or job[2] == KINDS[0]]


def wrong_labels(y: NDArray[np.int64], noise: float, kind: str, rng: np.random.Generator) -> NDArray[np.int64]:
    """Any other class, or for every class the next one."""
    classes = int(y.max()) + 1
    shift = rng.integers(1, classes, size=len(y)) if kind == KINDS[0] else np.ones(len(y), dtype=np.int64)
    return np.where(rng.random(len(y)) < noise, (y + shift) % classes, y)


def measure(name: str, noise: float, kind: str, seed: int) -> list[tuple[Any, ...]]:
    """Accuracy on right labels, ECE on labels as wrong as those learned from, AUPR of the wrong ones among these."""
    X, y = SETS[name](return_X_y=True)
    rng = np.random.default_rng([seed, round(100 * noise)])
    given = wrong_labels(y, noise, kind, rng)
    X, X_test, given, given_test, y, y_test = train_test_split(
        X, given, y, test_size=0.3, random_state=seed, stratify=y
    )
    rows, wrong = [], given != y

    def score(method: str, model: NetworkClassifier) -> None:
        proba = model.predict_proba(X_test)
        found = average_precision_score(wrong, model.outlier_scores_) if wrong.any() else np.nan
        accuracy = np.mean(model.classes_[proba.argmax(1)] == y_test)
        rows.append((name, noise, kind, seed, method, accuracy, expected_calibration_error(given_test, proba), found))

    with one_core():
        settings: dict[str, Any] = {"random_state": seed}
        plain = NetworkClassifier(temperature="fixed", objective="joint", cv=None, max_steps=500, **settings)
        score(PLAIN, plain.fit(X, given))
        score(OURS, NetworkClassifier(**settings).fit(X, given))
        if wrong.any():
            rows += cleanlab(name, noise, kind, seed, X, given, wrong)
    return rows


def cleanlab(
    name: str, noise: float, kind: str, seed: int, X: NDArray[Any], given: NDArray[Any], wrong: NDArray[np.bool_]
) -> Iterator[tuple[Any, ...]]:
    """Its three scores on the probabilities that the same networks give rows they have not seen."""
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError:
        return
    proba = NetworkClassifier(temperature="fixed", random_state=seed).fit(X, given).out_of_fold_
    for method in ("self_confidence", "normalized_margin", "confidence_weighted_entropy"):
        score = -get_label_quality_scores(given, proba, method=method)
        found = average_precision_score(wrong, score)
        yield name, noise, kind, seed, f"{CLEANLAB}, {method.replace('_', ' ')}", np.nan, np.nan, found


def judge(labels: pd.DataFrame) -> Iterator[Bar]:
    """As accurate as cross-entropy and better calibrated, and wrong labels found as by cleanlab."""
    mean = labels.pivot_table(index=["set", "kind", "noise"], columns="method", values=["accuracy", "ECE", "AUPR"])
    accuracy, ece, found = mean["accuracy"], mean["ECE"], mean["AUPR"]
    yield from worst("accuracy less cross-entropy's", accuracy[OURS] - accuracy[PLAIN], "≥", 0)
    yield from worst("ECE over cross-entropy's", ece[OURS] / ece[PLAIN], "≤", 0.5)
    yield from worst("wrong labels at 20%, AUPR", found.xs(0.2, level="noise")[OURS], "≥", 0.8)
    for method in [m for m in found if m.startswith(CLEANLAB)]:
        yield Bar(f"wrong labels, mean AUPR less that of {method}", (found[OURS] - found[method]).mean(), "≥", 0)


def tables(labels: pd.DataFrame) -> Iterator[Table]:
    """What was measured."""
    for measure, caption in {
        "accuracy": "Accuracy on right labels.",
        "ECE": "ECE on test labels as often wrong as those learned from.",
        "AUPR": "Wrong labels among the training rows, found by networks that were blind to them.",
    }.items():
        frame = labels.pivot_table(index=["set", "kind", "noise"], columns="method", values=measure, sort=False)
        yield Table(frame.dropna(how="all").dropna(axis=1, how="all"), caption)
