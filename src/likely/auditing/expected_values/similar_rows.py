"""What rows like a given row have in each column: the usual range of a number, the usual level of a category."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._typing import Array, Index, Places
from likely.auditing.columns.kinds import MODELLED, ColumnReader, Columns, as_numbers
from likely.auditing.columns.scale import AsinhScale
from likely.auditing.results.finding import number

Wide = NDArray[np.float32]  # a row per column of the table: values of one column lie side by side
_NEAREST = 30  # rows like a row
MAX_ROWS = 10_000  # rows among which these are looked for
_RELATED = 5_000  # rows that tell how much one column says about another
_BINS = 12  # of the ranks of a column, by which it tells about others
_CAP = 3.0  # robust deviations: rows that differ more in a column are not told apart by it
_UNKNOWN = 1.0  # the difference of a value from one that is missing, or of a level from another
_AGREED = 0.7  # a level of fewer similar rows says nothing against another
_MOST = 0.9  # a level is unusual if more similar rows than this have another
MAX_COLUMNS = 300  # columns: what each tells about each other is a square of them
_LEAST = 0.003  # what a column counts at least in the choice of neighbours
_TIMES = 5  # fewest times of a series
_DENSE = 1.5  # series times times, at most, in rows: where more pairs are missing, that none occurs twice is chance
_ONCE = 0.95  # of the rows, at least, are the only ones of their series at their time
_SMOOTH = 0.25  # of the usual deviation of a column, at most, is left by the rows before and after
_DEVIATION = 1.4826  # of a normal, in median deviations


class Usual(NamedTuple):
    """The range in which eight of ten similar rows have their number.

    >>> str(Usual(31.0, 39.25)), str(Usual(2.0, 2.0)), str(Usual(-3.0, -1.0)), str(Usual(18262.0, 18272.0, date=True))
    ('31–39.25', '2', '-3 to -1', '2020-01-01 to 2020-01-11')
    """

    low: float
    high: float
    date: bool = False

    def __str__(self) -> str:
        low, high = (written(end, self.date) for end in (self.low, self.high))
        between = " to " if self.low < 0 or self.date else "–"
        return low if low == high else f"{low}{between}{high}"


class Level(NamedTuple):
    """The level that most of the similar rows have, and the share of them that do.

    >>> str(Level("red", 0.9))
    'red (90%)'
    """

    name: str
    share: float

    def __str__(self) -> str:
        return f"{self.name} ({self.share:.0%})"


class Compared(NamedTuple):
    """A value of a row, as text, beside what similar rows have, and whether it is far from that."""

    column: str
    value: str
    usual: str
    unusual: bool


class Series(NamedTuple):
    """Series of a table, such as one per country of a table of years: beside a row are those just before and after it.

    >>> year, country = np.tile(np.arange(10.0), 3), np.repeat([0.0, 1.0, 2.0], 10)
    >>> noise = np.random.default_rng(0).normal(size=30)
    >>> series = Series.of(np.column_stack([country, year, 5 * country + year + 0.1 * noise]), [True, False, False])
    >>> series.beside[:, [0, 12]].tolist(), (series.scale[12] > 0).tolist()
    ([[30, 10], [30, 11], [1, 13], [2, 14]], [False, False, True])
    """

    points: Array  # and below them one without values, which stands for rows that are not there
    beside: Index  # the two rows before each row and the two after it
    scale: Array  # of what these leave of the columns that they tell; NaN of the others

    @classmethod
    def of(cls, z: Array, words: Sequence[bool]) -> Self | None:
        """Find a column of times and one of series, of which each pair is there once."""
        codes, rows = [np.unique(column, return_inverse=True)[1] for column in z.T], len(z)
        sizes = [int(places.max(initial=-1)) + 1 for places in codes]
        for own, time in permutations(range(len(codes)), 2):
            if words[time] or sizes[time] < _TIMES or sizes[own] * sizes[time] > _DENSE * rows:
                continue
            pairs = codes[own] * sizes[time] + codes[time]
            if len(np.unique(pairs)) < _ONCE * rows:
                continue
            order = np.argsort(pairs, kind="stable")
            order = order[~np.isnan(z[order][:, [own, time]]).any(1)]
            ordered = pd.Series(order).groupby(codes[own][order])
            points = np.pad(z, ((0, 1), (0, 0)), constant_values=np.nan)
            beside = np.full((4, rows + 1), rows)
            beside[:, order] = [ordered.shift(step, fill_value=rows) for step in (2, 1, -1, -2)]
            series = cls(points, beside, np.ones((rows + 1, 1)))
            off = pd.DataFrame(np.abs(series.deviations(points, np.arange(rows + 1))[1]))
            left, most = off.median(), _SMOOTH * np.nanmedian(np.abs(z - np.nanmedian(z, 0)), 0)
            told = (left > 0) & (left <= most) & ~np.array(words)
            told[time] = False
            # Beside the ends of a series are fewer rows, which tell less.
            scale = off.groupby((beside < rows).sum(0)).transform("median").clip(lower=left, axis=1)
            return series._replace(scale=np.where(told, _DEVIATION * scale, np.nan))
        return None

    def deviations(self, z: Array, rows: Index) -> tuple[Array, Array]:
        """What two of the rows beside a row tell of its values: the pair of three that comes nearest; and how far off.

        A wrong value is in at most two of the three pairs of a row beside it, and so makes none look wrong.
        """
        rows = np.minimum(rows, len(self.points) - 1)
        earliest, before, after, latest = self.points[self.beside[:, rows]]
        guesses = np.array([(before + after) / 2, 2 * before - earliest, 2 * after - latest])
        nearest = np.nan_to_num(np.abs(guesses - z), nan=np.inf).argmin(0)
        expected = np.choose(nearest, guesses)
        return expected, (z - expected) / self.scale[rows]


@dataclass(frozen=True)
class Neighbours:
    """For rows of a table, the rows most like them by all *other* columns, and what these have in a column.

    Numbers are put in robust units and squashed, so that a factor is a step; a column says the more about how alike
    rows are, the more it tells about the column that is looked at. A value that is looked at has no part in the choice
    of its own neighbours, and a wrong value elsewhere counts no more than ``3`` deviations. Of long tables a sample of
    10,000 rows is compared with.

    >>> import pandas as pd
    >>> from likely.auditing.columns.kinds import read_columns
    >>> rng = np.random.default_rng(0)
    >>> length = rng.uniform(10, 50, 300)
    >>> frame = pd.DataFrame({"length": length, "width": length / 2 + rng.normal(size=300)})
    >>> frame.loc[7] = [40.0, 0.0]
    >>> neighbours = Neighbours.of(read_columns(frame))
    >>> usual = neighbours.usual(7, "width")
    >>> usual.low < 20 < usual.high, [cell.unusual for cell in neighbours.compare([7])[0] if cell.column == "width"]
    (True, [True])
    """

    names: list[str]
    values: list[NDArray[np.floating]]  # of every column: numbers, or places of levels; NaN where one is missing
    levels: dict[str, list[str]]  # of each category
    dates: set[str]
    units: list[AsinhScale | None]  # of each column of numbers
    sample: Places
    known: Wide  # the sample, in these units
    weights: Wide  # (column looked at, column that says how alike rows are)
    series: Series | None

    @classmethod
    def of(cls, columns: Columns, leave_out: Collection[str] = ()) -> Self:
        """Read a table."""
        names = columns.named(*MODELLED, but=leave_out)[:MAX_COLUMNS]
        count = len(columns.typed)
        sample = np.sort(np.random.RandomState(0).permutation(count)[:MAX_ROWS])
        known = np.empty((len(names), len(sample)), np.float32)
        values: list[NDArray[np.floating]] = []
        units: list[AsinhScale | None] = []
        levels: dict[str, list[str]] = {}
        for j, name in enumerate(names):
            numbers, column_levels = as_numbers(columns.typed[name])
            unit = AsinhScale.of(numbers[sample], by_tails=True) if column_levels is None else None
            known[j] = numbers[sample] if unit is None else unit(numbers[sample])
            units.append(unit)
            # Of a million rows only codes are copied.
            values.append(columns.typed[name].to_numpy() if column_levels is None else numbers.astype(np.float32))
            levels |= {} if column_levels is None else {name: column_levels}
        some = known[:, :: max(1, -(-len(sample) // _RELATED))]
        words = [unit is None for unit in units]
        weights = related(some, words) + _LEAST
        np.fill_diagonal(weights, 0.0)
        dates = {name for name in names if columns.kinds[name] == "date"}
        series = Series.of(known.T.astype(np.float64), words) if len(sample) == count else None
        return cls(names, values, levels, dates, units, sample, known, weights.astype(np.float32), series)

    def of_rows(self, typed: pd.DataFrame) -> Self:
        """Other rows in the units of this table; levels that it lacks come after all others."""
        new = {name: set(typed[name].dropna()) - set(known) for name, known in self.levels.items()}
        levels = {name: [*known, *sorted(new[name])] for name, known in self.levels.items()}
        codes = ColumnReader({}, levels).codes
        values: list[Any] = [
            codes(name, typed[name].to_numpy()).astype(np.float32) if name in levels else typed[name].to_numpy()
            for name in self.names
        ]
        return replace(self, values=values, levels=levels, series=None)

    def extended(self, typed: pd.DataFrame) -> Self:
        """This table with other rows below its own, which are compared with the same sample."""
        below = self.of_rows(typed)
        both = zip(self.values, below.values, strict=True)
        return replace(below, values=[np.concatenate(columns) for columns in both], series=self.series)

    @property
    def rows(self) -> int:
        """The number of rows of the table."""
        return len(self.values[0]) if self.values else 0

    @property
    def numbers(self) -> list[NDArray[np.floating] | None]:
        """The columns of numbers; None for each category."""
        return [None if unit is None else column for unit, column in zip(self.units, self.values, strict=True)]

    def points(self, rows: Places) -> Array:
        """Some rows, squashed, with a column per column; categories as places of levels, NaN where one is missing."""
        parts = zip(self.values, self.units, strict=True)
        squashed = [column[rows] if unit is None else unit(column[rows]) for column, unit in parts]
        return np.array(squashed, np.float64).reshape(len(squashed), len(rows)).T

    def nearest(self, row: int, names: Sequence[str]) -> list[Places]:
        """The rows that are most like a row and have a value in the column looked at."""
        looked = [self.names.index(name) for name in names]
        apart = self.weights[looked] @ self._gaps(row)
        if self.series is not None:
            at = min(row, len(self.sample))
            told, near = np.flatnonzero(~np.isnan(self.series.scale[at, looked])), self.series.beside[:, at]
            apart[told] = np.inf
            apart[np.ix_(told, near[near < len(self.sample)])] = 0.0
        apart[:, self.sample == row] = np.inf
        apart[np.isnan(self.known[looked])] = np.inf
        places = np.argpartition(apart, min(_NEAREST, apart.shape[1]) - 1)[:, :_NEAREST]
        return [self.sample[at[np.isfinite(distances[at])]] for at, distances in zip(places, apart, strict=True)]

    def _gaps(self, row: int) -> Wide:
        """How far each row of the sample is from this one, by column."""
        point = self.points(np.array([row])).T.astype(np.float32)
        gap: Wide = np.abs(self.known - point)
        if words := [j for j, unit in enumerate(self.units) if unit is None]:
            gap[words] = np.where(gap[words] > 0, np.float32(_UNKNOWN), gap[words])
        gap[np.isnan(gap)] = _UNKNOWN
        gap[np.isnan(point[:, 0])] = 0.0  # what this row lacks cannot say which rows are like it
        return np.minimum(gap, np.float32(_CAP), out=gap)

    def usual(self, row: int, column: str) -> Usual | Level | None:
        """What rows like a row have in a column, which has no part in their choice."""
        return self._range(self.names.index(column), self.nearest(row, [column])[0])

    def agrees(self, row: int, j: int, usual: Usual | Level | None) -> bool:
        """Whether what similar rows have says nothing against a value: it is nearly that, or they share no level."""
        value = self.values[j][row]
        if isinstance(usual, Level):
            return usual.share <= _AGREED or np.isnan(value) or usual.name == self.levels[self.names[j]][int(value)]
        # Quarters: differences of the largest numbers overflow.
        return usual is not None and bool(
            abs(value / 4 - np.clip(value, usual.low, usual.high) / 4) <= usual.high / 16 - usual.low / 16
        )

    def compare(self, rows: Iterable[int], names: Sequence[str] | None = None) -> list[list[Compared]]:
        """The values of rows beside what similar rows have, for a page."""
        shown = self.names if names is None else [name for name in names if name in self.names]
        places = [self.names.index(name) for name in shown]
        return [
            [self._compared(row, j, alike) for j, alike in zip(places, self.nearest(row, shown), strict=True)]
            for row in rows
        ]

    def _range(self, j: int, alike: Places) -> Usual | Level | None:
        if not len(alike):
            return None
        values, name = np.sort(self.values[j][alike]), self.names[j]
        if name not in self.levels:
            end = round(0.1 * (len(values) - 1))
            return Usual(float(values[end]), float(values[-1 - end]), name in self.dates)
        codes, counts = np.unique(values, return_counts=True)
        return Level(self.levels[name][int(codes[counts.argmax()])], float(counts.max() / len(values)))

    def _compared(self, row: int, j: int, alike: Places) -> Compared:
        value, usual, name = float(self.values[j][row]), self._range(j, alike), self.names[j]
        unit, unusual = self.units[j], False
        if isinstance(usual, Usual) and unit is not None:  # further outside, on its scale, than the range is wide
            low, high, at = unit(np.array([usual.low, usual.high, value]))
            unusual = bool(at < 2 * low - high or at > 2 * high - low)
        if isinstance(usual, Level):
            unusual = usual.share > _MOST and not self.agrees(row, j, usual)
        return Compared(name, self.shown(row, name), str(usual or ""), unusual)

    def shown(self, row: int, column: str) -> str:
        """A value as text."""
        value = float(self.values[self.names.index(column)][row])
        if np.isnan(value):
            return "missing"
        if column in self.levels:
            level = self.levels[column][int(value)]
            return level if level == level.strip() else repr(level)  # a space at an end would not be seen
        return written(value, column in self.dates)


def related(points: Wide, words: Sequence[bool]) -> Array:
    """How much each column (second axis) tells about each other: the share of the variance of ranks between bins.

    What bins explain by chance, and two deviations more, is taken off.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> related(np.array([x, x**2, rng.normal(size=2000)], np.float32), [False] * 3).round(1).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    table = pd.DataFrame(points.T)
    ranks = table.rank(pct=True)
    bins = np.where(words, table.clip(upper=_BINS), (_BINS * ranks).round())
    off = ranks - ranks.mean()
    groups = [off.groupby(of_column, dropna=False) for of_column in bins.T]
    between = [(group.mean().pow(2) * group.count()).sum() for group in groups]
    share = np.array(between).T / np.maximum(off.pow(2).sum().to_numpy(), 1e-300)[:, None]
    return np.clip(share - 2 * _BINS / len(table), 0, 1)


def written(value: float, date: bool = False) -> str:
    """A number or a day, for people."""
    if not date or np.isnan(value):
        return number(value)
    return str(np.datetime64(int(np.floor(value)), "D"))
