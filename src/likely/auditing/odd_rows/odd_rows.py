"""Rows that do not fit the rest: by the pattern that the columns follow, and by a scale for each row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from likely._typing import Array, Index, Mask, Places
from likely.auditing.columns.kinds import MODELLED, Columns
from likely.auditing.columns.scale import AsinhScale
from likely.auditing.expected_values.additive_model import RARE, Pattern, surprise
from likely.auditing.expected_values.similar_rows import Neighbours
from likely.auditing.identities.functions import ExactRelations, counts_on
from likely.auditing.identities.identity import Identity, held
from likely.auditing.odd_rows.slips import SLIPPED, Change, SlipSearch
from likely.auditing.results.finding import Explained, Finding, OfAll, Reason, worst_first
from likely.outliers import ScatterDetector
from likely.outliers.threshold import false_alarms

_WIDE = 200  # columns under one covariance; wider tables are cut into blocks
NAMED = 0.8  # the certainty from which a row is named: one less a fifth of false alarms
_FEWEST = 10  # rows
_DISCRETE = 20  # values of a column of numbers that is discrete
_CHUNK = 20_000
_UNITS = 10_000  # rows that tell the units of numbers
# Judged by the entries of real tables, the half on which they were chosen: without the next three, seven of twelve
# values called wrong are.
_SURE, _SURE_SLIP = 0.98, 0.95  # the certainty of being odd from which a value may be called wrong
_TOLD = 0.7  # of the deviations of a column are told by the others: where less are, its rare values are no errors
_FAR_OUT = 0.999  # the certainty from which a row is odd although it follows the pattern,
_SELDOM = 0.05  # if fewer of the rows are; what so few rows share may be their cause
_ORDINARY = 0.95  # of the rows are surprising to at most this degree: a mended row has to be one of them
_REASONS = 5
_KEPT = 1_000_000  # scores that stand for those of all rows
_HIGHEST = 100_000  # scores that are kept as they are, of more
_SHARED = 3  # rows that share a cause, at least; they are half, or more, of those of which the column is blamed
Scores = dict[str, Array]


def odd_rows(columns: Columns, leave_out: set[str], first: Mask | None = None, *, named: bool = True) -> Finding | None:
    """Rows of a table in memory that break the pattern of the others, or lie far from where they are."""
    fitted = OddRows.fit(columns, leave_out, first, (), named=named)
    if fitted is None:
        return None
    typed = columns.typed
    return fitted.tell(typed, np.arange(len(typed)), fitted.certainty())


@dataclass(frozen=True)
class OddRows:
    """Models of a sample of rows, which score its rows and further ones.

    Two views: how rare each value is given the others of its row, and the row's scale under one covariance. ``scores``
    are those of the sample: models that have not seen a row judge it.
    """

    units: dict[str, AsinhScale] | None
    scatters: list[ScatterDetector]
    scores: Scores
    values: _RareValues | None = None

    @classmethod
    def fit(
        cls,
        columns: Columns,
        leave_out: set[str],
        first: Mask | None,
        identities: Sequence[Identity],
        *,
        named: bool = True,
        whole: bool = True,
    ) -> Self | None:
        """Fit to a sample: its first rows among equal ones; slips are looked for where it is the ``whole`` table."""
        names = columns.named(*MODELLED, but=leave_out)
        if not names or len(columns.typed) < _FEWEST:
            return None
        table = columns.typed[names]
        units = _units_of(table) if named else None
        scaled = _scaled(table, units)
        fitted = scaled if first is None else scaled[first]
        blocks = [names[start : start + _WIDE] for start in range(0, len(names), _WIDE)]
        scatters = [ScatterDetector().fit(fitted[block]) for block in blocks]
        scores = {"row_scale": _row_scale(scatters, scaled)}
        if not named or len(names) > _WIDE:
            return cls(units, scatters, scores)
        values = _RareValues.fit(Neighbours.of(columns, leave_out), first, identities, whole)
        scores["nats"] = values.nats(values.table, values.pattern.fold, table)
        if values.search is not None:
            scores["slip"] = values.search.chance(first)
        return cls(units, scatters, scores, values)

    def score(self, typed: pd.DataFrame, places: Index) -> Scores:
        """The scale σ of each row, and how rare its rarest value is, in nats; rows of the sample keep their scores.

        ``places`` are those of the rows in the sample, or the number of its rows for further ones.
        """
        known = places < len(self.scores["row_scale"])
        scores = {name: np.ones(len(places)) for name in self.scores}
        if len(new := np.flatnonzero(~known)):
            part = typed.iloc[new]
            scores["row_scale"][new] = _row_scale(self.scatters, _scaled(part, self.units))
            if self.values is not None:
                scores["nats"][new] = self.values.nats_of_further(part)
        for name, of_sample in self.scores.items():
            scores[name][known] = of_sample[places[known]]
        return scores

    def certainty(self, of_all: Any = None) -> Certainty:
        """How surely rows are odd, by the scores of all rows, or else by those of the sample."""
        scores = self.scores if of_all is None else of_all
        return Certainty.of(scores["nats"] if "nats" in self.scores else None, scores["row_scale"])

    def tell(self, typed: pd.DataFrame, places: Index, certainty: Certainty, of_all: OfAll = None) -> Finding:
        """The finding about all rows of a table, or about the worst of those that are odd."""
        scores = self.score(typed, places)
        sure = certainty(scores)
        scale, suspicious = scores["row_scale"], sure >= NAMED
        explain: Any = lambda listed: map(_by_scale, scale[listed])  # noqa: E731
        if self.values is not None:
            explain = self.values.explainer(typed, places, sure)
        # Certainties that round to one are told apart by their scales, and still are at most one.
        ranked = worst_first("rows", np.minimum(sure, 1.0) - 1e-6 / (1 + scale), suspicious, explain)
        named = int(suspicious.sum())
        total, rows = of_all or (named, len(scale))
        count = total - named + len(ranked["rows"])  # without those that similar rows are like
        wrong = sum(suspect.wrong for suspect in ranked["suspects"])
        return Finding(
            "rows",
            "Rows that do not fit the rest",
            _summary(count, wrong, rows) if count else "No row is further out than chance explains.",
            scores={"row_scale": scale, "row_odd": sure},
            numbers={"rows": count, "wrong": wrong},
            found=False,
            **ranked,
        )


@dataclass(frozen=True)
class Certainty:
    """How surely rows are odd, by the scores of all rows."""

    nats: tuple[Array, Array] | None
    scale: tuple[Array, Array]

    @classmethod
    def of(cls, nats: Array | None, scale: Array) -> Self:
        """From the scores of all rows."""
        values, weights = spread_of(scale)
        logs = np.log(values)
        by_scale, alarms = np.argsort(logs), false_alarms(logs, weights)
        of_scale = logs[by_scale], alarms[by_scale]
        if nats is None:
            return cls(None, of_scale)
        values, weights = spread_of(nats)
        order = np.argsort(-values)
        values, weights = values[order], np.ones(len(order)) if weights is None else weights[order]
        # The share of false alarms among rows that are at least as rare (Benjamini and Hochberg, 1995).
        expected = np.exp(-values) * weights.sum() / np.cumsum(weights)
        rare = np.minimum(np.minimum.accumulate(expected[::-1]), 1.0)
        return cls((values[::-1], rare), of_scale)

    def __call__(self, scores: Mapping[str, Any]) -> Array:
        """How surely rows break the pattern; where there is none, how surely they are far out.

        Rows that are far out, but follow the pattern, are odd only if nearly no clean row is as far out: those less far
        were two thirds of the entries of clean tables.
        """
        far = 1 - np.interp(np.log(scores["row_scale"]), *self.scale)
        if self.nats is None:
            return far
        nats = np.asarray(scores["nats"])
        broken = 1 - np.interp(nats, *self.nats)
        # What a slip mends more often than chance explains is wrong though others are as rare.
        out = far > _FAR_OUT
        if "slip" in scores:
            chance = np.asarray(scores["slip"])
            broken = np.maximum(broken, (chance <= SLIPPED) * (1 - chance))
            out |= chance < 1
        return np.maximum(broken, out * (far - 0.1))


def spread_of(values: Array) -> tuple[Array, Array | None]:
    """Scores of all rows, and of how many rows each is: of very many the highest, and every so many-th of the others.

    >>> values, weights = spread_of(np.arange(3_000_000) % 7)
    >>> round(float(weights.sum())) == 3_000_000, float(values.max())
    (True, 6.0)
    """
    n, stride, values = len(values), max(1, len(values) // _KEPT), np.asarray(values, np.float64)
    if stride == 1:
        return values, None
    highest = np.partition(values, -_HIGHEST)[-_HIGHEST:]
    others = values[::stride]
    others = others[others < highest.min()]
    if not len(others):  # all others equal the lowest of the highest
        others = highest.min(keepdims=True)
    weights = np.full(len(others), (n - _HIGHEST) / len(others))
    return np.append(highest, others), np.append(np.ones(_HIGHEST), weights)


class _RareValues(NamedTuple):
    """How rare each value of a row is given the others, but for values that other columns confirm."""

    table: Neighbours
    pattern: Pattern
    exact: ExactRelations
    identities: Sequence[Identity]
    search: SlipSearch | None  # of the rows of a whole table

    @classmethod
    def fit(cls, table: Neighbours, first: Mask | None, identities: Sequence[Identity], whole: bool) -> Self:
        pattern, exact = Pattern.of(table, first), ExactRelations.of(table.numbers)
        return cls(table, pattern, exact, identities, SlipSearch(table, pattern) if whole else None)

    def nats(self, table: Neighbours, fold: Places, typed: pd.DataFrame) -> Array:
        """How rare the rarest value of each row is, less what as many columns bring about; finds slips on the way."""
        exact = self.exact(table.numbers, table.rows) | held(self.identities, table.names, typed)
        for j, column in enumerate(table.numbers):
            if column is not None:
                exact[:, j] |= counts_on(column)
        pattern, nats = replace(self.pattern, fold=fold, series=table.series), np.empty(table.rows)
        for start in range(0, table.rows, _CHUNK):
            rows = np.arange(start, min(start + _CHUNK, table.rows))
            z = table.points(rows)
            judged = pattern.judge(z, rows)
            judged.nats[exact[rows]] = 0.0
            nats[rows] = judged.nats.max(1) - np.log(np.maximum((~np.isnan(z)).sum(1), 1))
            if self.search is not None:
                self.search.look(rows, z, judged)
        return nats

    def nats_of_further(self, typed: pd.DataFrame) -> Array:
        """The same of rows outside the sample, by the fit to all of it."""
        return self.nats(self.table.of_rows(typed), np.full(len(typed), self.pattern.whole), typed)

    def explainer(self, typed: pd.DataFrame, places: Index, broken: Array) -> Callable[[Index], Iterable[Explained]]:
        """What explains rows: those that are no rows of the sample are put below it."""
        n, new, at, search = self.table.rows, np.flatnonzero(places >= self.table.rows), places.copy(), self.search
        at[new] = n + np.arange(len(new))
        if search is None:
            fold = np.append(self.pattern.fold, np.full(len(new), self.pattern.whole))
            search = SlipSearch(self.table.extended(typed.iloc[new]), replace(self.pattern, fold=fold))
        words = RowWords(search)
        return lambda rows: words.explain(at[rows], broken[rows])


@dataclass(frozen=True)
class RowWords:
    """Explains odd rows.

    A value is called wrong if changing it alone makes its row ordinary, and it lies apart from what similar rows have.
    How far off it is was judged by the tail of such deviations, so the extreme of a heavy tail is not called wrong. A
    row that is odd in many columns together is odd, and may be right.
    """

    search: SlipSearch

    @property
    def table(self) -> Neighbours:
        """The rows, and the sample that they are compared with."""
        return self.search.table

    def explain(self, rows: Index, certainty: Array) -> list[Explained]:
        """Explain some rows that break the pattern so surely; those that similar rows are like have no headline."""
        z, (limit, told) = self.table.points(rows), self._ordinary()
        judged = self.search.pattern.judge(z, rows)
        self.search.look(rows, z, judged)
        explained, columns = list[Explained](), list[int]()
        for at, row in enumerate(rows.tolist()):
            nats, change = judged.nats[at], self.search.best(row, z[at], judged.of_row(at))
            order = [change.column, *(j for j in np.argsort(-nats, kind="stable").tolist() if j != change.column)]
            reasons, apart = self._reasons(row, change, nats, order[:_REASONS])
            headline, group = self._headline(row, change)
            least = _SURE_SLIP if change.plain else _SURE
            # A swap may fit by chance: of those that are not plain, two of four that were called wrong were not.
            told_by_others = told[change.column] >= _TOLD and change.swapped < 0
            sure = certainty[at] >= least and (change.plain or told_by_others)
            wrong = bool(sure and change.left <= limit and apart)
            explained.append(Explained(headline, reasons, float(np.sqrt(2 * nats.max())), wrong, group))
            columns.append(change.column if headline else -1)
        groups = self._groups(rows, columns, [own.group for own in explained])
        return [own._replace(group=group) for own, group in zip(explained, groups, strict=True)]

    def _groups(self, rows: Index, columns: list[int], groups: list[str]) -> list[str]:
        """What rows share of which the same column is blamed: a hint, or else a sign or a level that is rare."""
        table, often = self.table, Counter(groups)
        groups = [group if often[group] >= _SHARED else "" for group in groups]
        words = [k for k, unit in enumerate(table.units) if unit is None]
        for j in {*columns} - {-1}:
            for k in [j, *words]:
                codes = table.values[k] if k in words else np.sign(table.values[k])
                left = [at for at, column in enumerate(columns) if column == j and not groups[at]]
                top, count = Counter([*codes[rows[left]].tolist(), None]).most_common(1)[0]
                if count >= max(_SHARED, len(left) / 2) and (codes[table.sample] == top).mean() < _SELDOM:
                    members = [at for at in left if codes[rows[at]] == top]
                    shown = table.shown(rows[members[0]], table.names[k])
                    what = f"= {shown}" if k in words else f"{'<=>'[int(top) + 1]} 0"
                    where = "" if k == j else f" where {table.names[k]}"
                    for at in members:
                        groups[at] = f"{table.names[j]}{where} {what}, unlike similar rows"
        return groups

    def _ordinary(self) -> tuple[float, Array]:
        """How surprising an ordinary row may be, in nats, and the share of each column that the others tell."""
        rows = self.table.sample
        z = self.table.points(rows)
        judged = self.search.pattern.judge(z, rows)
        spread = np.nanmean(np.abs(z - np.nanmedian(z, 0)), 0)
        told = 1 - np.nanmean(np.abs(z - judged.expected), 0) / np.where(spread > 0, spread, np.nan)
        told[[unit is None for unit in self.table.units]] = 1.0
        return float(np.quantile(surprise(judged.nats), _ORDINARY)), np.nan_to_num(told)

    def _headline(self, row: int, change: Change) -> tuple[str, str]:
        """The headline of a row that breaks the pattern, and the group that it may share with others.

        There is none where similar rows have such a value, and nothing else would fit.
        """
        table, j = self.table, change.column
        name, usual = table.names[j], table.usual(row, table.names[j])
        other = table.names[change.swapped]
        if change.swapped >= 0 and change.plain:
            pair = f"{name} and {other} look swapped"
            return pair, pair
        agrees = table.agrees(row, j, usual)
        value = f"{name} = {table.shown(row, name)}"
        beside = f", where similar rows have {usual}" if usual and not agrees else ""
        if change.swapped >= 0 and not agrees:
            return f"{value}{beside}; swapped with {other} it would fit", ""
        if change.hint and change.swapped < 0:
            return f"{value}{beside}; {change.hint} would fit", f"{change.hint} would fit {name}"
        copied = f", the value of {table.names[change.copied]}" if change.copied >= 0 else ""
        return "" if agrees else f"{value}{copied}{beside}", ""

    def _reasons(self, row: int, change: Change, nats: Array, order: list[int]) -> tuple[list[Reason], bool]:
        """The values to blame beside those of similar rows, and whether the first is unlike all of these."""
        blamed = [j for j in order if nats[j] > RARE or j == change.column]
        # One wrong value makes others look wrong: its share is the part that changing it removes.
        mended = float(np.clip(1 - change.left / max(float(surprise(nats)), 1e-300), 0, 1))
        shares = (1 - mended) * np.square(nats[blamed]) / max(np.square(nats[blamed]).sum(), 1e-300)
        shares[0] += mended
        cells = self.table.compare([row], [self.table.names[j] for j in blamed])[0]
        reasons = [
            Reason(cell.column, cell.value, f"similar rows have {cell.usual}" if cell.usual else "", float(share))
            for cell, share in zip(cells, shares, strict=True)
        ]
        return reasons, cells[0].unusual or (change.swapped >= 0 and change.plain)


def _row_scale(scatters: list[ScatterDetector], scaled: pd.DataFrame) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn adds values up to see whether one is infinite
        squares = [np.square(scatter.scale(scaled[scatter.feature_names_in_])) for scatter in scatters]
        return np.sqrt(np.mean(squares, axis=0))


def _units_of(table: pd.DataFrame) -> dict[str, AsinhScale]:
    """The scales of numbers that are not discrete: an extreme of a heavy tail is no further out than others."""
    some = table.select_dtypes("number").iloc[:: -(-len(table) // _UNITS)]
    return {
        str(name): AsinhScale.of(some[name].to_numpy(), by_tails=True)
        for name in some
        if table[name].nunique() > _DISCRETE
    }


def _scaled(table: pd.DataFrame, units: Mapping[str, AsinhScale] | None) -> pd.DataFrame:
    """Numbers on their scales, and discrete ones as levels: under a normal, each row with a rare flag would be odd."""
    if units is None:
        return table
    columns = {
        name: units[name](column) if name in units else column.where(column.isna(), column.astype(str))
        for name, column in table.items()
    }
    return pd.DataFrame(columns)


def _summary(count: int, wrong: int, rows: int) -> str:
    """How many rows do not fit, and what is thought of them."""
    fit = f"{count:,} of {rows:,} rows {'does' if count == 1 else 'do'} not fit the rest"
    if not wrong:
        return f"{fit}: odd and may be right."
    others = ", the others are odd and may be right" if wrong < count else ""
    return f"{fit}: {wrong:,} probably {'holds' if wrong == 1 else 'hold'} a wrong value{others}."


def _by_scale(scale: float) -> Explained:
    return Explained(f"{scale:,.1f} times as far from the centre as usual", far=float(scale), wrong=False)
