"""Rows that do not fit the rest: by the pattern that the columns follow, and by a scale for each row."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._page import Table
from likely._typing import Array, Index, Mask
from likely.auditing.columns.kinds import MODELLED, ColumnReader, Columns
from likely.auditing.columns.scale import Squash
from likely.auditing.expected_values.additive_model import Judged, Pattern
from likely.auditing.expected_values.similar_rows import Neighbours
from likely.auditing.expected_values.tails import RARE
from likely.auditing.identities.functions import ExactRelations, exact_values
from likely.auditing.identities.identity import Identity, held
from likely.auditing.odd_rows.wording import RowWords
from likely.auditing.results.finding import Explained, Finding, Suspect, worst_first
from likely.auditing.results.spread import Spread, Weighted
from likely.auditing.slips.row_slips import Change
from likely.auditing.slips.search import SlipSearch
from likely.outliers import ScatterDetector
from likely.outliers._threshold import false_alarms

_WIDE = 200  # columns under one covariance; wider tables are cut into blocks
_FALSE = 0.1  # the share of false alarms among the rows that are named
_IN_LINE = 0.1  # by which a row that is far out, but in line with others, is less surely a problem
NAMED = 1 - _FALSE - _IN_LINE  # the certainty from which a row is named
_SLIPPED = 0.2  # the same among the rows that a slip mends
_FEWEST = 10  # rows
_DISCRETE = 20  # values of a column of numbers that is discrete
_LOOK, _CHUNK = 2_000, 20_000
_UNITS = 10_000  # rows that tell the units of numbers
_NEAR = 0.75  # of the rows are ordinary anyway
Scores = dict[str, Array]


def odd_rows(
    columns: Columns,
    leave_out: set[str],
    first: Mask | None = None,
    identities: Sequence[Identity] = (),
    *,
    named: bool = True,
) -> Finding | None:
    """Rows of a table in memory that break the pattern of the others, or lie far from where they are."""
    fitted = OddRows.fit(columns, leave_out, first, identities, named=named)
    if fitted is None:
        return None
    typed = columns.typed
    return fitted.tell(typed, np.arange(len(typed)), fitted.scores, fitted.certainty({}, len(typed)))


@dataclass(frozen=True)
class OddRows:
    """Models of a sample of rows, which score its rows and further ones.

    Two views: how rare each value is given the others of its row, and the row's scale under one covariance. ``scores``
    are those of the sample: models that have not seen a row judge it.
    """

    columns: ColumnReader
    units: dict[str, Squash]
    scatters: list[_Scatter]
    scores: Scores
    table: Neighbours | None = None
    pattern: Pattern | None = None
    exact: ExactRelations | None = None
    identities: Sequence[Identity] = ()
    slips: Mapping[int, Change] | None = None  # of rows of the sample, by which each would be ordinary

    @classmethod
    def fit(
        cls,
        columns: Columns,
        leave_out: set[str],
        first: Mask | None = None,
        identities: Sequence[Identity] = (),
        *,
        named: bool = True,
        whole: bool = True,
    ) -> Self | None:
        """Fit to a sample: its first rows among equal ones; slips are looked for where it is the ``whole`` table."""
        names = [name for name in columns.named(*MODELLED) if name not in leave_out]
        if not names or len(columns.typed) < _FEWEST:
            return None
        table = columns.typed[names]
        units = _units_of(table) if named else {}
        squashed = _squashed(table, units)
        reader = ColumnReader.of(columns, leave_out)
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # scikit-learn adds all values up to see whether one is infinite
            fits = [
                _Scatter.fit(squashed[names[start : start + _WIDE]], first) for start in range(0, len(names), _WIDE)
            ]
        scores = {"row_scale": np.asarray(np.sqrt(np.mean([squares for _, squares in fits], axis=0)))}
        scatters = [scatter for scatter, _ in fits]
        if not named or len(names) > _WIDE:
            return cls(reader, units, scatters, scores)
        neighbours = Neighbours.of(columns, leave_out)
        pattern = Pattern.of(neighbours, first)
        search = SlipSearch(neighbours, pattern) if whole else None
        scores["nats"] = _surprises(pattern, neighbours, search, held(identities, neighbours.names, table))
        slips = None
        if search is not None:
            scores["slip"] = search.chance(first)
            slips = {int(row): search.change(int(row)) for row in np.flatnonzero(scores["slip"] <= _SLIPPED)}
        exact = None if whole else ExactRelations.of(_numbers_only(neighbours, neighbours.values))
        return cls(reader, units, scatters, scores, neighbours, pattern, exact, identities, slips)

    def score(self, typed: pd.DataFrame, places: Index) -> Scores:
        """The scale σ of each row, and how rare its rarest value is, in nats; rows of the sample keep their scores.

        ``places`` are those of the rows in the sample, or the number of its rows for further ones.
        """
        known = places < len(self.scores["row_scale"])
        scores = {name: np.ones(len(places)) for name in self.scores}
        if len(new := np.flatnonzero(~known)):
            part = typed.iloc[new]
            squashed = _squashed(part, self.units)
            with np.errstate(over="ignore", invalid="ignore"):
                squares = [scatter.squares(squashed) for scatter in self.scatters]
            scores["row_scale"][new] = np.sqrt(np.mean(squares, axis=0))
            if self.pattern is not None:
                scores["nats"][new] = self._surprises(part)
        for name, of_sample in self.scores.items():
            scores[name][known] = of_sample[places[known]]
        return scores

    def _surprises(self, typed: pd.DataFrame) -> Array:
        """The nats of further rows: the fit to the whole sample judges them."""
        assert self.pattern is not None
        assert self.table is not None
        assert self.exact is not None
        nats = np.empty(len(typed))
        values = [typed[name].to_numpy() for name in self.table.names]
        exact = self.exact(_numbers_only(self.table, values), len(typed))
        confirmed = held(self.identities, self.table.names, typed)
        exact = exact if confirmed is None else exact | confirmed
        pattern = replace(self.pattern, fold=np.array([len(self.pattern.mean) - 1]))
        for start in range(0, len(typed), _CHUNK):
            rows = slice(start, start + _CHUNK)
            z = self._points([column[rows] for column in values])
            nats[rows], _ = _rarest(pattern, z, np.zeros(len(z), np.int64), exact[rows])
        return nats

    def _points(self, values: Sequence[NDArray[Any]]) -> Array:
        assert self.table is not None
        known = zip(self.table.names, self.table.units, values, strict=True)
        parts = [self.columns.codes(name, column) if unit is None else unit(column) for name, unit, column in known]
        return np.array(parts, np.float64).T

    def certainty(self, spreads: Mapping[str, Spread], rows: int) -> Certainty:
        """How surely rows are odd, by the scores of all rows; without ``spreads``, by those of the sample."""

        def all_scores(name: str) -> Weighted:
            return spreads[name].summary() if name in spreads else Spread.of(self.scores[name], rows).summary()

        nats = all_scores("nats") if "nats" in self.scores else None
        return Certainty.of(nats, all_scores("row_scale"))

    def tell(
        self,
        typed: pd.DataFrame,
        places: Index,
        scores: Scores,
        certainty: Certainty,
        count: int | None = None,
        rows: int = 0,
    ) -> Finding:
        """The finding about some rows: all of a table, or the worst of the ``count`` that are odd among so many."""
        broken, sure = certainty(scores)
        scale = scores["row_scale"]
        explain: Any = lambda listed: (_by_scale(scale[row]) for row in listed)  # noqa: E731
        if self.pattern is not None:
            explain = self._words(typed, places, broken)
        return _finding(scale, sure, len(self.columns.kinds), explain, count, rows)

    def _words(self, typed: pd.DataFrame, places: Index, broken: Array) -> Any:
        """What explains rows: those that are no rows of the sample are put below it."""
        assert self.table is not None
        assert self.pattern is not None
        n, new = self.table.rows, np.flatnonzero(places >= self.table.rows)
        at, table, fold = places.copy(), self.table, self.pattern.fold
        if len(new):
            at[new] = n + np.arange(len(new))
            table = extended(self.table, self.columns, typed.iloc[new])
            fold = np.concatenate([fold, np.full(len(new), len(self.pattern.mean) - 1)])
        certainty = np.zeros(n + len(new))
        certainty[at] = broken
        words = RowWords(table, replace(self.pattern, fold=fold), certainty, self.slips or {})
        return lambda rows: words.explain(at[rows])


@dataclass(frozen=True)
class Certainty:
    """How surely rows are odd, by the scores of all rows."""

    nats: tuple[Array, Array] | None
    scale: tuple[Array, Array]

    @classmethod
    def of(cls, nats: Weighted | None, scale: Weighted) -> Self:
        """From values of all rows and the number of rows that each stands for."""
        logs = np.log(scale.values)
        by_scale, alarms = np.argsort(logs), false_alarms(logs, scale.weights)
        of_scale = logs[by_scale], alarms[by_scale]
        if nats is None:
            return cls(None, of_scale)
        order = np.argsort(-nats.values)
        weights = np.ones(len(order)) if nats.weights is None else nats.weights[order]
        expected = np.exp(-nats.values[order]) * weights.sum() / np.cumsum(weights)
        rare = np.minimum(np.minimum.accumulate(expected[::-1]), 1.0)
        return cls((nats.values[order][::-1], rare), of_scale)

    def __call__(self, scores: Mapping[str, Any]) -> tuple[Array, Array]:
        """How surely rows break the pattern, and how surely they are odd."""
        far = 1 - np.interp(np.log(scores["row_scale"]), *self.scale)
        if self.nats is None:
            return np.zeros(len(far)), far
        nats = np.asarray(scores["nats"])
        broken = 1 - np.interp(nats, *self.nats)
        # The end of a column in which many rows lie, say the least of seven values, is where its tail begins, and not
        # rare.
        broken = np.where(nats > RARE, broken, np.minimum(broken, NAMED - _IN_LINE))
        # What a slip mends, and changes that nobody makes do not, is wrong though others are as rare.
        if "slip" in scores:
            chance = np.asarray(scores["slip"])
            broken = np.where(chance <= _SLIPPED, np.maximum(broken, 1 - chance), broken)
        # Far out, but in line with the others: less surely a problem than what breaks the pattern.
        return broken, np.where(broken >= 1 - _FALSE, broken, np.maximum(broken, far - _IN_LINE))


class _Scatter(NamedTuple):
    """σ² of every row under one covariance, with what a common value can add to it held back.

    Under a normal, a flag that one row in twenty carries is four deviations off: each of those rows would be odd. A
    value that a share p of the rows has may add -2 log p.
    """

    names: list[str]
    detector: ScatterDetector
    shares: dict[str, pd.Series[float]]  # of the values of discrete columns
    near: float

    @classmethod
    def fit(cls, table: pd.DataFrame, first: Mask | None) -> tuple[Self, Array]:
        """The fit to rows, and σ² of each."""
        detector = ScatterDetector().fit(_read(table if first is None else table[first]))
        squares = np.square(detector.scale(_read(table)))
        shares = {str(name): share for name in table.columns if (share := _shares(table[name])) is not None}
        scatter = cls(list(table.columns), detector, shares, float(np.quantile(squares, _NEAR)))
        return scatter, scatter._held_back(table, squares)

    def squares(self, table: pd.DataFrame) -> Array:
        """σ² of further rows."""
        part = table[self.names]
        return self._held_back(part, np.square(self.detector.scale(_read(part))))

    def _held_back(self, table: pd.DataFrame, squares: Array) -> Array:
        far = np.flatnonzero(squares > self.near) if self.shares else np.zeros(0, np.int64)
        for start in range(0, len(far), _CHUNK):
            rows = far[start : start + _CHUNK]
            part = table.iloc[rows]
            push = self.detector.explain(_read(part))
            held_back = np.minimum(push, self._limits(part))
            squares[rows] *= (self.detector.df + held_back.sum(1)) / (self.detector.df + push.sum(1))
        return np.asarray(squares)

    def _limits(self, table: pd.DataFrame) -> Array:
        """The most that each value may add to the squared distance of its row."""
        limits = np.full(table.shape, np.inf)
        for j, name in enumerate(table.columns):
            if name in self.shares:
                share = table[name].map(self.shares[name]).to_numpy(np.float64)
                limits[:, j] = np.where(np.isnan(share), np.inf, -2 * np.log(np.maximum(share, 1e-300)))
        return limits


def _shares(column: pd.Series[Any]) -> pd.Series[float] | None:
    """How frequent each value of a column is, if it is one of numbers with few different values."""
    numbers = pd.api.types.is_numeric_dtype(column.dtype)
    if not numbers or len(np.unique(column.to_numpy()[:_LOOK])) > _DISCRETE:
        return None
    shares = column.value_counts(normalize=True)
    return shares if len(shares) <= _DISCRETE else None


def _units_of(table: pd.DataFrame) -> dict[str, Squash]:
    """The scales of numbers: an extreme of a heavy tail is no further out than others."""
    stride = -(-len(table) // _UNITS)
    numbers = [name for name in table.columns if pd.api.types.is_numeric_dtype(table[name].dtype)]
    return {name: Squash.of(table[name].to_numpy()[::stride], by_tails=True) for name in numbers}


def _squashed(table: pd.DataFrame, units: Mapping[str, Squash]) -> pd.DataFrame:
    columns = {name: table[name].to_numpy() for name in table.columns}
    return pd.DataFrame({name: units[name](values) if name in units else values for name, values in columns.items()})


def _surprises(pattern: Pattern, table: Neighbours, search: SlipSearch | None, confirmed: Mask | None) -> Array:
    """The nats of the rows of a sample, which are looked through for slips on the way.

    ``confirmed`` marks values that a sum of columns confirms.
    """
    surprises = np.empty(table.rows)
    exact = exact_values(_numbers_only(table, table.values), table.rows)
    exact = exact if confirmed is None else exact | confirmed

    def judge(start: int) -> None:
        rows = np.arange(start, min(start + _CHUNK, table.rows))
        z = table.points(rows)
        surprises[rows], judged = _rarest(pattern, z, rows, exact[rows])
        if search is not None:
            search.look(rows, z, judged)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # NumPy lets go of the interpreter while it computes
        deque(pool.map(judge, range(0, table.rows, _CHUNK)), maxlen=0)
    return surprises


def _rarest(pattern: Pattern, z: Array, places: Index, exact: Mask) -> tuple[Array, Judged]:
    """How rare the rarest value of each row is, given the others, in nats, less what as many columns bring about."""
    count = np.maximum((~np.isnan(z)).sum(1), 1)
    judged = pattern.judge(z, places)
    judged.nats[exact] = 0.0
    return judged.nats.max(1) - np.log(count), judged


def _numbers_only(table: Neighbours, values: Sequence[NDArray[Any]]) -> list[NDArray[Any] | None]:
    """The columns of numbers among the columns of a table, or of further rows of it; None for each category."""
    return [None if unit is None else column for unit, column in zip(table.units, values, strict=True)]


def _read(table: pd.DataFrame) -> Any:
    """As the detector takes it: an array where all columns are numbers, which it reads at once."""
    kinds = {column.kind for column in table.dtypes}
    return table.to_numpy() if kinds == {"f"} else table


def extended(table: Neighbours, columns: ColumnReader, typed: pd.DataFrame) -> Neighbours:
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


def _finding(
    scale: Array,
    certainty: Array,
    columns: int,
    explain: Callable[[Index], Iterable[Explained]],
    count: int | None,
    rows: int,
) -> Finding:
    suspicious = certainty >= NAMED
    count, rows = (int(suspicious.sum()), len(scale)) if count is None else (count, rows)
    # Certainties that round to one are told apart by their scales, and still are at most one.
    ranked = worst_first("rows", np.minimum(certainty, 1.0) - 1e-6 / (1 + scale), suspicious, explain)
    wrong = sum(suspect.wrong for suspect in ranked["suspects"])
    return Finding(
        "rows",
        "Rows that do not fit the rest",
        _summary(count, wrong, rows) if count else "No row is further out than chance explains.",
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
