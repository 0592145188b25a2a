"""Searches all rows for slips: the factor, sign or swap that mends a row best, and the false-alarm rate of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from likely._typing import Array
from likely.auditing._by_chance import APART, by_chance
from likely.auditing._neighbours import Neighbours
from likely.auditing._pattern import Judged, Pattern
from likely.auditing._possible import Possible
from likely.auditing._repair import RARE, surprise
from likely.auditing._row_slips import FACTORS, FAR, NARROW, Change, may_swap

_SETS = (1.0, APART, 1 / APART)  # the first leaves the factors of slips as they are; the others make placebos
_LEAST = 2.0  # nats from which a value is tried; in tables of more rows than _SHORT it rises with their logarithm
_SHORT = 1_000
_OWN = 0.3  # weight of the gain of the changed value itself, beside that of the row
_FIRST = 1.0  # nats that the changed value must gain for its whole row to be judged
_STRETCH = 0.5  # weight of the log-slope by which a slip squeezes values together: near zero any small value fits
_SWAPPED = 0.5  # price of a swap, in nats
_PART = 0.25  # share of the surprise that a slip may leave
_STRIDE = 7_919  # a prime: steps through a sorted column to a value that stands for a random one
_JUDGED = 20_000  # changed rows that are judged at once


class _Trials(NamedTuple):
    """Changes to be tried, each of one row: two columns, which may be the same one, get other values."""

    row: NDArray[np.int64]  # place among the rows that are searched
    column: NDArray[np.int64]
    other: NDArray[np.int64]
    value: Array  # squashed
    value_of_other: Array
    worth: Array  # nats that are added to the gain of the row: minus the price
    hint: NDArray[np.int64]  # place in FACTORS; -1 for a swap


class _Cells(NamedTuple):
    """The values of a column that are rare enough to be tried: the places of their rows, and the numbers."""

    row: NDArray[np.int64]
    number: Array


class SlipSearch:
    """The best slip of each row and, to compare it with, the best placebos.

    >>> import pandas as pd
    >>> from likely.auditing._columns import read_columns
    >>> rng = np.random.default_rng(0)
    >>> height = rng.normal(170, 8, 500)
    >>> frame = pd.DataFrame({"height": height, "weight": 0.9 * height - 80 + 3 * rng.normal(size=500)})
    >>> frame.loc[3:9, "height"] /= 10
    >>> table = Neighbours.of(read_columns(frame))
    >>> pattern, rows = Pattern.of(table), np.arange(500)
    >>> search = SlipSearch(table, pattern)
    >>> search.look(rows, table.points(rows), pattern.judge(table.points(rows), rows))
    >>> bool(search.chance()[7] < 0.1), search.change(7).hint
    (True, '×10')
    """

    def __init__(self, table: Neighbours, pattern: Pattern) -> None:
        self.table, self.pattern = table, pattern
        self.gains = np.zeros((len(_SETS), table.rows))
        self.best = np.full((table.rows, 3), -1)  # column, hint, and the column it is swapped with
        self._least = _LEAST + float(np.log(max(1.0, table.rows / _SHORT)))
        self._numbers = [j for j, unit in enumerate(table.units) if unit and table.names[j] not in table.dates]
        self._may = {j: Possible.of(_known(table, j)) for j in self._numbers}
        self._sorted = {j: np.sort(values[~np.isnan(values)]) for j in self._numbers if len(values := _known(table, j))}

    def look(self, rows: NDArray[np.int64], z: Array, judged: Judged) -> None:
        """Try all slips in some rows, and keep the best of each row."""
        odd = (judged.nats[:, self._numbers] > self._least).any(1)
        rows, z, judged = rows[odd], z[odd], Judged(*(part[odd] for part in judged))
        before = surprise(judged.nats) + surprise(self.pattern.margins.nats(z))
        cells = {j: self._rare(j, rows, judged) for j in self._numbers}
        for number_of_set, factor in enumerate(_SETS):
            for parts in self._factors(cells, z, judged, factor), self._swaps(rows, z, judged, number_of_set):
                trials = _joined(parts)
                self._keep(number_of_set, rows, trials, self._gain(rows, z, judged, before, trials))

    def chance(self, first: NDArray[np.bool_] | None = None) -> Array:
        """For each row, the share of false alarms among the rows that gain at least as much by a slip."""
        return by_chance(self.gains[0], self.gains[1:], first)

    def change(self, row: int) -> Change:
        """The slip that mends a row best."""
        column, hint, swapped = self.best[row].tolist()
        return Change(column, 0.0, "swapped" if hint < 0 else FACTORS[hint][1], swapped)

    def _keep(self, number_of_set: int, rows: NDArray[np.int64], trials: _Trials, gain: Array) -> None:
        # Of several trials of a row the last one stays, which is the best and, of equal ones, the first.
        order = np.lexsort([-np.arange(len(gain)), gain])
        at, gain = rows[trials.row[order]], gain[order]
        last = len(at) - 1 - np.unique(at[::-1], return_index=True)[1]
        last = last[gain[last] > self.gains[number_of_set][at[last]]]
        self.gains[number_of_set][at[last]] = gain[last]
        if number_of_set == 0:
            column, hint, other = (part[order][last] for part in (trials.column, trials.hint, trials.other))
            self.best[at[last]] = np.column_stack([column, hint, np.where(hint < 0, other, -1)])

    def _gain(self, rows: NDArray[np.int64], z: Array, judged: Judged, before: Array, trials: _Trials) -> Array:
        """The nats that each trial takes off its row, less its price."""
        gain = np.empty(len(trials.row))
        for start in range(0, len(gain), _JUDGED):
            part = slice(start, start + _JUDGED)
            at, j, k = trials.row[part], trials.column[part], trials.other[part]
            changed, trial = z[at], np.arange(len(at))
            changed[trial, j], changed[trial, k] = trials.value[part], trials.value_of_other[part]
            after = self.pattern.judge(changed, rows[at]).nats
            gain_of_cells = judged.nats[at, j] - after[trial, j]
            gain_of_cells += np.where(j == k, 0.0, judged.nats[at, k] - after[trial, k])
            left = surprise(after) + surprise(self.pattern.margins.nats(changed))
            # Rare values in other columns count, too: without them, wide clean tables had more hints.
            mended = left <= np.maximum(_PART * before[at], RARE)
            gain[part] = np.where(mended, before[at] - left + _OWN * gain_of_cells, 0.0)
        return np.where(gain > 0, gain + trials.worth, 0.0)

    def _rare(self, j: int, rows: NDArray[np.int64], judged: Judged) -> _Cells:
        at = np.flatnonzero(judged.nats[:, j] > self._least)
        return _Cells(at, np.clip(self.table.values[j][rows[at]].astype(np.float64), -FAR, FAR))

    def _factors(self, cells: dict[int, _Cells], z: Array, judged: Judged, times: float) -> Iterator[_Trials]:
        """Yield numbers with another factor or sign, where that brings them nearer to their predictions."""
        factors, prices = (np.array([entry[i] for entry in FACTORS], np.float64) for i in (0, 2))
        for j, (at, numbers) in cells.items():
            unit = self.table.units[j]
            assert unit is not None
            # A change that is no slip is tried where the slip is: else whole numbers would have no such changes.
            hint, which = np.nonzero((numbers != 0) & self._may[j](numbers * factors[:, None]))
            at, numbers, mended = at[which], numbers[which], (numbers * factors[:, None])[hint, which]
            value = np.asarray(unit(mended * times))
            near = judged.nats[at, j] - self._nats(j, at, z, judged, value) > _FIRST
            at, numbers, mended, value, hint = (part[near] for part in (at, numbers, mended, value, hint))
            stretch = unit.log_slope(mended * times) + np.log(np.abs(factors[hint] * times)) - unit.log_slope(numbers)
            kinds = self._may[j].nats(numbers) - self._may[j].nats(mended)
            worth = _STRETCH * np.minimum(stretch, 0.0) + kinds - prices[hint]
            column = np.full(len(at), j)
            yield _Trials(at, column, column, value, value, worth, hint)

    def _swaps(self, rows: NDArray[np.int64], z: Array, judged: Judged, number_of_set: int) -> Iterator[_Trials]:
        """Yield swaps of two numbers; in a placebo one of them becomes the value of another row."""
        able = [j for j in self._numbers if may_swap(self.table, j)]
        for j in able if len(able) <= NARROW else ():
            for k in able[able.index(j) + 1 :]:
                at = np.flatnonzero(np.maximum(judged.nats[:, j], judged.nats[:, k]) > self._least)
                numbers, other_numbers = (
                    np.clip(self.table.values[i][rows[at]].astype(np.float64), -FAR, FAR) for i in (j, k)
                )
                at, numbers, other_numbers = (
                    part[(numbers != other_numbers) & ~np.isnan(numbers + other_numbers)]
                    for part in (at, numbers, other_numbers)
                )
                first, second = self.table.units[j], self.table.units[k]
                assert first is not None
                assert second is not None
                to_first = self._another(k, other_numbers) if number_of_set == 1 else other_numbers
                to_second = self._another(j, numbers) if number_of_set == 2 else numbers
                value, value_of_other = first(to_first), second(to_second)
                gain = judged.nats[at, j] - self._nats(j, at, z, judged, value)
                gain += judged.nats[at, k] - self._nats(k, at, z, judged, value_of_other)
                stretch = first.log_slope(to_first) - first.log_slope(numbers)
                stretch = stretch + second.log_slope(to_second) - second.log_slope(other_numbers)
                near = gain > _FIRST
                columns = np.full(int(near.sum()), j), np.full(int(near.sum()), k)
                worth = _STRETCH * np.minimum(stretch, 0.0) - _SWAPPED
                parts = at[near], *columns, value[near], value_of_other[near], worth[near]
                yield _Trials(*parts, np.full(len(columns[0]), -1))

    def _nats(self, j: int, at: NDArray[np.int64], z: Array, judged: Judged, value: Array) -> Array:
        """How rare another value would be in a column, whose prediction does not depend on it."""
        off = z[at, j] - judged.expected[at, j]
        far = (value - judged.expected[at, j]) * judged.far[at, j] / np.where(off == 0, 1.0, off)
        return self.pattern.tails[j].nats(far)

    def _another(self, j: int, values: Array) -> Array:
        """Return another value of the column for each value, which does not depend on the order of the rows."""
        known = self._sorted[j]
        return np.asarray(known[_STRIDE * (np.searchsorted(known, values) + 1) % len(known)])


def _joined(parts: Iterable[_Trials]) -> _Trials:
    """Trials of several columns as one."""
    none = np.zeros(0, np.int64), np.zeros(0)
    empty = _Trials(none[0], none[0], none[0], none[1], none[1], none[1], none[0])
    return _Trials(*map(np.concatenate, zip(*parts, empty, strict=True)))


def _known(table: Neighbours, j: int) -> Array:
    return table.values[j][table.sample].astype(np.float64)
