"""Whether a second table is from where the first is: can trees tell their rows apart, and by which columns?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, ks_2samp, norm
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from likely._page import Table as Shown
from likely.auditing._columns import MODELLED, Columns, design, read_columns
from likely.auditing._duplicates import ORDINARY
from likely.auditing._finding import Finding, number
from likely.auditing._source import Table, listed
from likely.auditing.checks._many import SURE, holm

_ROWS = 10_000  # of each table that trees and tests look at
_FOLDS, _ROUNDS = 5, 40
_FEWEST = 20  # rows of each table
_CLEAR = 0.1  # of distance between two distributions (Kolmogorov's, or total variation): less is named as slight
_EXPECTED = 5.0  # rows of a level by chance: rarer levels are taken together
_SHOWN = 15
_TOLD = 3  # columns in the sentence


class Difference(NamedTuple):
    """How a column differs between two tables."""

    p_value: float
    distance: float
    words: str


def drift(frame: pd.DataFrame, test: Table, target: str | None, id: str | None = None) -> Finding:
    """Compare a second table with the first, as a whole and by column."""
    shared = [name for name in frame.columns if name in test.frame.columns and name != id]
    missing = [str(name) for name in frame.columns if name not in test.frame.columns and name not in (target, id)]
    extra = [str(name) for name in test.frame.columns if name not in frame.columns]
    title = "Drift between the two tables"
    parts = [f"{test.name} lacks {listed(missing)}."] if missing else []
    parts += [f"Only {test.name} has {listed(extra)}."] if extra else []
    numbers: dict[str, Any] = {"missing": missing, "extra": extra}
    if min(len(frame), len(test.frame)) < _FEWEST:
        parts.append(f"There are fewer than {_FEWEST} rows in one of the tables, so they are not compared.")
        return Finding("drift", title, " ".join(parts), numbers=numbers, judged=False)
    ours, theirs = _some(frame[shared]), _some(test.frame[shared])
    both = read_columns(pd.concat([ours, theirs], ignore_index=True))
    second = np.arange(len(ours) + len(theirs)) >= len(ours)
    differences = {
        name: differs(both.typed[name], both.kinds[name], second, test.name) for name in both.named(*MODELLED)
    }
    p = dict(zip(differences, holm([difference.p_value for difference in differences.values()]), strict=True))
    moved = sorted((name for name in differences if p[name] < SURE), key=lambda name: -differences[name].distance)
    auc, error = told_apart(both, second, {target} if target else set())
    parts.insert(0, _verdict(auc, error, test.name))
    parts += [differences[name].words + "." for name in moved[:_TOLD]]
    if len(moved) > _TOLD:
        more = len(moved) - _TOLD
        parts.append(f"{more:,} more columns differ." if more > 1 else "One more column differs.")
    if not moved:
        parts.append("No single column differs.")
    lines = pd.DataFrame(
        {
            "what differs": [differences[name].words for name in moved],
            "distance": [differences[name].distance for name in moved],
            "p, corrected": [f"{p[name]:.2g}" for name in moved],
        },
        index=pd.Index(moved, name="column"),
    ).head(_SHOWN)
    return Finding(
        "drift",
        title,
        " ".join(parts),
        numbers={
            **numbers,
            "auc": round(auc, 4),
            "error": round(error, 4),
            "columns": {name: round(differences[name].distance, 4) for name in moved},
        },
        tables=(Shown(lines, f"Columns that differ in {test.name}, 0 for not at all and 1 for entirely.", digits=2),)
        if moved
        else (),
    )


def _verdict(auc: float, error: float, name: str) -> str:
    shown = f"AUC {auc:.2f} ± {error:.2f}"
    if norm.sf((auc - 0.5) / max(error, 1e-12)) >= SURE:
        return f"A classifier (trees) cannot distinguish rows of {name} from these ({shown}, by chance 0.50)."
    how = "hardly" if auc < 0.6 else "to some extent" if auc < 0.8 else "well"
    return f"A classifier (trees) distinguishes rows of {name} from these {how} ({shown}, by chance 0.50)."


def _some(frame: pd.DataFrame) -> pd.DataFrame:
    return frame if len(frame) <= _ROWS else frame.sample(_ROWS, random_state=0)


def told_apart(both: Columns, second: NDArray[np.bool_], leave_out: set[str]) -> tuple[float, float]:
    """Cross-validate trees that tell the rows of two tables apart."""
    kinds = {name: kind for name, kind in both.kinds.items() if name not in leave_out}
    X, _ = design(both.typed, kinds)
    if not X.shape[1]:
        return 0.5, 0.0
    aucs = []
    for fit, held in _folds(both.typed[[name for name in both.named(*MODELLED) if name in kinds]], second):
        trees = HistGradientBoostingClassifier(
            max_iter=_ROUNDS, max_leaf_nodes=15, learning_rate=0.15, early_stopping=False, random_state=0
        )
        scores = trees.fit(X[fit], second[fit]).predict_proba(X[held])[:, 1]
        # Levels of different folds are not comparable: an AUC of all folds together would be too low.
        aucs.append(roc_auc_score(second[held], scores))
    auc = float(np.mean(aucs))
    m, n = int(second.sum()), int((~second).sum())
    q1, q2 = auc / (2 - auc), 2 * auc * auc / (1 + auc)
    variance = (auc * (1 - auc) + (m - 1) * (q1 - auc * auc) + (n - 1) * (q2 - auc * auc)) / (m * n)
    overlap = 1 + _FOLDS / (_FOLDS - 1)
    return auc, float(np.sqrt(max(variance, 0.0) * overlap))


def _folds(table: pd.DataFrame, second: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows to fit and rows held out; a row of both tables is in one fold, or trees would take it for the other's."""
    rows = pd.util.hash_pandas_object(table, index=False).to_numpy()
    here, there = rows[~second], rows[second]
    copies = max(float(pd.Series(part).duplicated().mean()) for part in (here, there))
    if copies < ORDINARY and np.isin(there, here).any():
        return StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=0).split(rows, second, rows)
    return StratifiedKFold(_FOLDS, shuffle=True, random_state=0).split(rows, second)


def differs(column: pd.Series[Any], kind: str, second: NDArray[np.bool_], name: str) -> Difference:
    """Compare one column of two tables.

    >>> rng = np.random.default_rng(0)
    >>> age = pd.Series(np.r_[rng.normal(30, 5, 300), rng.normal(47, 5, 300)].round(), name="age")
    >>> differs(age, "number", np.arange(600) >= 300, "test.csv").words
    'age is higher in test.csv: median 47, here 30'
    """
    gap = column.isna().to_numpy()
    here, there = float(gap[~second].mean()), float(gap[second].mean())
    table = np.array([[np.sum(gap & (second == side)), np.sum(~gap & (second == side))] for side in (False, True)])
    gaps = float(chi2_contingency(table, correction=False).pvalue) if table.sum(0).min() >= _EXPECTED else 1.0
    by_value = _levels if kind == "category" else _numbers
    of_values = by_value(column[~gap], second[~gap], name, dates=kind == "date")
    p = min(1.0, 2 * min(gaps, of_values.p_value))
    if gaps < of_values.p_value and abs(there - here) > of_values.distance:
        return Difference(
            p, abs(there - here), f"{column.name} is missing in {there:.0%} of {name}, here in {here:.0%}"
        )
    return Difference(p, of_values.distance, of_values.words)


def _numbers(column: pd.Series[Any], second: NDArray[np.bool_], name: str, *, dates: bool) -> Difference:
    values = column.to_numpy(np.float64)
    a, b = values[~second], values[second]
    if not len(a) or not len(b):
        return Difference(1.0, 0.0, "")
    test = ks_2samp(a, b, method="asymp")
    quartiles = [np.quantile(part, [0.25, 0.5, 0.75]) for part in (a, b)]
    shift, width = quartiles[1][1] - quartiles[0][1], [float(part[2] - part[0]) for part in quartiles]
    shown = [_date(float(part[1])) if dates else number(float(part[1])) for part in quartiles]
    if test.statistic < _CLEAR:
        words = f"{column.name} differs slightly in {name}: median {shown[1]}, here {shown[0]}"
    elif shift and abs(shift) >= 0.2 * max(*width, 1e-300):
        how = ("later" if shift > 0 else "earlier") if dates else ("higher" if shift > 0 else "lower")
        words = f"{column.name} is {how} in {name}: median {shown[1]}, here {shown[0]}"
    elif max(width) > 1.2 * max(min(width), 1e-300):
        how = "wider" if width[1] > width[0] else "narrower"
        words = f"{column.name} is spread {how} in {name}: half of the rows within {number(width[1])}, here "
        words += number(width[0])
    else:
        words = f"{column.name} is distributed differently in {name}"
    return Difference(float(test.pvalue), float(test.statistic), words)


def _date(day: float) -> str:
    return f"{pd.Timestamp('1970-01-01') + pd.Timedelta(days=min(max(day, -1e5), 1e5)):%Y-%m-%d}"


def _levels(column: pd.Series[Any], second: NDArray[np.bool_], name: str, *, dates: bool) -> Difference:
    del dates
    codes, levels = pd.factorize(column)
    counts = np.array([np.bincount(codes[second == side], minlength=len(levels)) for side in (False, True)])
    if not counts.sum(1).all() or len(levels) < 2:
        return Difference(1.0, 0.0, "")
    expected = counts.sum(0) * counts.sum(1).min() / counts.sum()
    rare = expected < _EXPECTED
    merged = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)])
    merged = merged[:, merged.sum(0) > 0]
    p = float(chi2_contingency(merged, correction=False).pvalue) if merged.shape[1] > 1 else 1.0
    shares = merged / merged.sum(1, keepdims=True)
    distance = float(0.5 * np.abs(shares[0] - shares[1]).sum())
    new = np.flatnonzero((counts[0] == 0) & (counts[1] > 0))
    share_new = counts[1, new].sum() / counts[1].sum()
    if len(new) and share_new > 0.5 * distance:
        named = listed([f"{levels[j]} ({counts[1, j]:,})" for j in new[np.argsort(-counts[1, new])]], most=3)
        return Difference(p, distance, f"{column.name} has new levels in {name}: {named}")
    all_shares = counts / counts.sum(1, keepdims=True)
    j = int(np.argmax(np.abs(all_shares[0] - all_shares[1])))
    words = f"{column.name} is {levels[j]} in {all_shares[1, j]:.0%} of {name}, here in {all_shares[0, j]:.0%}"
    return Difference(p, distance, words)
