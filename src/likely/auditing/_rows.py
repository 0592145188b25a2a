"""Rows that do not fit the rest: a scale for each row under one covariance, and the columns that ask for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._page import Table
from likely.auditing._columns import MODELLED, Columns
from likely.auditing._finding import Explained, Finding, Reason, Suspect, number, worst_first
from likely.outliers import ScatterDetector
from likely.outliers._threshold import false_alarms

_WIDE = 200  # columns under one covariance; wider tables are cut into blocks
_FALSE = 0.1  # the share of false alarms among the rows that are named
_REASONS = 5
_DISCRETE = 20  # values of a column of numbers that is discrete
_LOOK, _CHUNK = 2_000, 50_000
_SAMPLE = 100_000  # rows that tell what is usual in a column
_NEAR = 0.75  # of the rows are ordinary anyway


def odd_rows(
    columns: Columns, leave_out: set[str], first: NDArray[np.bool_] | None = None, *, named: bool = True
) -> Finding | None:
    """Rows whose scale is far above the usual, by the columns that can be modelled; None where there are too few.

    ``first`` marks one of every group of equal rows: copies would make their own oddity usual. Columns that are not
    ``named`` by people are no reason to give.
    """
    names = [name for name in columns.named(*MODELLED) if name not in leave_out]
    table = columns.typed[names]
    if not names or len(table) < 10:
        return None
    blocks = [names[start : start + _WIDE] for start in range(0, len(names), _WIDE)]
    common = _Common(table)
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn adds all values up to see whether one is infinite
        detectors = [
            ScatterDetector().fit(_read(table[block] if first is None else table[block][first])) for block in blocks
        ]
        squares = [_squares(detector, table[block], common) for detector, block in zip(detectors, blocks, strict=True)]
    scale = np.sqrt(np.mean(squares, axis=0))
    certainty = 1 - false_alarms(np.log(scale))
    suspicious = certainty >= 1 - _FALSE
    sample = table if len(table) <= _SAMPLE else table.sample(_SAMPLE, random_state=0)

    def explain(rows: NDArray[np.int64]) -> Any:
        if not named:
            yield from (Explained(f"{scale[row]:,.1f} × the usual scale") for row in rows)
            return
        own = table.iloc[rows]
        with np.errstate(over="ignore", invalid="ignore"):
            parts = [
                np.minimum(detector.explain(_read(own[block])), common.limits(own[block]))
                for detector, block in zip(detectors, blocks, strict=True)
            ]
        push = np.concatenate(parts, axis=1)
        share = push / np.maximum(push.sum(1, keepdims=True), 1e-300)
        for row, weights in zip(rows, share, strict=True):
            order = np.argsort(-weights)[:_REASONS]
            reasons = [
                _reason(table[names[j]].iloc[row], sample[names[j]], float(weights[j]))
                for j in order
                if weights[j] > 0.01
            ]
            blamed = " and ".join(reason.what for reason in reasons[:2]) or "all columns together"
            yield Explained(
                f"{scale[row]:,.1f} × the usual scale, by {blamed}", reasons, float(scale[row]), wrong=False
            )

    count = int(suspicious.sum())
    # Certainties that round to one are told apart by their scales, and still are at most one.
    found = worst_first("rows", np.minimum(certainty, 1.0) - 1e-6 / (1 + scale), suspicious, explain)
    return Finding(
        "rows",
        "Rows that do not fit the rest",
        f"{count:,} of {len(table):,} rows lie far from where the others are."
        if count
        else "No row lies further out than so many ordinary ones would.",
        scores={"row_scale": scale, "row_odd": certainty},
        numbers={"rows": count, "columns": len(names)},
        tables=_blamed(found["suspects"]),
        **found,
    )


def _squares(detector: ScatterDetector, table: pd.DataFrame, common: _Common) -> NDArray[np.float64]:
    """σ² of every row, with what a common value can add to it held back."""
    found = np.square(detector.scale(_read(table)))
    if common.concerns(table):
        far = np.flatnonzero(found > np.quantile(found, _NEAR))
        for start in range(0, len(far), _CHUNK):
            rows = far[start : start + _CHUNK]
            part = table.iloc[rows]
            push = detector.explain(_read(part))
            held = np.minimum(push, common.limits(part))
            found[rows] *= (detector.df + held.sum(1)) / (detector.df + push.sum(1))
    return np.asarray(found)


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
        found = np.full(table.shape, np.inf)
        for j, name in enumerate(table.columns):
            if name in self.shares:
                share = table[name].map(self.shares[name]).to_numpy(np.float64)
                found[:, j] = np.where(np.isnan(share), np.inf, -2 * np.log(np.maximum(share, 1e-300)))
        return found


def _blamed(suspects: tuple[Suspect, ...]) -> tuple[Table, ...]:
    """How often each column is the first reason."""
    counts = pd.Series([own.reasons[0].what for own in suspects if own.reasons], dtype=object).value_counts().head(10)
    frame = counts.to_frame("rows")
    frame.index.name = "column"
    return (Table(frame, "The column that sets a row apart most, by how many rows."),) if len(frame) else ()


def _reason(value: Any, column: pd.Series[Any], share: float) -> Reason:
    """A value beside what is usual in its column."""
    name = str(column.name)
    if pd.api.types.is_numeric_dtype(column.dtype):
        low, high = column.quantile([0.05, 0.95])
        return Reason(name, number(float(value)), f"usually {number(low)} to {number(high)}", share)
    often = float((column == value).mean())
    return Reason(name, "missing" if value is None else str(value), f"in {often:.2%} of rows", share)
