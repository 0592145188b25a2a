"""Columns that give the target away: each alone, on rows held out."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from likely._page import Table
from likely.auditing._columns import FAR, Columns, ranked
from likely.auditing._finding import Finding
from likely.auditing._told import Told, tells

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
        names = [names[j] for j in np.argsort(-follows, kind="stable")[:_COLUMNS]]
    each = {name: tells(values[name], y[some], labels=labels) for name in names}
    told = pd.DataFrame.from_dict(each, orient="index", columns=Told._fields, dtype=np.float64)
    told = told.sort_values("share", ascending=False, kind="stable")
    leaks = [str(name) for name in told.index[told["share"] >= _GIVES_AWAY]]
    shown = told.head(12).set_axis(["share told alone", "± error"], axis=1)
    shown.index.name = "column"
    return Finding(
        "leaks",
        "Columns that give the target away",
        f"{_and(leaks)} alone tell{'s' if len(leaks) == 1 else ''} nearly all about {target}. "
        "Would that be known when the model is used?"
        if leaks
        else f"No column alone gives {target} away." + _most(told),
        numbers={"columns": leaks, "told": {str(name): round(float(told["share"][name]), 4) for name in told.index}},
        tables=(
            Table(
                shown,
                f"Share of what there is to know about {target} that a column tells alone, on rows held out, "
                "with the standard error of that share.",
                digits=2,
            ),
        )
        if len(shown)
        else (),
    )


def _most(told: pd.DataFrame) -> str:
    """The column that tells most, where that is more than chance."""
    if not len(told) or told["share"].iloc[0] <= 2 * told["error"].iloc[0]:
        return ""
    share, error = told.iloc[0]
    return f" The most is told by {told.index[0]}: {share:.0%} ± {error:.0%}."


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
