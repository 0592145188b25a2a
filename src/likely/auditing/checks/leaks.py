"""Columns that give the target away: how much each tells alone, on rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.tree import DecisionTreeRegressor

from likely._page import Table
from likely._rows.reading.table import listed
from likely._typing import Array, Places
from likely.auditing.columns.kinds import MODELLED, Columns, as_numbers
from likely.auditing.identities.identity import Identity
from likely.auditing.results.finding import Finding, percent

_GIVES_AWAY = 0.95  # of what there is to know about the target
MAX_ROWS, _LEAST_ROWS, MAX_VALUES = 4_000, 500, 2_000_000  # that are looked at: rows, and values of a wide table
_FOLDS = 5
_LEAVES = (1, 5, 20, 60)  # rows in a leaf, at least
_FEWEST = 20  # rows to learn from and to be measured on
_SUMS, _SHOWN = 3, 12  # sums of columns, and columns, that are told


def leaking_columns(
    columns: Columns,
    target: str,
    y: Array,
    rows: Places,
    *,
    labels: bool,
    sums: Sequence[Identity] = (),
) -> Finding:
    """How much of the target each column tells by itself; those that tell nearly all may not be known in time.

    ``y`` holds class numbers or squashed targets of ``rows``, the rows that have a target; ``sums`` are identities that
    the target is in.
    """
    names = [name for name in columns.named(*MODELLED, "identifier") if name != target]
    most = min(MAX_ROWS, max(_LEAST_ROWS, MAX_VALUES // max(len(names), 1)))
    some = np.sort(np.random.RandomState(0).permutation(len(rows))[:most])
    by_column = {name: tells(as_numbers(columns.typed[name])[0][rows[some]], y[some], labels=labels) for name in names}
    table = pd.DataFrame.from_dict(by_column, orient="index", columns=Told._fields, dtype=np.float64)
    table = table.sort_values("share", ascending=False, kind="stable")
    leaks = [str(name) for name in table.index[table["share"] >= _GIVES_AWAY]]
    together = [[n for n in columns.kinds if n in identity.members and n != target] for identity in sums]
    shares = [percent(told.share, told.error) for told in table.head(_SHOWN).itertuples()]
    shown = pd.DataFrame({"explained alone": shares}, index=table.index[:_SHOWN].rename("column"))
    caption = (
        f"Share of the variation of {target} that a column explains alone, on held-out rows, with its standard error."
    )
    return Finding(
        "leaks",
        "Columns that give the target away",
        _told(target, leaks, together, table),
        numbers={
            "columns": leaks,
            "together": together,
            "told": table["share"].round(4).to_dict(),
            "error": table["error"].round(4).to_dict(),
        },
        tables=(Table(shown, caption),) if len(shown) else (),
    )


def _told(target: str, leaks: list[str], together: list[list[str]], table: pd.DataFrame) -> str:
    parts = [f"{listed(names, last=' and ')} together give {target} exactly." for names in together[:_SUMS]]
    if leaks:
        verb = "predicts" if len(leaks) == 1 else "predict"
        parts.insert(0, f"{listed(leaks, last=' and ')} alone {verb} {target} almost perfectly.")
    if parts:
        known = "it" if len(leaks) == 1 and not together else "they"
        return " ".join([*parts, f"Will {known} be known when the model is used?"])
    told = f"No column alone gives {target} away."
    if not len(table) or table["share"].iloc[0] <= 2 * table["error"].iloc[0]:
        return told
    return f"{told} {table.index[0]} alone explains most: {percent(*table.iloc[0])}."


class Told(NamedTuple):
    """The share of the target's variance, or of the labels' entropy, that a column explains, and its standard error."""

    share: float
    error: float


def tells(x: Array, y: Array, *, labels: bool) -> Told:
    """How much of y, class numbers if they are ``labels``, a model of x (NaN where missing) explains on rows held out.

    The model is the best of trees with leaves of several sizes, of a line for targets, and of none: the loss of a label
    is its NLL by the shares of labels, that of a target the squared error.

    >>> x = np.random.default_rng(0).normal(size=200)
    >>> tells(x, np.exp(x), labels=False).share > 0.95, tells(x, np.roll(x, 1), labels=False).share < 0.1
    (True, True)
    """
    n, missing, (classes, codes) = len(y), np.isnan(x), np.unique(y, return_inverse=True)
    if n < _FEWEST or len(classes) < 2 or missing.all():
        return Told(0.0, 0.0)
    X = np.column_stack([np.where(missing, np.nanmedian(x), x), missing])
    wanted = codes[:, None] == np.arange(len(classes)) if labels else y
    folds = KFold(_FOLDS, shuffle=True, random_state=0)
    losses = [] if labels else [np.square(y - cross_val_predict(LinearRegression(), X, y, cv=folds))]
    for leaf in (*_LEAVES, n):
        expected, tree = np.zeros(wanted.shape), DecisionTreeRegressor(min_samples_leaf=leaf, random_state=0)
        for train, test in folds.split(X):
            expected[test] = tree.fit(X[train], wanted[train]).predict(X[test])
            if labels:  # a leaf counts half a row more, of which nothing is known
                rows = tree.tree_.n_node_samples[tree.apply(X[test])][:, None]
                expected[test] = (rows * expected[test] + 0.5 * wanted[train].mean(0)) / (rows + 0.5)
        sure = np.maximum(expected[np.arange(n), codes], 1 / n) if labels else expected
        losses.append(-np.log(sure) if labels else np.square(y - sure))
    base, left = losses[-1], min(losses, key=np.sum)
    whole = max(float(base.sum()), 1e-300)
    share = 1 - float(left.sum()) / whole
    return Told(share, float(np.std(left - (1 - share) * base)) * float(np.sqrt(n)) / whole)
