"""Which single change makes a row ordinary: a factor, a sign, two columns swapped, or another value."""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from likely._typing import Array, Mask, Places
from likely.auditing.columns.scale import FACTORS, ColumnLimits
from likely.auditing.expected_values.additive_model import RARE, Judged, Pattern, surprise
from likely.auditing.expected_values.similar_rows import Neighbours, Usual

# Judged by the benchmark of slips: without the search, 101 of 120 slips are found instead of 111.
SLIPPED = 0.2  # the share of false alarms among the rows that a slip mends
_LEAST = 2.0  # nats from which a value is tried; in tables of more rows than _SHORT it rises with their logarithm
_SHORT = 1_000
_NEARER = 1.0  # nats that the changed values must gain for their whole row to be judged
_PART = 0.5  # share of the surprise that a slip may leave
_FITS = 7.0  # nats that either of two swapped values may have where it belongs: with 5, two of 193 swaps are lost
_SWAPPED_VALUES = 10  # a column needs more different values than this to be swapped: flags and grades are left out
MAX_SWAPPED = 60  # columns of numbers whose pairs are tried as swaps
_AT_ONCE = 20_000  # changed rows that are judged at once
_LARGEST = 1e150  # numbers are clipped here, so that products stay finite
_GENERIC = 4.0  # price, in nats, of replacing a value by the expected one: a slip is preferred
_GAIN = 7.0  # nats that a slip must remove from a row: without it, twice as many right values get a hint
# Of odd rows that are right, 11 of 12 gain less by a swap and 12 of 14 by a factor; of swapped ones, two of 31.
_PLAIN = 15.0  # nats that a slip takes off a row of which it is surely the cause
_SELDOM = 0.03  # of the rows: so few hold a value, and it in two columns, by chance
_BLAMED = 10  # values of a row, the rarest, that may be replaced
# Judged by the benchmark of slips: without the tail of gains there are 40 false alarms instead of 32 in nine tables,
# without _CELLS hundreds.
_BODY, _END = 0.85, 0.95  # quantiles of the gains from which their exponential tail is estimated
_FALL = 1.0  # the least scale of that tail, in nats
_FLOOR = 0.5  # false alarms, at least: one or two rows that a slip mends are too few
_CELLS = 10.0  # independent slips that are assumed to be tried per row


class Change(NamedTuple):
    """A change of a row that makes it ordinary, or nearly; ``left`` is the surprise that it leaves, in nats."""

    column: int
    left: float
    hint: str = ""
    swapped: int = -1
    copied: int = -1  # the column whose value this one equals, by no chance
    plain: bool = False  # whether it is a slip that takes so much off the row that it is surely the cause


class _Block(NamedTuple):
    """Rows that are searched: their numbers, values on the scales of their columns, verdicts and surprises."""

    rows: Places
    z: Array
    judged: Judged
    before: Array


class _Trials(NamedTuple):
    """Changes to be tried, each of one row: two columns, which may be the same one, get other values."""

    row: Places  # place in the block
    columns: Places  # of shape (trials, 2)
    values: Array  # on the scales of these columns
    worth: Array  # nats that are added to the gain of the row
    hint: Places  # place in FACTORS; -1 for a swap


class SlipSearch:
    """The best slip of each row.

    >>> import pandas as pd
    >>> from likely.auditing.columns.kinds import read_columns
    >>> rng = np.random.default_rng(0)
    >>> height = rng.normal(170, 8, 500)
    >>> frame = pd.DataFrame({"height": height, "weight": 0.9 * height - 80 + 3 * rng.normal(size=500)})
    >>> frame.loc[3:9, "height"] /= 10
    >>> table = Neighbours.of(read_columns(frame))
    >>> pattern, rows = Pattern.of(table), np.arange(500)
    >>> search, z = SlipSearch(table, pattern), table.points(rows)
    >>> search.look(rows, z, judged := pattern.judge(z, rows))
    >>> bool(search.chance()[7] < 0.1), search.best(7, z[7], judged.of_row(7))[:3:2]
    (True, (0, '×10'))
    """

    def __init__(self, table: Neighbours, pattern: Pattern) -> None:
        self.table, self.pattern = table, pattern
        self.gains = np.zeros(table.rows)
        self._sure = np.zeros(table.rows, bool)  # rows that a slip mends more than chance explains
        self._best = np.full((table.rows, 3), -1)  # two columns, and the hint
        self._values = np.zeros((table.rows, 2))  # what these columns held before the slip
        self._least = _LEAST + float(np.log(max(1.0, table.rows / _SHORT)))
        self._numbers = [j for j, unit in enumerate(table.units) if unit and table.names[j] not in table.dates]
        known = {j: table.values[j][table.sample].astype(np.float64) for j in self._numbers}
        self._may = {j: ColumnLimits.of(values) for j, values in known.items()}
        self._swappable = [j for j in self._numbers if len(np.unique(table.known[j])) > _SWAPPED_VALUES]

    def look(self, rows: Places, z: Array, judged: Judged) -> None:
        """Try all slips in some rows, and keep the best of each row."""
        odd = (judged.nats[:, self._numbers] > self._least).any(1)
        z, judged = z[odd], Judged(*(part[odd] for part in judged))
        block = _Block(rows[odd], z, judged, self._surprise(judged, z))
        trials = [*self._factors(block), *(self._swaps(block) if len(self._swappable) <= MAX_SWAPPED else ())]
        if trials:
            self._keep(block, _Trials(*map(np.concatenate, zip(*trials, strict=True))))

    def chance(self, first: Mask | None = None) -> Array:
        """For each row, the share of false alarms among the rows that gain at least as much by a slip."""
        shares = by_chance(self.gains, first)
        self._sure = shares <= SLIPPED
        return shares

    def best(self, row: int, z: Array, judged: Judged) -> Change:
        """The change that leaves the least surprise in a row: a slip that was found in it, or another value."""
        blamed = np.argsort(-judged.nats, kind="stable")[:_BLAMED]
        blamed = blamed[judged.nats[blamed] > 0]
        changes = [Change(int(j), 0.0, copied=self._copied(row, int(j))) for j in blamed]
        changed = np.repeat(z[None], len(blamed) + 1, axis=0)
        changed[np.arange(len(blamed)), blamed] = judged.expected[blamed]
        column, other, hint = self._best[row].tolist()
        plain = bool(self.gains[row] >= _PLAIN)
        if (self._sure[row] or self.gains[row] > _GAIN) and (
            column != other or self._is_off_by(row, column, list(FACTORS)[hint], plain)
        ):
            changed[-1, [column, other]] = self._values[row]
            names = ["swapped", *FACTORS.values()]
            first, second = sorted([column, other], key=lambda j: -judged.nats[j])
            changes.append(Change(first, 0.0, names[hint + 1], -1 if other == column else second, plain=plain))
        if not changes:
            return Change(0, 0.0)
        changed = changed[: len(changes)]
        left = surprise(self.pattern.judge(changed, np.full(len(changed), row)).nats)
        # Of two values that contradict each other, the one that is rare in its own column is to blame.
        prices = np.array([0.0 if change.hint else _GENERIC / (1 + (change.copied >= 0)) for change in changes])
        chosen = int(np.argmin(left + surprise(self.pattern.margin_nats(changed)) + prices))
        return changes[chosen]._replace(left=float(left[chosen]))

    def _is_off_by(self, row: int, column: int, factor: float, plain: bool) -> bool:
        """Whether a factor says more than that a value is extreme: nearly any value fits once it is divided by ten.

        No factor makes a zero of a value, where that is what similar rows have.
        """
        usual = self.table.usual(row, self.table.names[column])
        if not isinstance(usual, Usual) or not any(usual[:2]):
            return False
        value, ends = self._read(column, np.array([row])), np.abs(usual[:2])
        ends = ends if usual.low * usual.high > 0 else ends.max(keepdims=True)
        return plain or bool(np.abs(np.log(np.abs(value) / ends)).min() >= abs(np.log(abs(factor))) / 2)

    def _copied(self, row: int, j: int) -> int:
        """The column of numbers with the very value that a column of numbers has in a row, -1 where none is."""
        values, sample = self.table.values, self.table.sample
        for k in self._swappable if j in self._swappable else ():
            if k != j and values[k][row] == values[j][row]:
                there = values[k][sample]
                if ((there == values[j][sample]) | (there == values[j][row])).mean() < _SELDOM:
                    return k
        return -1

    def _factors(self, block: _Block) -> Iterator[_Trials]:
        """Yield numbers with another factor or sign, where that brings them nearer to their predictions."""
        for j in self._numbers:
            odd = np.flatnonzero(block.judged.nats[:, j] > self._least)
            numbers = self._read(j, block.rows[odd])
            for hint, factor in enumerate(FACTORS):
                some = (numbers != 0) & self._may[j](numbers * factor)
                price = max(0.0, abs(np.log10(abs(factor))) - 1)  # the more zeros, the rarer
                yield self._trials(block, odd[some], {j: numbers[some] * factor}, hint, price)

    def _swaps(self, block: _Block) -> Iterator[_Trials]:
        """Yield swaps of two numbers."""
        pairs = list(combinations(self._swappable, 2))
        price = np.log(len(pairs) or 1)  # the more pairs, the likelier that one of them fits by chance
        for j, k in pairs:
            at = np.flatnonzero((block.judged.nats[:, [j, k]] > self._least).any(1))
            first, second = self._read(j, block.rows[at]), self._read(k, block.rows[at])
            differ = (first != second) & self._may[j](second) & self._may[k](first)
            at, first, second = at[differ], first[differ], second[differ]
            yield self._trials(block, at, {j: second, k: first}, -1, price)

    def _trials(self, block: _Block, at: Places, put: dict[int, Array], hint: int, price: float) -> _Trials:
        """The changes of some rows, numbers of one column or two, that bring these nearer to what is usual."""
        gains, worth, values = np.zeros((2, len(at))), np.full(len(at), -price), list[Array]()
        margins, centres = self.pattern.margins, self.pattern.centres
        for j, numbers in put.items():
            unit = self.table.units[j]
            assert unit is not None
            worth += self._may[j].nats(self._read(j, block.rows[at])) - self._may[j].nats(numbers)
            z, expected = block.z[at, j], block.judged.expected[at, j]
            values.append(np.asarray(unit(numbers)))
            far = (values[-1] - expected) * block.judged.far[at, j] / np.where(z == expected, 1.0, z - expected)
            gains[0] += block.judged.nats[at, j] - self.pattern.tails.of_columns(far, j)
            # What is expected of a value that is swapped follows from the other one, which is wrong, too.
            gains[1] += margins.of_columns(z - centres[j], j) - margins.of_columns(values[-1] - centres[j], j)
        columns = np.broadcast_to([next(iter(put)), list(put)[-1]], (len(at), 2))
        nearer = gains.max(0) > _NEARER
        changed = np.column_stack([values[0], values[-1]])
        return _Trials(at[nearer], columns[nearer], changed[nearer], worth[nearer], np.full(int(nearer.sum()), hint))

    def _keep(self, block: _Block, trials: _Trials) -> None:
        """Keep the best trial of each row if it is better than what is known of the row."""
        gain, at = self._gain(block, trials), block.rows[trials.row]
        # Of several trials of a row the last one stays, which is the best and, of equal ones, the first.
        order = np.lexsort([-np.arange(len(gain)), gain])
        order = order[gain[order] > self.gains[at[order]]]
        self.gains[at[order]] = gain[order]
        self._best[at[order]] = np.column_stack([trials.columns, trials.hint])[order]
        self._values[at[order]] = trials.values[order]

    def _gain(self, block: _Block, trials: _Trials) -> Array:
        """The nats that each trial takes off its row, where it leaves few."""
        gain = np.empty(len(trials.row))
        for start in range(0, len(gain), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            at = trials.row[part]
            changed, before = block.z[at], block.before[at]
            places = np.arange(len(at))[:, None], trials.columns[part]
            changed[places] = trials.values[part]
            judged = self.pattern.judge(changed, block.rows[at])
            left = self._surprise(judged, changed)
            # What is swapped has to fit in both columns.
            fits = (judged.nats[places].max(1) <= _FITS) | (trials.hint[part] >= 0)
            gain[part] = np.where(fits & (left <= np.maximum(_PART * before, RARE)), before - left, 0.0)
        return np.where(gain > 0, gain + trials.worth, 0.0)

    def _surprise(self, judged: Judged, z: Array) -> Array:
        """Rare values in their own columns count, too: without them, wide clean tables had more hints."""
        return surprise(judged.nats) + surprise(self.pattern.margin_nats(z))

    def _read(self, j: int, rows: Places) -> Array:
        return np.clip(self.table.values[j][rows].astype(np.float64), -_LARGEST, _LARGEST)


def by_chance(gains: Array, first: Mask | None = None) -> Array:
    r"""For each row, the share of false alarms among the rows that gain at least as much by a slip.

    The number of rows that gain as much by chance is the larger of two estimates, and at least a half, so that one or
    two rows are not enough:

    - by the tail of the gains themselves, which is taken to be exponential;
    - by :math:`10 n e^{-t}`: if the model is right, a gain of t nats has a probability of at most :math:`e^{-t}`.

    >>> rng = np.random.default_rng(0)
    >>> gains = rng.exponential(size=1000)
    >>> gains[:9] = 15.0
    >>> chance = by_chance(gains)
    >>> bool(chance[:9].max() < 0.1), bool(chance[9:].min() > 0.2)
    (True, True)
    """
    if first is not None and not first.all():
        known = np.argsort(gains[first], kind="stable")
        shares = by_chance(gains[first])[known]
        at = np.searchsorted(gains[first][known], gains, "right") - 1
        return np.where(at >= 0, shares[at], 1.0)
    rows = len(gains)
    body, end = np.quantile(gains, [_BODY, _END])
    fall = max(float(end - body) / np.log((1 - _BODY) / (1 - _END)), _FALL)
    order = np.argsort(-gains, kind="stable")
    least = gains[order]
    tail = rows * (1 - _BODY) * np.exp(-np.clip((least - body) / fall, -50.0, None))
    expected = np.maximum(np.maximum(tail, _CELLS * rows * np.exp(-least)), _FLOOR)
    shares = np.empty(rows)
    falling = np.minimum.accumulate((expected / np.arange(1, rows + 1))[::-1])[::-1]
    shares[order] = np.where(least > 0, np.minimum(falling, 1.0), 1.0)
    return shares
