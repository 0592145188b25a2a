"""What is checked where a target is named: wrong targets or labels, noise, calibration and leaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely.auditing._audit import Progress
from likely.auditing._calibration import classifier_calibration, regressor_calibration
from likely.auditing._changed_rows import Swap, fillings, has_gaps, spread_by_gaps, swaps
from likely.auditing._columns import MODELLED, Columns, as_numbers, design, for_a_line, ranked
from likely.auditing._exact import exact_values
from likely.auditing._finding import Finding
from likely.auditing._identities import Identity, confirmed
from likely.auditing._label_models import classify
from likely.auditing._labels import judge_labels, reconsider, wrong_labels
from likely.auditing._leaks import leaking_columns
from likely.auditing._out_of_fold import by_content
from likely.auditing._squash import Squash
from likely.auditing._target_models import FITTED, WIDE, regress
from likely.auditing._target_verdict import judge_targets
from likely.auditing._targets import wrong_targets

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
    identities: Sequence[Identity] = (),
) -> list[Finding]:
    """Findings about the target of a table; ``notes`` get what is to be told of it besides."""
    n = len(columns.typed)
    rows = np.flatnonzero(columns.typed[target].notna().to_numpy())
    if len(rows) < n:
        notes.append(f"{n - len(rows):,} rows have no {target}; they are not judged.")
    if len(rows) < _FEWEST:
        raise ValueError(f"only {len(rows)} rows have a {target}: {_FEWEST} or more are needed to judge it")
    X, _ = design(columns.typed, {name: kind for name, kind in columns.kinds.items() if name != target})
    if not X.shape[1]:
        raise ValueError(f"there is no column besides {target} that a model could read")
    names = [name for name in columns.named(*MODELLED) if name != target]
    rows = by_content(columns.typed[[target, *names]], rows)
    X, groups = X[rows], pd.factorize(groups[rows])[0]
    frame = _frame(columns, names, rows) if len(names) <= WIDE and len(rows) <= FITTED else X
    sums = [identity for identity in identities if target in identity.members]
    data = _Data(columns, target, rows, X, frame, groups, seed, progress, sums)
    return _regression(data) if task == "regression" else _classification(data)


class _Data(NamedTuple):
    """The rows that have a target: as numbers, and as a frame that the estimators of tables read."""

    columns: Columns
    target: str
    rows: NDArray[np.int64]
    X: NDArray[np.float32]
    frame: Any
    groups: NDArray[np.int64]
    seed: int
    progress: Progress
    sums: list[Identity]  # that the target is in

    def tell(self, share: float) -> None:
        """Say how far the models are."""
        self.progress("predicting out of fold", share)

    def leaks(self, y: Any, *, labels: bool) -> Finding:
        """The columns that tell the target by themselves."""
        self.progress("looking for leaks", 0.0)
        return leaking_columns(self.columns, self.target, y, self.rows, labels=labels, sums=self.sums)


def _regression(data: _Data) -> list[Finding]:
    target, rows, seed = data.target, data.rows, data.seed
    y = data.columns.typed[target].to_numpy(np.float64)[rows]
    squash = Squash.of(y)
    u = squash(y)
    forecast = regress(data.frame, u, seed, data.tell, data.groups)
    data.progress("judging targets", 0.0)
    widen = spread_by_gaps(data.frame, forecast.mean, forecast.again, seed)
    features = for_a_line(data.X)
    names = [target, *(name for name in data.columns.named("number") if name != target)]
    numbers = [data.columns.typed[name].to_numpy() for name in names]
    exact = exact_values(numbers, len(data.columns.typed), wanted=[0])[:, 0] | confirmed(data.sums, data.columns.typed)
    verdict = judge_targets(
        forecast.mean, u, features, seed, scale=forecast.scale, squash=squash, widen=widen, exact=exact[rows]
    )

    def swapped(places: NDArray[np.int64]) -> dict[int, list[Swap]]:
        known = verdict.predictable and isinstance(data.frame, pd.DataFrame)
        return swaps(data.frame, y, squash, forecast.again, places) if known else {}

    factor = verdict.scale if forecast.scale is None else verdict.scale / forecast.scale
    return [
        wrong_targets(verdict, u, squash, target, rows, len(data.columns.typed), swaps=swapped, factor=factor),
        regressor_calibration(forecast.mean, u, verdict),
        data.leaks(u, labels=False),
    ]


def _classification(data: _Data) -> list[Finding]:
    target, rows, seed = data.target, data.rows, data.seed
    codes, classes = ranked(data.columns.typed[target])
    most = min(_CLASSES, len(rows) // 2)
    if len(classes) > most:
        numeric = pd.api.types.is_numeric_dtype(data.columns.typed[target].dtype)
        remedy = "group them, or use task='regression'" if numeric else "group them"
        raise ValueError(f"{target} has {len(classes):,} classes, more than {most}: {remedy}")
    labels = codes[rows]
    forecast = classify(data.X, labels, seed, data.tell, data.groups)
    data.progress("judging labels", 0.0)
    verdict = judge_labels(forecast.log_p, labels, None, seed)
    gaps = np.flatnonzero((verdict.wrong > 0.5) & has_gaps(data.X))
    if len(gaps):
        filled = [np.exp(forecast.again(part)) for part in fillings(data.X, gaps, seed)]
        verdict = reconsider(verdict, labels, gaps, np.log(np.mean(filled, axis=0)))
    return [
        wrong_labels(verdict, labels, classes, rows, len(data.columns.typed)),
        classifier_calibration(forecast.log_p, labels, verdict),
        data.leaks(labels.astype(np.float64), labels=True),
    ]


def _frame(columns: Columns, names: list[str], rows: NDArray[np.int64]) -> pd.DataFrame:
    """Columns as the estimators of tables read them: numbers within reach, dates as times, categories as words."""
    parts: dict[str, Any] = {}
    for name in names:
        values = columns.typed[name].iloc[rows]
        if columns.kinds[name] == "number":
            parts[name] = as_numbers(values)[0]
        elif columns.kinds[name] == "date":
            parts[name] = pd.to_datetime(values.to_numpy(), unit="D", errors="coerce")
        else:
            parts[name] = values.to_numpy(object)
    return pd.DataFrame(parts)
