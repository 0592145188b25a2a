"""Rows that do not fit the rest: by the pattern that the columns follow, and by a scale for each row."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._page import Table
from likely._typing import Array
from likely.auditing._columns import MODELLED, Columns
from likely.auditing._exact import exact_values
from likely.auditing._finding import Explained, Finding, Suspect, worst_first
from likely.auditing._identities import Identity, held
from likely.auditing._neighbours import Neighbours
from likely.auditing._pattern import Pattern
from likely.auditing._repair import RARE
from likely.auditing._row_words import RowWords
from likely.auditing._slip_search import SlipSearch
from likely.auditing._squash import Squash
from likely.auditing._tails import rare
from likely.outliers import ScatterDetector
from likely.outliers._threshold import false_alarms

_WIDE = 200  # columns under one covariance; wider tables are cut into blocks
_FALSE = 0.1  # the share of false alarms among the rows that are named
_IN_LINE = 0.1  # by which a row that is far out, but in line with others, is less surely a problem
_SLIPPED = 0.2  # the same among the rows that a slip mends
_FEWEST = 10  # rows
_DISCRETE = 20  # values of a column of numbers that is discrete
_LOOK, _CHUNK = 2_000, 20_000
_UNITS = 10_000  # rows that tell the units of numbers
_NEAR = 0.75  # of the rows are ordinary anyway


def odd_rows(
    columns: Columns,
    leave_out: set[str],
    first: NDArray[np.bool_] | None = None,
    identities: Sequence[Identity] = (),
    *,
    named: bool = True,
) -> Finding | None:
    """Rows that break the pattern of the others, or lie far from where they are.

    Two views: how rare each value is given the others of its row, and the row's scale under one covariance.
    """
    names = [name for name in columns.named(*MODELLED) if name not in leave_out]
    if not names or len(columns.typed) < _FEWEST:
        return None
    table = columns.typed[names]
    if not named:
        scale = _scales(table, first)
        certainty = 1 - false_alarms(np.log(scale))
        return _finding(scale, certainty, len(names), lambda rows: (_by_scale(scale[row]) for row in rows))
    scale = _scales(_squashed(table), first)
    if len(names) > _WIDE:
        certainty = 1 - false_alarms(np.log(scale))
        return _finding(scale, certainty, len(names), lambda rows: (_by_scale(scale[row]) for row in rows))
    neighbours = Neighbours.of(columns, leave_out)
    pattern = Pattern.of(neighbours, first)
    search = SlipSearch(neighbours, pattern)
    surprises = _surprises(pattern, neighbours, search, held(identities, neighbours.names, table))
    broken = 1 - rare(surprises)
    # The end of a column in which many rows lie, say the least of seven values, is where its tail begins, and not rare.
    broken = np.where(surprises > RARE, broken, np.minimum(broken, 1 - _FALSE - 2 * _IN_LINE))
    # What a slip mends, and changes that nobody makes do not, is wrong though others are as rare.
    chance = search.chance(first)
    slipped = chance <= _SLIPPED
    broken = np.where(slipped, np.maximum(broken, 1 - chance), broken)
    # Far out, but in line with the others: less surely a problem than what breaks the pattern.
    certainty = np.where(broken >= 1 - _FALSE, broken, np.maximum(broken, 1 - false_alarms(np.log(scale)) - _IN_LINE))
    slips = {int(row): search.change(int(row)) for row in np.flatnonzero(slipped)}
    return _finding(scale, certainty, len(names), RowWords(neighbours, pattern, broken, slips).explain)


def _finding(
    scale: Array, certainty: Array, columns: int, explain: Callable[[NDArray[np.int64]], Iterable[Explained]]
) -> Finding:
    suspicious = certainty >= 1 - _FALSE - _IN_LINE
    count = int(suspicious.sum())
    # Certainties that round to one are told apart by their scales, and still are at most one.
    ranked = worst_first("rows", np.minimum(certainty, 1.0) - 1e-6 / (1 + scale), suspicious, explain)
    wrong = sum(suspect.wrong for suspect in ranked["suspects"])
    return Finding(
        "rows",
        "Rows that do not fit the rest",
        _summary(count, wrong, len(scale)) if count else "No row is further out than chance explains.",
        scores={"row_scale": scale, "row_odd": certainty},
        numbers={"rows": count, "wrong": wrong, "columns": columns},
        tables=_blamed(ranked["suspects"]),
        **ranked,
    )


def _summary(count: int, wrong: int, rows: int) -> str:
    """How many rows do not fit, and what is thought of them."""
    fit = f"{count:,} of {rows:,} rows {'does' if count == 1 else 'do'} not fit the rest"
    if wrong == 0:
        return f"{fit}: {'it is' if count == 1 else 'they are'} odd and may be right."
    hold = f"{wrong:,} probably {'holds' if wrong == 1 else 'hold'} a wrong value"
    return f"{fit}: {hold}{', the others are odd and may be right' if wrong < count else ''}."


def _by_scale(scale: float) -> Explained:
    return Explained(f"{scale:,.1f} times as far from the centre as usual", far=float(scale), wrong=False)


def _squashed(table: pd.DataFrame) -> pd.DataFrame:
    """The table with numbers squashed: an extreme of a heavy tail is no further out than others."""

    def squashed(column: pd.Series[Any]) -> Any:
        if not pd.api.types.is_numeric_dtype(column.dtype):
            return column
        values = column.to_numpy()
        return Squash.of(values[:: -(-len(values) // _UNITS)], by_tails=True)(values)

    return pd.DataFrame({name: squashed(column) for name, column in table.items()})


def _surprises(
    pattern: Pattern, table: Neighbours, search: SlipSearch, confirmed: NDArray[np.bool_] | None = None
) -> Array:
    """How rare the rarest value of each row is, given the others, in nats, less what as many columns bring about.

    The rows are looked through for slips on the way. ``confirmed`` marks values that a sum of columns confirms.
    """
    surprises = np.empty(table.rows)
    exact = exact_values(numbers_only(table, table.values), table.rows)
    exact = exact if confirmed is None else exact | confirmed

    def judge(start: int) -> None:
        rows = np.arange(start, min(start + _CHUNK, table.rows))
        z = table.points(rows)
        count = np.maximum((~np.isnan(z)).sum(1), 1)
        judged = pattern.judge(z, rows)
        judged.nats[exact[rows]] = 0.0
        surprises[rows] = judged.nats.max(1) - np.log(count)
        search.look(rows, z, judged)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # NumPy lets go of the interpreter while it computes
        deque(pool.map(judge, range(0, table.rows, _CHUNK)), maxlen=0)
    return surprises


def numbers_only(table: Neighbours, values: Sequence[NDArray[Any]]) -> list[NDArray[Any] | None]:
    """The columns of numbers among the columns of a table, or of further rows of it; None for each category."""
    return [None if unit is None else column for unit, column in zip(table.units, values, strict=True)]


def _scales(table: pd.DataFrame, first: NDArray[np.bool_] | None) -> Array:
    """σ of every row, under one covariance, or one per block of columns where there are many."""
    names = list(table.columns)
    blocks = [names[start : start + _WIDE] for start in range(0, len(names), _WIDE)]
    common = _Common(table)
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn adds all values up to see whether one is infinite
        detectors = [
            ScatterDetector().fit(_read(table[block] if first is None else table[block][first])) for block in blocks
        ]
        squares = [_squares(detector, table[block], common) for detector, block in zip(detectors, blocks, strict=True)]
    return np.asarray(np.sqrt(np.mean(squares, axis=0)))


def _squares(detector: ScatterDetector, table: pd.DataFrame, common: _Common) -> NDArray[np.float64]:
    """σ² of every row, with what a common value can add to it held back."""
    squares = np.square(detector.scale(_read(table)))
    if common.concerns(table):
        far = np.flatnonzero(squares > np.quantile(squares, _NEAR))
        for start in range(0, len(far), _CHUNK):
            rows = far[start : start + _CHUNK]
            part = table.iloc[rows]
            push = detector.explain(_read(part))
            held = np.minimum(push, common.limits(part))
            squares[rows] *= (detector.df + held.sum(1)) / (detector.df + push.sum(1))
    return np.asarray(squares)


def _read(table: pd.DataFrame) -> Any:
    """As the detector takes it: an array where all columns are numbers, which it reads at once."""
    kinds = {column.kind for column in table.dtypes}
    return table.to_numpy() if kinds == {"f"} else table


class _Common:
    """How far numbers in discrete columns can be off: to one that a share p of the rows has, -2 log p.

    Under a normal, a flag that one row in twenty carries is four deviations off: each of those rows would be odd.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self.shares: dict[str, pd.Series[float]] = {}
        for name in table.columns:
            column = table[name]
            numbers = pd.api.types.is_numeric_dtype(column.dtype)
            if numbers and len(np.unique(column.to_numpy()[:_LOOK])) <= _DISCRETE:
                shares = column.value_counts(normalize=True)
                if len(shares) <= _DISCRETE:
                    self.shares[name] = shares

    def concerns(self, table: pd.DataFrame) -> bool:
        return any(name in self.shares for name in table.columns)

    def limits(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """The most that each value may add to the squared distance of its row."""
        limits = np.full(table.shape, np.inf)
        for j, name in enumerate(table.columns):
            if name in self.shares:
                share = table[name].map(self.shares[name]).to_numpy(np.float64)
                limits[:, j] = np.where(np.isnan(share), np.inf, -2 * np.log(np.maximum(share, 1e-300)))
        return limits


def _blamed(suspects: tuple[Suspect, ...]) -> tuple[Table, ...]:
    """How often each column is the first reason."""
    counts = (
        pd.Series([suspect.reasons[0].what for suspect in suspects if suspect.reasons], dtype=object)
        .value_counts()
        .head(10)
    )
    frame = counts.to_frame("rows")
    frame.index.name = "column"
    return (Table(frame, "Number of rows that each column sets apart most."),) if len(frame) else ()
