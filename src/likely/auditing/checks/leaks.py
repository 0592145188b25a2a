"""Columns that give the target away: how much each tells alone, on rows held out."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.model_selection import PredefinedSplit, cross_val_predict
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
_DEPTH = 6  # halvings of the rows by the column's value: at most 64 bins
_PULL = 1.0  # rows that the bin around a bin counts for in its mean
_SMALL = 1_000  # rows up to which bins are too wide to cut where labels change, and a tree is tried, too
_LEAF, _DOUBT = 4, 0.02  # rows in a leaf of the tree, at least, and the share of labels that no leaf tells
_FEWEST = 10  # rows to learn from and to be measured on
_SUMS, _SHOWN = 3, 12  # sums of columns, and columns, that are told


def leaking_columns(
    columns: Columns,
    target: str,
    y: Array,
    rows: Places,
    *,
    labels: bool,
    sums: Sequence[Identity],
) -> Finding:
    """How much of the target each column tells by itself; those that tell nearly all may not be known in time.

    ``y`` holds class numbers or squashed targets of ``rows``, the rows that have a target; ``sums`` are identities that
    the target is in.
    """
    names = columns.named(*MODELLED, "identifier", but={target})
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
        found=bool(leaks or together),
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
    """How much of y, class numbers if they are ``labels``, bins of x (NaN where missing) explain on rows held out.

    The rows are halved by x again and again, and at last cut into its single values. The mean of a bin is shrunk
    towards that of the bin it lies in. How deep to go is chosen on other folds than the one that is measured, so that a
    column without meaning is not cut at all, however few the rows.

    >>> x = np.random.default_rng(0).normal(size=200)
    >>> tells(x, np.exp(x), labels=False).share > 0.95, tells(x, np.roll(x, 1), labels=False).share < 0.1
    (True, True)
    """
    n = len(y)
    if n < 2 * _FEWEST or len(np.unique(y)) < 2:
        return Told(0.0, 0.0)
    folds = np.random.RandomState(0).permutation(n) % _FOLDS
    losses = _losses(x, y if labels else y - y.mean(), folds, labels=labels)
    chosen = _choose(losses, folds)
    base, left = losses[0], losses[chosen, np.arange(n)]
    whole = max(float(base.sum()), 1e-300)
    share = 1 - float(left.sum()) / whole
    error = float(np.std(left - (1 - share) * base) * np.sqrt(n)) / whole
    return Told(max(share, 0.0), error)


def _losses(x: Array, y: Array, folds: Places, *, labels: bool) -> Array:
    """The loss of every row at every depth, by its bin in the other folds, and of a model: a line, or a tree.

    The loss is the NLL of a label by the shares of labels, and else the squared error of the mean.
    """
    ones = np.ones(len(x))
    classes, codes = np.unique(y, return_inverse=True) if labels else (np.zeros(1), np.zeros(len(x), np.int64))
    expected = ones / len(classes) if labels else 0 * ones
    losses = []
    for bins in _bins(x):
        total = _others(ones if labels else y, bins * len(classes) + codes, folds)
        expected = (total + _PULL * expected) / (_others(ones, bins, folds) + _PULL)
        losses.append(-np.log(expected) if labels else np.square(y - expected))
    if not labels:
        losses.insert(1, np.square(y - _line(x, y, folds)))
    elif len(x) <= _SMALL:
        tree = DecisionTreeRegressor(min_samples_leaf=_LEAF, max_leaf_nodes=2**_DEPTH, random_state=0)
        shares = cross_val_predict(
            tree, x[:, None], codes[:, None] == np.arange(len(classes)), cv=PredefinedSplit(folds)
        )
        sure = shares.reshape(len(x), -1)[np.arange(len(x)), codes]
        losses.insert(1, -np.log((1 - _DOUBT) * sure + _DOUBT * np.bincount(codes)[codes] / len(x)))
    return np.asarray(losses)


def _line(x: Array, y: Array, folds: Places) -> Array:
    """A straight line through the other folds; a missing value counts as the median, and far ones as less far."""
    middle, high = np.nanquantile(x, [0.5, 0.84])
    z = np.clip(np.nan_to_num((x - middle) / (float(high - middle) or 1.0)), -4, 4)
    terms, line = np.column_stack([np.ones(len(x)), z]), np.empty(len(x))
    for fold in range(_FOLDS):
        others = folds != fold
        line[~others] = terms[~others] @ np.linalg.lstsq(terms[others], y[others])[0]
    return line


def _bins(x: Array) -> list[Places]:
    """The bin of every row, from one for all to one per value; missing values have a bin of their own."""
    missing = np.isnan(x)
    rank = (rankdata(np.where(missing, np.inf, x)) - 0.5) / max((~missing).sum(), 1)
    halves = [np.minimum((rank * 2**depth).astype(np.int64), 2**depth - 1) for depth in range(1, _DEPTH + 1)]
    single = np.zeros(len(x), np.int64)
    single[~missing] = np.unique(x[~missing], return_inverse=True)[1]
    whole = np.zeros(len(x), np.int64)
    return [whole, *(np.where(missing, bins.max() + 1, bins) for bins in (*halves, single))]


def _others(values: Array, bins: Places, folds: Places) -> Array:
    """For every row, the sum of values over the rows of its bin that are in other folds."""
    cell = bins * _FOLDS + folds
    return np.bincount(bins, values)[bins] - np.bincount(cell, values)[cell]


def _choose(losses: Array, folds: Places) -> Places:
    """The depth with the least loss on the other folds, by row; the least depth within half an error of it."""
    depth = np.zeros(losses.shape[1], np.int64)
    for fold in range(_FOLDS):
        other = losses[:, folds != fold]
        best = other.mean(1).argmin()
        extra = other - other[best]
        error = extra.std(1) / np.sqrt(extra.shape[1])
        depth[folds == fold] = np.flatnonzero(extra.mean(1) <= 0.5 * error)[0]
    return depth
