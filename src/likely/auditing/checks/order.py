"""Whether the order of the rows means something: neighbours alike, or a trend, beyond what chance brings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from likely._numerics.significance import SURE, holm
from likely._page import Table
from likely._rows.reading.table import listed
from likely._typing import Array
from likely.auditing.columns.kinds import MODELLED, Columns, as_numbers
from likely.auditing.results.finding import Finding, number

_FEWEST = 30  # rows
_PAIRS = 10  # pairs without the most frequent value: fewer follow no normal law
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
    error: float
    trend: float

    def __str__(self) -> str:
        return f"{self.neighbours:.2f} ± {number(float(f'{self.error:.1g}'))}"


def order(columns: Columns, target: str | None) -> Finding | None:
    """Report columns in which neighbouring rows are alike, or that change along the table."""
    names = columns.named(*MODELLED)
    names = [name for place, name in enumerate(names) if place < MAX_COLUMNS or name == target]
    if len(columns.typed) < _FEWEST or not names:
        return None
    tested = {name: own for name in names if (own := _of_column(columns.typed[name])) is not None}
    table = pd.DataFrame(tested.values(), index=pd.Index(list(tested), name="column"), columns=Dependence._fields)
    table["p"] = holm(table["p_value"])
    size = table[["neighbours", "trend"]].abs().max(axis=1)
    clear = list(size[(table["p"] < SURE) & (size >= _CLEAR)].sort_values(ascending=False, kind="stable").index)
    shown = pd.DataFrame(
        {
            "like the row before": [str(own) for own in tested.values()],
            "along the table": table["trend"].round(2),
            "p, corrected": table["p"].map("{:.2g}".format),
        }
    ).iloc[np.argsort(table["p_value"], kind="stable")[:_SHOWN]]
    caption = (
        "Correlation of the rank of each value with that of the row before, and with the row's number. Categories are "
        "numbered by frequency."
    )
    return Finding(
        "order",
        "The order of the rows",
        " ".join(_sentences({name: tested[name] for name in clear}, target)),
        numbers={
            "columns": clear,
            "p_value": table["p"].to_dict(),
            **{name: table[name].round(4).to_dict() for name in ("neighbours", "trend")},
        },
        tables=(Table(shown, caption, digits=2),) if len(tested) else (),
        found=bool(clear),
    )


def _of_column(column: pd.Series[Any]) -> Dependence | None:
    """The test of a column; of a long one, of neighbours in its middle, and of rows spread over all."""
    some = min(len(column), MAX_ROWS)
    start = (len(column) - some) // 2
    block, _ = as_numbers(column.iloc[start : start + some])
    spread, _ = as_numbers(column.iloc[np.linspace(0, len(column) - 1, some).astype(np.int64)])
    return depends(block, spread)


def _sentences(clear: dict[str, Dependence], target: str | None) -> Iterator[str]:
    ordered = [name for name, own in clear.items() if abs(own.trend) >= _SORTED]
    alike = [name for name in clear if name not in ordered]
    if not clear:
        yield "Rows look shuffled: no column depends on the position in the table."
        return
    if target in ordered:
        yield f"Rows are sorted by {target}, or nearly so: shuffle them before they are split into folds or batches."
        return
    if ordered:
        yield f"Rows are sorted by {listed(ordered, most=3, last=' and ')}, or nearly so."
    if alike:
        own, of = clear[alike[0]], f"of {alike[0]} " if len(alike) > 1 else ""
        how, size = f"neighbouring rows {'are alike' if own.neighbours > 0 else 'alternate'}", str(own)
        if abs(own.neighbours) < max(_CLEAR, abs(own.trend) / 2):
            how, size = "values change along the table", f"{own.trend:.2f}"
        yield f"In {listed(alike, most=3, last=' and ')}, {how} (correlation {of}{size}, by chance 0)."
    if target in clear:
        yield f"{target} depends on the order: in a random split, test rows are neighbours of training rows."
    yield "If rows follow each other in time, or belong to groups, split by time or by group."


def depends(values: Array, spread: Array | None = None) -> Dependence | None:
    """Test whether values depend on their order: neighbours in ``values``, and a trend in ``spread``, or in both.

    Two tests are made and combined, both by Spearman's correlation: with the value before, and with the row's number.
    Levels of categories are numbered by frequency. The two are uncorrelated in a random order.

    >>> rng = np.random.default_rng(0)
    >>> shuffled, walk = rng.normal(size=500), rng.normal(size=500).cumsum()
    >>> bool(depends(shuffled).p_value > 0.01), bool(depends(walk).p_value < 1e-9)
    (True, True)
    """
    block = values[~np.isnan(values)]
    spread = block if spread is None else spread[~np.isnan(spread)]
    if min(len(block), len(spread)) < _FEWEST:
        return None
    n, rest = len(block), len(block) - np.unique(block, return_counts=True)[1].max()
    tests = [spearmanr(block[1:], block[:-1])] if rest * rest >= _PAIRS * n else []
    tests += [spearmanr(spread, np.arange(len(spread)))] if rest >= _RARE else []
    if not tests:
        return None
    smallest = min(1 - 1e-12, *(test.pvalue for test in tests))
    near = tests[0].statistic if len(tests) > 1 else 0.0
    return Dependence(-np.expm1(len(tests) * np.log1p(-smallest)), near, n**-0.5, tests[-1].statistic)
