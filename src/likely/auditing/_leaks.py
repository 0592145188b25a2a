"""Columns that give the target away: each alone, on rows held out."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from likely.auditing._columns import FAR, Columns, ranked
from likely.auditing._finding import Finding
from likely.reproduce import Table

_GIVES_AWAY = 0.95  # of what there is to know about the target
_ROWS = 4_000
_COLUMNS = 500  # of a wide table, those that follow the target most closely


def leaking_columns(
    columns: Columns, target: str, y: NDArray[np.float64], rows: NDArray[np.int64], *, labels: bool
) -> Finding:
    """How much of the target each column tells by itself; those that tell nearly all may not be known in time.

    ``y`` holds class numbers or squashed targets of ``rows``, the rows that have a target.
    """
    names = [n for n, kind in columns.kinds.items() if n != target and kind not in ("constant", "empty", "text")]
    some = np.sort(np.random.RandomState(0).permutation(len(rows))[:_ROWS])
    values = {name: _numbers(columns, name)[rows[some]] for name in names}
    if len(names) > _COLUMNS:
        follows = _follows(np.column_stack([values[name] for name in names]), y[some])
        names = [names[j] for j in np.argsort(-follows)[:_COLUMNS]]
    told = pd.Series({name: tells(values[name], y[some], labels=labels) for name in names}, dtype=np.float64)
    told = told.sort_values(ascending=False)
    leaks = [str(name) for name in told.index[told >= _GIVES_AWAY]]
    shown = told.head(12).to_frame("share told alone")
    shown.index.name = "column"
    return Finding(
        "leaks",
        "Columns that give the target away",
        f"{_and(leaks)} alone tell{'s' if len(leaks) == 1 else ''} nearly all about {target}. "
        "Would that be known when the model is used?"
        if leaks
        else f"No column alone gives {target} away."
        + (f" The most is told by {told.index[0]}: {told.iloc[0]:.0%}." if len(told) and told.iloc[0] > 0 else ""),
        numbers={"columns": leaks},
        tables=(Table(shown, f"Share of what there is to know about {target} that a column tells alone.", digits=2),)
        if len(shown)
        else (),
    )


def tells(x: NDArray[np.float64], y: NDArray[np.float64], *, labels: bool) -> float:
    """The share of the variance of y, or of the entropy of labels, that a tree on x explains on the other half.

    >>> x = np.random.default_rng(0).normal(size=1000)
    >>> tells(x, np.exp(x), labels=False) > 0.95, tells(x, np.roll(x, 1), labels=False) < 0.1
    (True, True)
    """
    half = len(y) // 2
    order = np.random.RandomState(0).permutation(len(y))
    fit, held = order[:half], order[half:]
    if half < 10 or len(np.unique(y[fit])) < 2:
        return 0.0
    leaf = {"max_leaf_nodes": 64, "min_samples_leaf": 3, "random_state": 0}
    if not labels:
        tree = DecisionTreeRegressor(**leaf).fit(x[fit, None], y[fit])
        left = np.square(y[held] - tree.predict(x[held, None])).mean()
        return float(max(0.0, 1 - left / max(y[held].var(), 1e-300)))
    tree = DecisionTreeClassifier(**leaf).fit(x[fit, None], y[fit])
    place = np.searchsorted(tree.classes_, y[held]).clip(max=len(tree.classes_) - 1)
    known = tree.classes_[place] == y[held]
    p = np.where(known, tree.predict_proba(x[held, None])[np.arange(len(held)), place], 0.0)
    share = np.array([(y[fit] == label).mean() for label in tree.classes_])
    base = np.where(known, share[place], 0.0)
    smooth = 1 / (half + 1)  # a leaf of three that agree is not certainty
    return float(max(0.0, 1 - np.log(p * (1 - smooth) + smooth).sum() / np.log(base * (1 - smooth) + smooth).sum()))


def _numbers(columns: Columns, name: str) -> NDArray[np.float64]:
    column = columns.typed[name]
    if pd.api.types.is_numeric_dtype(column.dtype):
        return np.asarray(np.clip(column.to_numpy(np.float64), -FAR, FAR))
    codes = ranked(column)[0].astype(np.float64)
    return np.where(codes < 0, np.nan, codes)


def _follows(X: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The size of each column's rank correlation with y; a quick look where there are too many columns for trees."""
    ranks = rankdata(np.where(np.isnan(X), -np.inf, X), axis=0)
    ranks -= ranks.mean(0)
    order = rankdata(y) - (len(y) + 1) / 2
    return np.asarray(np.abs(order @ ranks) / np.maximum(np.linalg.norm(ranks, axis=0), 1e-300))


def _and(names: list[str]) -> str:
    shown = names[:5] + ([f"{len(names) - 5} more"] if len(names) > 5 else [])
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
