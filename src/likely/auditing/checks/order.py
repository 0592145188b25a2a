"""Whether the order of the rows means something: neighbours alike, or a trend, beyond what chance brings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import kruskal, norm, rankdata, spearmanr

from likely._page import Table
from likely._rows.reading.table import listed
from likely._typing import Array
from likely.auditing.checks.holm import SURE, holm
from likely.auditing.columns.kinds import MODELLED, Columns, as_numbers
from likely.auditing.results.finding import Finding, number

_FEWEST = 30  # rows
_PAIRS = 10  # equal neighbours by chance, and pairs without the most frequent value: fewer follow no normal law
_RARE = 10  # rows of a level that a trend is looked for in
_CLEAR = 0.1  # correlation with the neighbour, or with the row's number, from which order matters
_SORTED = 0.9  # correlation from which rows are sorted
MAX_ROWS = 50_000  # neighbouring rows that are looked at, in one block from the middle, and rows spread over all
MAX_COLUMNS = 1_000  # of a wide table, the target and others at random
_SHOWN = 12


class Dependence(NamedTuple):
    """How much a column has to do with the order of rows."""

    p_value: float
    neighbours: float
    neighbours_error: float
    trend: float


def order(columns: Columns, target: str | None) -> Finding | None:
    """Report columns in which neighbouring rows are alike, or that change along the table."""
    n = len(columns.typed)
    names = columns.named(*MODELLED)
    if len(names) > MAX_COLUMNS:
        some = set(np.random.RandomState(0).permutation(len(names))[:MAX_COLUMNS].tolist())
        names = [name for place, name in enumerate(names) if place in some or name == target]
    if n < _FEWEST or not names:
        return None
    tested = {name: dependence for name in names if (dependence := _of_column(columns, name)) is not None}
    table = pd.DataFrame(tested.values(), index=pd.Index(list(tested), name="column"), columns=Dependence._fields)
    table["p"] = holm(table["p_value"])
    size = table[["neighbours", "trend"]].abs().max(axis=1)
    clear = list(size[(table["p"] < SURE) & (size >= _CLEAR)].sort_values(ascending=False, kind="stable").index)
    shown = pd.DataFrame(
        {
            "like the row before": [_apart(dependence) for dependence in tested.values()],
            "along the table": table["trend"].round(2),
            "p, corrected": table["p"].map("{:.2g}".format),
        }
    ).iloc[np.argsort(table["p_value"], kind="stable")[:_SHOWN]]
    caption = (
        "Correlation of each value with that of the row before, and with the row's number. For categories: the share "
        "of equal neighbours above chance, and the correlation ratio."
    )
    return Finding(
        "order",
        "The order of the rows",
        _sentence(tested, clear, target),
        numbers={
            "columns": clear,
            "p_value": table["p"].to_dict(),
            **{name: table[name].round(4).to_dict() for name in ("neighbours", "trend")},
        },
        tables=(Table(shown, caption, digits=2),) if len(tested) else (),
    )


def _of_column(columns: Columns, name: str) -> Dependence | None:
    column = columns.typed[name]
    if len(column) <= MAX_ROWS:
        values, levels = as_numbers(column)
        return depends(values, categories=levels is not None)
    start = (len(column) - MAX_ROWS) // 2
    block, levels = as_numbers(column.iloc[start : start + MAX_ROWS])
    spread, _ = as_numbers(column.iloc[np.linspace(0, len(column) - 1, MAX_ROWS).astype(np.int64)])
    return depends(block, spread, categories=levels is not None)


def _sentence(tested: dict[str, Dependence], clear: list[str], target: str | None) -> str:
    if not clear:
        return "Rows look shuffled: no column depends on the position in the table."
    ordered = [name for name in clear if abs(tested[name].trend) >= _SORTED]
    alike = [name for name in clear if abs(tested[name].trend) < _SORTED]
    if target in ordered:
        return f"Rows are sorted by {target}, or nearly so: shuffle them before they are split into folds or batches."
    parts = []
    if ordered:
        parts.append(f"Rows are sorted by {listed(ordered, most=3, last=' and ')}, or nearly so.")
    if alike:
        columns = listed(alike, most=3, last=" and ") + (" columns" if len(alike) > 3 else "")
        parts.append(f"In {columns}, {_how(tested[alike[0]], alike[0])}.")
    if target in clear:
        parts.append(f"{target} depends on the order: in a random split, test rows are neighbours of training rows.")
    parts.append("If rows follow each other in time, or belong to groups, split by time or by group.")
    return " ".join(parts)


def _how(dependence: Dependence, name: str) -> str:
    """What the order does to a column, in words."""
    if abs(dependence.neighbours) < max(_CLEAR, abs(dependence.trend) / 2):
        return f"values change along the table ({name}: correlation {dependence.trend:.2f}, by chance 0)"
    alike = "are alike" if dependence.neighbours > 0 else "alternate"
    return f"neighbouring rows {alike} ({name}: {_apart(dependence)}, by chance 0)"


def _apart(dependence: Dependence) -> str:
    """How alike neighbours are, with its error."""
    error = float(f"{dependence.neighbours_error:.1g}")
    return f"{dependence.neighbours:.2f} ± {number(error)}"


def depends(values: Array, spread: Array | None = None, *, categories: bool = False) -> Dependence | None:
    """Test whether values depend on their order: neighbours in ``values``, and a trend in ``spread``, or in both.

    Two tests are made and combined: of neighbours, by the serial correlation of ranks (Wald and Wolfowitz 1943; for
    categories, by the number of equal neighbours), and of a trend, by Spearman's correlation with the row's number (for
    categories, Kruskal and Wallis' of row numbers). The two are uncorrelated in a random order.

    >>> rng = np.random.default_rng(0)
    >>> shuffled, walk = rng.normal(size=500), rng.normal(size=500).cumsum()
    >>> bool(depends(shuffled).p_value > 0.01), bool(depends(walk).p_value < 1e-9)
    (True, True)
    """
    block = values[~np.isnan(values)]
    spread = block if spread is None else spread[~np.isnan(spread)]
    if min(len(block), len(spread)) < _FEWEST:
        return None
    codes = np.unique(block, return_inverse=True)[1]
    rest = len(block) - int(np.bincount(codes).max())
    share, error, near = 0.0, 0.0, np.nan
    if rest * rest >= _PAIRS * len(block):
        share, error, near = _neighbours(codes.astype(np.float64) if categories else rankdata(block), categories)
    size, along = _trend_of_levels(spread) if categories else _trend(spread, rest)
    both = [p for p in (near, along) if not np.isnan(p)]
    if not both:
        return None
    smallest = min([*both, 1 - 1e-12])
    return Dependence(float(-np.expm1(len(both) * np.log1p(-smallest))), share, error, size)


def _neighbours(scores: Array, categories: bool) -> tuple[float, float, float]:
    """The correlation of ranks (the share of equal codes) of neighbours above chance, its error, and a p-value."""
    n, whole, variance = len(scores), 1.0, 1.0
    if categories:
        p = np.bincount(scores.astype(np.int64)) / n
        equal = float(np.sum(p**2))
        if equal * n < _PAIRS:
            return 0.0, 0.0, np.nan
        whole, variance = 1 - equal, equal + equal**2 - 2 * float(np.sum(p**3))
        above = float(np.mean(scores[1:] == scores[:-1])) - equal
    else:
        standardised = (scores - scores.mean()) / scores.std()
        above = float(np.mean(standardised[1:] * standardised[:-1]))
    error = float(np.sqrt(variance / n))
    above += whole / n  # of two rows of a table, the second is any but the first
    return above / whole, error / whole, float(2 * norm.sf(abs(above) / error))


def _trend(values: Array, rest: int) -> tuple[float, float]:
    """Spearman's correlation with the row's number, and its p-value."""
    if rest < _RARE:
        return 0.0, np.nan
    correlation, p_value = spearmanr(values, np.arange(len(values)))
    return float(correlation), float(p_value)


def _trend_of_levels(codes: Array) -> tuple[float, float]:
    """The correlation ratio of row numbers by level, less what so many levels explain by chance, and a p-value."""
    counts = np.bincount(codes.astype(np.int64))
    group = np.where(counts[codes.astype(np.int64)] >= _RARE, codes, -1)
    places = [np.flatnonzero(group == level) for level in np.unique(group)]
    if len(places) < 2 or min(map(len, places)) < _RARE:
        return 0.0, np.nan
    n = len(codes)
    statistic, p_value = kruskal(*places)
    left = (1 - statistic / (n - 1)) * (n - 1) / (n - len(places))
    return float(np.sqrt(max(0.0, 1 - left))), float(p_value)
