"""What is checked where a target is named: wrong targets or labels, noise, calibration and leaks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely.auditing._audit import Progress
from likely.auditing._calibration import classifier_calibration, regressor_calibration
from likely.auditing._columns import MODELLED, Columns, design, for_a_line, ranked
from likely.auditing._finding import Finding
from likely.auditing._labels import judge_labels, wrong_labels
from likely.auditing._leaks import leaking_columns
from likely.auditing._noise import noisy_regions
from likely.auditing._out_of_fold import by_content, classify, regress
from likely.auditing._targets import Squash, judge_targets, wrong_targets

_CLASSES = 100  # more are no classification
_FEWEST = 20  # rows with a target that a model can be fitted to


def check_target(
    columns: Columns,
    groups: NDArray[np.int64],
    target: str,
    task: str,
    seed: int,
    progress: Progress,
    notes: list[str],
) -> list[Finding]:
    """Findings about the target of a table; ``notes`` get what is to be told of it besides."""
    n = len(columns.typed)
    rows = np.flatnonzero(columns.typed[target].notna().to_numpy())
    if len(rows) < n:
        notes.append(f"{n - len(rows):,} rows have no {target}; they are not judged by it.")
    if len(rows) < _FEWEST:
        raise ValueError(f"only {len(rows)} rows have a {target}: {_FEWEST} or more are needed to judge it")
    X, _ = design(columns.typed, {name: kind for name, kind in columns.kinds.items() if name != target})
    if not X.shape[1]:
        raise ValueError(f"there is no column besides {target} that a model could read")
    rows = by_content(columns.typed[[target, *(name for name in columns.named(*MODELLED) if name != target)]], rows)
    X, groups = X[rows], pd.factorize(groups[rows])[0]

    def tell(share: float) -> None:
        progress("predicting out of fold", share)

    def leaks(y: Any, *, labels: bool) -> Finding:
        progress("looking for leaks", 0.0)
        return leaking_columns(columns, target, y, rows, labels=labels)

    if task == "regression":
        y = columns.typed[target].to_numpy(np.float64)[rows]
        squash = Squash.of(y)
        u = squash(y)
        mean = regress(X, u, seed, tell, groups)
        progress("judging targets", 0.0)
        judged = judge_targets(mean, u, for_a_line(X), seed)
        noise = np.minimum(np.abs(u - mean), 8 * np.median(np.abs(u - mean))) * (1 - judged.wrong)
        return [
            wrong_targets(judged, u, squash, target, rows, n),
            noisy_regions(columns, {target}, rows, noise, f"the scatter of {target}"),
            regressor_calibration(mean, u, judged),
            leaks(u, labels=False),
        ]
    codes, classes = ranked(columns.typed[target])
    most = min(_CLASSES, len(rows) // 2)
    if len(classes) > most:
        numeric = pd.api.types.is_numeric_dtype(columns.typed[target].dtype)
        remedy = "group them, or use task='regression'" if numeric else "group them"
        raise ValueError(f"{target} has {len(classes):,} classes, more than {most}: {remedy}")
    labels = codes[rows]
    logits = classify(X, labels, seed, tell, groups)
    progress("judging labels", 0.0)
    verdict = judge_labels(logits, labels, None, seed)
    noise = np.minimum(verdict.nll, 5.0) * (1 - verdict.wrong)
    return [
        wrong_labels(verdict, labels, classes, rows, n),
        noisy_regions(columns, {target}, rows, noise, f"the uncertainty of {target}"),
        classifier_calibration(logits, labels, verdict),
        leaks(labels.astype(np.float64), labels=True),
    ]
