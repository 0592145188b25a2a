"""Slips planted in real tables: values × 10, ÷ 10 or × 1000, of the other sign, or swapped with another column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import KFold, cross_val_predict

from likely.auditing import Suspect, audit
from likely.auditing.columns.kinds import read_columns
from likely.auditing.columns.scale import AsinhScale
from likely.auditing.odd_rows.odd_rows import odd_rows

FACTORS = {"× 10": 10.0, "÷ 10": 0.1, "× 1000": 1000.0, "sign": -1.0}
HINTS = {"× 10": "÷10", "÷ 10": "×10", "× 1000": "÷1,000", "sign": "sign"}
KINDS = (*FACTORS, "swap")
BEYOND_TAILS = "right hint, beyond the tails"
BEYOND_OWN = "right hint, beyond the row's own noise"
FAR = 4.0  # noise scales by which a slip must move a value away from what is expected
_VALUES = 20  # a column of numbers that slips are planted in has more different ones
_TREES, _FOLDS = 50, 4
_LEAF = 10  # rows in a leaf of the forest that predicts the sizes of deviations, at least
_NORMAL = 2.576  # standard deviations that one normal value in a hundred exceeds
_MEAN = 1.2533  # standard deviations of a normal per mean absolute deviation
_LEAST = 0.05  # of the noise scale of the column is the least mean deviation of a row
_TRIES = 400  # cells looked at for one that a slip moves so far


class Slip(NamedTuple):
    """A slip, and by which measures of noise it moves a value more than four scales away from what is expected.

    Args:
        kind: one of ``KINDS``.
        row: place of the row.
        column: the column that the value is in.
        other: the column it is swapped with; empty for other kinds.
        clear: whether it is as far off by the tails of the noise of the column, too.
        clear_in_row: whether it is as far off by the noise of the row itself, too.
    """

    kind: str
    row: int
    column: str
    other: str = ""
    clear: bool = False
    clear_in_row: bool = False

    def told(self, headline: str) -> bool:
        """Whether a headline names the column and what happened to it."""
        if self.kind == "swap":
            both = (self.column, self.other), (self.other, self.column)
            sure = any(headline == f"{one} and {other} look swapped" for one, other in both)
            may = (f"swapped with {other} it would fit" for one, other in both if headline.startswith(f"{one} = "))
            return sure or headline.endswith(tuple(may))
        tail = headline.rsplit("; ", 1)[-1]
        hints = ("the other sign would fit", "sign: ") if self.kind == "sign" else (f"{HINTS[self.kind]} would fit",)
        return headline.startswith(f"{self.column} = ") and tail.startswith(hints)


class Far(NamedTuple):
    """How far a value is from what is expected, in the three noise scales of :class:`Noise`."""

    by_median: float
    by_tails: float
    by_row: float


class Noise(NamedTuple):
    """What a column of numbers is expected to be by the others, and three scales of what is left, all squashed.

    They are computed from the table before anything is planted, by forests, each for rows that it was not fitted to:
    no part of the audit, which is measured, decides what is planted or counted.

    Args:
        squash: makes steps of a factor alike.
        expected: what each row is expected to have, of shape (rows,).
        scale: one scale for all rows, by the median absolute deviation.
        tails: the same by the deviation that one value in a hundred exceeds, if that is larger.
        own: one scale per row, of shape (rows,): what a second forest predicts for the absolute deviation of the row,
            times such a factor that one value in a hundred exceeds 2.576 scales, as of a normal.
    """

    squash: AsinhScale
    expected: NDArray[np.float64]
    scale: float
    tails: float
    own: NDArray[np.float64]

    @classmethod
    def of(cls, frame: pd.DataFrame, column: str) -> Noise:
        """Measure the noise of a column.

        Args:
            frame: the table, before anything is planted.
            column: the name of the column.

        Returns:
            What is expected, and the scales.
        """
        values = frame[column].to_numpy(np.float64)
        squash = AsinhScale.of(values, by_tails=True)
        there = ~np.isnan(values)
        features = _numbers(frame.drop(columns=column))[there]
        forest = ExtraTreesRegressor(_TREES, min_samples_leaf=3, random_state=0)
        predicted = cross_val_predict(forest, features, squash(values[there]), cv=_FOLDS)
        off = np.abs(squash(values[there]) - predicted)
        scale = max(1.4826 * float(np.median(off)), 0.5 * float(off.mean())) or 1.0
        expected, own = np.zeros(len(values)), np.full(len(values), scale)
        expected[there], own[there] = predicted, _own_scales(features, off, scale)
        return cls(squash, expected, scale, max(scale, float(np.quantile(off, 0.99)) / _NORMAL), own)

    def far(self, row: int, value: float) -> Far:
        """How far a value would be from what is expected in a row."""
        off = float(abs(self.squash(value) - self.expected[row]))
        return Far(off / self.scale, off / self.tails, off / float(self.own[row]))

    def right_and_far(self, column: pd.Series[Any]) -> dict[str, float]:
        """The share of the values of the column itself, which are taken to be right, beyond four of each scale."""
        values = column.to_numpy(np.float64)
        off = np.abs(self.squash(values) - self.expected)[~np.isnan(values)]
        own = self.own[~np.isnan(values)]
        scales = {"by the median": self.scale, "by the tails": self.tails, "by the row's own scale": own}
        return {name: float((off > FAR * scale).mean()) for name, scale in scales.items()}


def _own_scales(features: NDArray[np.float64], off: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """One noise scale per row, by a forest of absolute deviations that has not seen the row's."""
    forest = ExtraTreesRegressor(_TREES, min_samples_leaf=_LEAF, random_state=0)
    shuffled = KFold(_FOLDS, shuffle=True, random_state=1)  # other folds than those of the deviations
    size = np.maximum(cross_val_predict(forest, features, off, cv=shuffled), _LEAST * scale)
    return np.asarray(size * max(_MEAN, float(np.quantile(off / size, 0.99)) / _NORMAL))


def numbers_of(frame: pd.DataFrame) -> list[str]:
    """The columns of numbers that slips can be planted in."""
    return [
        str(name)
        for name in frame.columns
        if pd.api.types.is_numeric_dtype(frame[name].dtype) and frame[name].nunique() > _VALUES
    ]


def plant(
    frame: pd.DataFrame, noise: dict[str, Noise], each: int, rng: np.random.Generator, kinds: Iterable[str] = KINDS
) -> tuple[pd.DataFrame, list[Slip]]:
    """A copy of a table with some slips of each kind, each in a row of its own and far enough off.

    Args:
        frame: the table.
        noise: of each column that slips may be in; they may be swapped with any column of numbers.
        each: slips of each kind.
        rng: draws rows and columns.
        kinds: of ``KINDS``.

    Returns:
        The copy and the slips, fewer where too few values can slip so far.
    """
    numbers = numbers_of(frame)
    changed, slips = frame.astype(dict.fromkeys(numbers, np.float64)), list[Slip]()
    taken: set[int] = set()
    for kind in kinds:
        count = 0
        for row in rng.permutation(len(frame))[:_TRIES].tolist():
            if count == each:
                break
            column = str(rng.choice(list(noise)))
            others = [name for name in numbers if name != column]
            slip = Slip(kind, row, column, str(rng.choice(others)) if kind == "swap" and others else "")
            new = _slipped(changed, slip)
            far = [noise[name].far(row, value) for name, value in new.items() if name in noise]
            if row not in taken and far and max(off.by_median for off in far) > FAR:
                for name, value in new.items():
                    changed.loc[row, name] = value
                clear, clear_in_row = (max(off[measure] for off in far) > FAR for measure in (1, 2))
                slips.append(slip._replace(clear=clear, clear_in_row=clear_in_row))
                taken.add(row)
                count += 1
    return changed, slips


def _slipped(frame: pd.DataFrame, slip: Slip) -> dict[str, float]:
    """What the values of a row become; nothing where a slip would not show."""
    value = float(frame.at[slip.row, slip.column])
    if slip.kind != "swap":
        return {slip.column: value * FACTORS[slip.kind]} if value and not np.isnan(value) else {}
    other = float(frame.at[slip.row, slip.other]) if slip.other else value
    return {slip.column: other, slip.other: value} if value != other and not np.isnan(value + other) else {}


def _numbers(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Numbers with medians for gaps, and levels by their places."""
    parts = []
    for name in frame.columns:
        if pd.api.types.is_numeric_dtype(frame[name].dtype):
            values = frame[name].to_numpy(np.float64)
            parts.append(np.where(np.isnan(values), np.nanmedian(values), values))
        else:
            parts.append(pd.factorize(frame[name])[0].astype(np.float64))
    return np.column_stack(parts)


def noise_of_columns(frame: pd.DataFrame) -> dict[str, Noise]:
    """The noise of every column of numbers, before anything is planted."""
    return {name: Noise.of(frame, name) for name in numbers_of(frame)}


def slips_in_columns(frame: pd.DataFrame, noise: dict[str, Noise], seeds: range) -> Iterator[dict[str, Any]]:
    """Plant slips in any column of numbers: are they among the odd rows, and is the hint right?"""
    for seed in seeds:
        changed, slips = plant(frame, noise, _each(frame), np.random.default_rng([seed, 1]))
        finding = odd_rows(read_columns(changed), set())
        yield from _told(slips, () if finding is None else finding.suspects)


def slips_in_target(frame: pd.DataFrame, target: str, noise: Noise, seeds: range) -> Iterator[dict[str, Any]]:
    """Plant slips in the target: are they among the wrong targets, and is the hint right?"""
    for seed in seeds:
        rng = np.random.default_rng([seed, 2])
        changed, slips = plant(frame, {target: noise}, _each(frame), rng, FACTORS)
        suspects = [suspect for suspect in audit(changed, target=target).suspects if suspect.kind == "targets"]
        yield from _told(slips, suspects)


def _each(frame: pd.DataFrame) -> int:
    """Slips of each kind: two rows in a hundred slip at most."""
    return max(1, min(4, len(frame) // 250))


def _told(slips: list[Slip], suspects: Iterable[Suspect]) -> Iterator[dict[str, Any]]:
    headlines = {suspect.row: suspect.headline for suspect in suspects}
    for slip in slips:
        said = headlines.get(slip.row, "")
        hint = {"found": float(bool(said)), "right hint": float(slip.told(said))}
        told = hint["right hint"]
        yield {
            "planted": slip.kind,
            **hint,
            BEYOND_TAILS: told if slip.clear else np.nan,
            BEYOND_OWN: told if slip.clear_in_row else np.nan,
        }
