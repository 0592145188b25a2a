"""Whether a second table is from where the first is: can trees tell their rows apart, and by which columns?"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import ks_2samp, norm
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, cross_val_score

from likely._page import Table as Shown
from likely._rows.reading.table import Table, counted, listed
from likely._typing import Mask
from likely.auditing.checks.significance import SURE, compare_levels, holm
from likely.auditing.columns.kinds import MODELLED, Columns, design, ranked, read_columns
from likely.auditing.results.finding import Finding, number

MAX_ROWS = 10_000  # of each table that trees and tests look at
_FOLDS, _ROUNDS = 5, 40
_FEWEST = 20  # rows of each table
_QUARTILES = (0.25, 0.5, 0.75)
_SHIFT = 0.2  # of the distance of the quartiles: less is no shift
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
    parts = [f"{test.name} lacks {listed(missing)}."] if missing else []
    parts += [f"Only {test.name} has {listed(extra)}."] if extra else []
    told = partial(Finding, "drift", "Drift between the two tables")
    numbers: dict[str, Any] = {"missing": missing, "extra": extra}
    if min(len(frame), len(test.frame)) < _FEWEST:
        parts.append(f"There are fewer than {_FEWEST} rows in one of the tables, so they are not compared.")
        return told(" ".join(parts), numbers=numbers, judged=False)
    ours, theirs = _some(frame[shared]), _some(test.frame[shared])
    both = read_columns(pd.concat([ours, theirs], ignore_index=True))
    second = np.arange(len(both.typed)) >= len(ours)
    auc, error = told_apart(both, second, {target} if target else set())
    names = both.named(*MODELLED)
    differences = [differs(both.typed[name], both.kinds[name], second, test.name) for name in names]
    moved = pd.DataFrame(differences, index=pd.Index(names, name="column", dtype=object))
    moved["p"] = holm(moved["p_value"])
    moved = moved[moved["p"] < SURE].sort_values("distance", ascending=False, kind="stable")
    words = [f"{sentence}." for sentence in moved["words"][:_TOLD]] or ["No single column differs."]
    words += (
        [f"{counted(len(moved) - _TOLD, 'more column differs', 'more columns differ')}."] if len(moved) > _TOLD else []
    )
    moved["p, corrected"] = moved["p"].map("{:.2g}".format)
    lines = moved.rename(columns={"words": "what differs"})[["what differs", "distance", "p, corrected"]].head(_SHOWN)
    caption = f"Columns that differ in {test.name}, 0 for not at all and 1 for entirely."
    return told(
        " ".join([_verdict(auc, error, test.name), *parts, *words]),
        numbers={
            **numbers,
            "auc": round(auc, 4),
            "error": round(error, 4),
            "columns": moved["distance"].round(4).to_dict(),
        },
        tables=(Shown(lines, caption, digits=2),) if len(moved) else (),
    )


def _some(frame: pd.DataFrame) -> pd.DataFrame:
    return frame if len(frame) <= MAX_ROWS else frame.sample(MAX_ROWS, random_state=0)


def _verdict(auc: float, error: float, name: str) -> str:
    shown = f"AUC {auc:.2f} ± {error:.2f}"
    if norm.sf((auc - 0.5) / max(error, 1e-12)) >= SURE:
        return f"A classifier (trees) cannot distinguish rows of {name} from these ({shown}, by chance 0.50)."
    how = "hardly" if auc < 0.6 else "to some extent" if auc < 0.8 else "well"
    return f"A classifier (trees) distinguishes rows of {name} from these {how} ({shown}, by chance 0.50)."


def told_apart(both: Columns, second: Mask, leave_out: set[str]) -> tuple[float, float]:
    """Cross-validate trees that tell the rows of two tables apart: their AUC, and its standard error.

    A row of both tables is in one fold, or trees would take it for the other's.
    """
    names = [name for name in both.named(*MODELLED) if name not in leave_out]
    if not names:
        return 0.5, 0.0
    X, _ = design(both.typed, {name: both.kinds[name] for name in names})
    rows = pd.util.hash_pandas_object(both.typed[names], index=False).to_numpy()
    here, there = rows[~second], rows[second]
    grouped = np.isin(there, here).any()
    folds = (StratifiedGroupKFold if grouped else StratifiedKFold)(_FOLDS, shuffle=True, random_state=0)
    trees = HistGradientBoostingClassifier(
        max_iter=_ROUNDS, max_leaf_nodes=15, learning_rate=0.15, early_stopping=False, random_state=0
    )
    # Levels of different folds are not comparable: an AUC of all folds together would be too low.
    splits = folds.split(rows, second, rows if grouped else None)
    aucs = cross_val_score(trees, X, second, cv=splits, scoring="roc_auc")
    overlap = 1 + _FOLDS / (_FOLDS - 1)  # of the rows that the models of two folds are fitted to
    return float(aucs.mean()), float(np.sqrt(overlap * (len(rows) + 1) / (12 * len(here) * len(there))))


def differs(column: pd.Series[Any], kind: str, second: Mask, name: str) -> Difference:
    """Compare one column of two tables.

    >>> rng = np.random.default_rng(0)
    >>> age = pd.Series(np.r_[rng.normal(30, 5, 300), rng.normal(47, 5, 300)].round(), name="age")
    >>> differs(age, "number", np.arange(600) >= 300, "test.csv").words
    'age is higher in test.csv: median 47, here 30'
    """
    gap = column.isna().to_numpy()
    here, there = float(gap[~second].mean()), float(gap[second].mean())
    gaps = _levels(pd.Series(gap), second, name)
    by_value = _levels if kind == "category" else partial(_numbers, dates=kind == "date")
    worse = by_value(column[~gap], second[~gap], name)
    p = min(1.0, 2 * min(gaps.p_value, worse.p_value))
    if gaps.p_value < worse.p_value and gaps.distance > worse.distance:
        worse = gaps._replace(words=f"{column.name} is missing in {there:.0%} of {name}, here in {here:.0%}")
    return worse._replace(p_value=p)


def _numbers(column: pd.Series[Any], second: Mask, name: str, *, dates: bool) -> Difference:
    values = column.to_numpy(np.float64)
    here, there = values[~second], values[second]
    if not len(here) or not len(there):
        return Difference(1.0, 0.0, "")
    test = ks_2samp(here, there, method="asymp")
    (low, before, high), (low_there, after, high_there) = (np.quantile(part, _QUARTILES) for part in (here, there))
    shown = [str(np.datetime64(round(day), "D")) if dates else number(day) for day in (float(after), float(before))]
    medians = f"in {name}: median {shown[0]}, here {shown[1]}"
    if after != before and abs(after - before) >= _SHIFT * max(high - low, high_there - low_there):
        up, down = ("later", "earlier") if dates else ("higher", "lower")
        words = f"{column.name} is {up if after > before else down} {medians}"
    else:
        words = f"{column.name} is distributed differently in {name}: half of the rows within "
        words += f"{number(float(high_there - low_there))}, here {number(float(high - low))}"
    return Difference(float(test.pvalue), float(test.statistic), words)


def _levels(column: pd.Series[Any], second: Mask, name: str) -> Difference:
    codes, levels = ranked(column)
    if len(levels) < 2 or second.all() or not second.any():
        return Difference(1.0, 0.0, "")
    p, distance, theirs, ours = compare_levels(codes, second)
    there, here = theirs / theirs.sum(), ours / ours.sum()
    new = np.flatnonzero(ours == 0)
    if there[new].sum() > 0.5 * distance:
        named = listed([f"{levels[j]} ({theirs[j]:,})" for j in new[np.argsort(-theirs[new])]], most=3)
        return Difference(p, distance, f"{column.name} has new levels in {name}: {named}")
    j = int(np.argmax(np.abs(here - there)))
    return Difference(p, distance, f"{column.name} is {levels[j]} in {there[j]:.0%} of {name}, here in {here[j]:.0%}")
