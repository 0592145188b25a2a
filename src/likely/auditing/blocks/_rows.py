"""How odd each row of a long table is, by models of a sample of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._typing import Array
from likely.auditing import _rows
from likely.auditing._columns import MODELLED, Columns
from likely.auditing._exact import ExactRelations
from likely.auditing._finding import Finding
from likely.auditing._identities import Identity, held
from likely.auditing._neighbours import Neighbours
from likely.auditing._pattern import Pattern
from likely.auditing._repair import RARE
from likely.auditing._row_words import RowWords
from likely.auditing._squash import Squash
from likely.auditing.blocks._columns import BlockColumns
from likely.outliers import ScatterDetector
from likely.outliers._threshold import false_alarms

_CHUNK = 20_000  # rows at a time
NAMED = 1 - _rows._FALSE - _rows._IN_LINE  # the certainty from which a row is named


@dataclass(frozen=True)
class RowScores:
    """The models of :func:`likely.auditing._rows.odd_rows`, fitted to a sample, for further rows."""

    columns: BlockColumns
    units: dict[str, Squash]
    parts: list[tuple[list[str], ScatterDetector, float]]
    common: Any
    table: Neighbours | None
    pattern: Pattern | None
    exact: ExactRelations
    identities: Sequence[Identity] = ()

    @classmethod
    def of(
        cls,
        columns: Columns,
        leave_out: set[str],
        first: NDArray[np.bool_],
        identities: Sequence[Identity] = (),
    ) -> Self | None:
        """Fit the models to a sample."""
        names = [name for name in columns.named(*MODELLED) if name not in leave_out]
        if not names:
            return None
        table = columns.typed[names]
        units = {
            name: Squash.of(table[name].to_numpy()[:: -(-len(table) // _rows._UNITS)], by_tails=True)
            for name in names
            if pd.api.types.is_numeric_dtype(table[name].dtype)
        }
        squashed = _squashed(table, units)
        common = _rows._Common(squashed)
        parts = []
        for start in range(0, len(names), _rows._WIDE):
            group = names[start : start + _rows._WIDE]
            detector = ScatterDetector().fit(_rows._read(squashed[group][first]))
            near = float(np.quantile(np.square(detector.scale(_rows._read(squashed[group]))), _rows._NEAR))
            parts.append((group, detector, near))
        known = BlockColumns.of(columns, leave_out)
        if len(names) > _rows._WIDE:
            return cls(known, units, parts, common, None, None, ExactRelations(()))
        neighbours = Neighbours.of(columns, leave_out)
        pattern = Pattern.of(neighbours, first)
        # One further row stands for all rows outside the sample: the fit to the whole sample judges it.
        pattern = replace(pattern, fold=np.append(pattern.fold, len(pattern.mean) - 1))
        exact = ExactRelations.of(_rows.numbers_only(neighbours, neighbours.values))
        return cls(known, units, parts, common, neighbours, pattern, exact, identities)

    def __call__(self, typed: pd.DataFrame, places: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
        """Compute the scale σ of each row, and how rare its rarest value is, in nats."""
        squashed = _squashed(typed, self.units)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = [self._squares(squashed[names], detector, near) for names, detector, near in self.parts]
        scores = {"row_scale": np.sqrt(np.mean(squares, axis=0)).astype(np.float32)}
        if self.pattern is not None:
            scores["nats"] = self._surprises(typed, places)
        return scores

    def _squares(self, table: pd.DataFrame, detector: ScatterDetector, near: float) -> Array:
        squares = np.square(detector.scale(_rows._read(table)))
        far = np.flatnonzero(squares > near) if self.common.concerns(table) else np.zeros(0, np.int64)
        for start in range(0, len(far), _CHUNK):
            rows = far[start : start + _CHUNK]
            push = detector.explain(_rows._read(table.iloc[rows]))
            held = np.minimum(push, self.common.limits(table.iloc[rows]))
            squares[rows] *= (detector.df + held.sum(1)) / (detector.df + push.sum(1))
        return np.asarray(squares)

    def _surprises(self, typed: pd.DataFrame, places: NDArray[np.int64]) -> NDArray[np.float32]:
        assert self.pattern is not None
        assert self.table is not None
        nats = np.empty(len(typed), np.float32)
        exact = self.exact(
            _rows.numbers_only(self.table, [typed[name].to_numpy() for name in self.table.names]), len(typed)
        )
        confirmed = held(self.identities, self.table.names, typed)
        exact = exact if confirmed is None else exact | confirmed
        for start in range(0, len(typed), _CHUNK):
            rows = slice(start, start + _CHUNK)
            z = self._points(typed.iloc[rows])
            count = np.maximum((~np.isnan(z)).sum(1), 1)
            judged = self.pattern.judge(z, places[rows]).nats
            judged[exact[rows]] = 0.0
            nats[rows] = judged.max(1) - np.log(count)
        return nats

    def _points(self, typed: pd.DataFrame) -> Array:
        assert self.table is not None
        values = {name: typed[name].to_numpy() for name in self.table.names}
        units = zip(self.table.names, self.table.units, strict=True)
        parts = [self.columns.codes(name, values[name]) if unit is None else unit(values[name]) for name, unit in units]
        return np.array(parts, np.float64).T

    def finding(
        self, typed: pd.DataFrame, places: NDArray[np.int64], scores: pd.DataFrame, count: int, rows: int
    ) -> Finding:
        """The finding about the worst rows; it refers to them by their places among these rows."""
        scale, certainty = (scores[name].to_numpy(np.float64) for name in ("row_scale", "row_odd"))
        explain: Any = lambda listed: (_rows._by_scale(scale[row]) for row in listed)  # noqa: E731
        if self.table is not None and self.pattern is not None:
            explain = self._words(typed, places, scores["broken"].to_numpy(np.float64))
        finding = _rows._finding(scale, certainty, len(self.columns.kinds), explain)
        wrong = sum(suspect.wrong for suspect in finding.suspects)
        summary = _rows._summary(count, wrong, rows) if count else finding.summary
        return replace(finding, summary=summary, scores={}, numbers={**finding.numbers, "rows": count})

    def _words(self, typed: pd.DataFrame, places: NDArray[np.int64], broken: Array) -> Any:
        """What explains rows that are no rows of the sample: they are put below it."""
        assert self.table is not None
        assert self.pattern is not None
        n, table = self.table.rows, extended(self.table, self.columns, typed)
        pattern = replace(self.pattern, fold=np.concatenate([self.pattern.fold[:-1], self.pattern.fold[places]]))
        # A row of the sample is one of it, or it would be among the rows most like it.
        at = np.where(places < n, places, n + np.arange(len(places)))
        certainty = np.zeros(n + len(places))
        certainty[at] = broken
        words = RowWords(table, pattern, certainty)
        return lambda rows: words.explain(at[rows])


def _squashed(table: pd.DataFrame, units: dict[str, Squash]) -> pd.DataFrame:
    """The table with numbers squashed."""
    columns = {name: table[name].to_numpy() for name in table.columns}
    return pd.DataFrame({name: units[name](values) if name in units else values for name, values in columns.items()})


def extended(table: Neighbours, columns: BlockColumns, typed: pd.DataFrame) -> Neighbours:
    """A sample with further rows appended, which are compared with the sample."""
    levels = dict(table.levels)
    values: list[NDArray[np.floating]] = []
    for name, sample_values in zip(table.names, table.values, strict=True):
        new = typed[name].to_numpy()
        if name in levels:
            levels[name] = [*levels[name], *sorted({word for word in new if word is not None} - set(levels[name]))]
            new = replace(columns, levels=levels).codes(name, new).astype(np.float32)
        values.append(np.concatenate([sample_values, new]))
    return replace(table, values=values, levels=levels)


@dataclass(frozen=True)
class Certainty:
    """How surely rows are odd, by the scores of all rows of which the highest and some of the others are kept."""

    nats: tuple[Array, Array] | None
    scale: tuple[Array, Array]

    @classmethod
    def of(cls, nats: tuple[Array, Array] | None, scale: tuple[Array, Array]) -> Self:
        """From values and their weights."""
        by_scale = np.argsort(scale[0])
        alarms = false_alarms(scale[0], scale[1])
        if nats is None:
            return cls(None, (scale[0][by_scale], alarms[by_scale]))
        order = np.argsort(-nats[0])
        expected = np.exp(-nats[0][order]) * nats[1].sum() / np.cumsum(nats[1][order])
        rare = np.minimum(np.minimum.accumulate(expected[::-1]), 1.0)
        return cls((nats[0][order][::-1], rare), (scale[0][by_scale], alarms[by_scale]))

    def __call__(self, scale: Any, nats: Any) -> tuple[Array, Array]:
        """How surely rows break the pattern, and how surely they are odd."""
        far = 1 - np.interp(np.log(scale), *self.scale)
        if self.nats is None:
            return np.zeros(len(far)), far
        broken = 1 - np.interp(nats, *self.nats)
        broken = np.where(nats > RARE, broken, np.minimum(broken, 1 - _rows._FALSE - 2 * _rows._IN_LINE))
        return broken, np.where(broken >= 1 - _rows._FALSE, broken, np.maximum(broken, far - _rows._IN_LINE))
