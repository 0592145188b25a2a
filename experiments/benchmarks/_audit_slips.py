"""Slips planted in real tables: values × 10, ÷ 10 or × 1000, of the other sign, or swapped with another column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import cross_val_predict

from likely.auditing import Suspect, audit
from likely.auditing._columns import read_columns
from likely.auditing._rows import odd_rows
from likely.auditing._squash import Squash

FACTORS = {"× 10": 10.0, "÷ 10": 0.1, "× 1000": 1000.0, "sign": -1.0}
HINTS = {"× 10": "÷10", "÷ 10": "×10", "× 1000": "÷1,000", "sign": "sign"}
KINDS = (*FACTORS, "swap")
FAR = 4.0  # noise scales by which a slip must move a value away from what is expected
_VALUES = 20  # a column of numbers that slips are planted in has more different ones
_TREES, _FOLDS = 50, 4
_NORMAL = 2.576  # standard deviations that one normal value in a hundred exceeds
_TRIES = 400  # cells looked at for one that a slip moves so far


class Slip(NamedTuple):
    """A slip: its kind, its row, its column, the column it is swapped with, and whether it is beyond the tails too."""

    kind: str
    row: int
    column: str
    other: str = ""
    clear: bool = False

    def told(self, headline: str) -> bool:
        """Whether a headline names the column and what happened to it."""
        if self.kind == "swap":
            both = f"{self.column} and {self.other}", f"{self.other} and {self.column}"
            as_target = f"{self.column} = ", f"looks swapped with {self.other}"
            named = any(headline == f"{pair} look swapped" for pair in both)
            return named or (headline.startswith(as_target[0]) and headline.endswith(as_target[1]))
        tail = headline.rsplit("; ", 1)[-1]
        hints = ("the other sign would fit", "sign: ") if self.kind == "sign" else (f"{HINTS[self.kind]} would fit",)
        return headline.startswith(f"{self.column} = ") and tail.startswith(hints)


class Noise(NamedTuple):
    """What a column of numbers is expected to be by the others, and the scale of what is left, both squashed.

    Args:
        squash: makes values steps that are alike.
        expected: of each row.
        scale: by the median deviation.
        tails: the same by the deviation that one value in a hundred exceeds, if that is larger.
    """

    squash: Squash
    expected: NDArray[np.float64]
    scale: float
    tails: float

    @classmethod
    def of(cls, frame: pd.DataFrame, column: str) -> Noise:
        """By a forest that has not seen the row: no part of what is measured judges what is planted."""
        values = frame[column].to_numpy(np.float64)
        squash = Squash.of(values, by_tails=True)
        there = ~np.isnan(values)
        expected = np.zeros(len(values))
        forest = ExtraTreesRegressor(_TREES, min_samples_leaf=3, random_state=0)
        features = _numbers(frame.drop(columns=column))
        expected[there] = cross_val_predict(forest, features[there], squash(values[there]), cv=_FOLDS)
        off = np.abs(squash(values[there]) - expected[there])
        scale = max(1.4826 * float(np.median(off)), 0.5 * float(off.mean())) or 1.0
        return cls(squash, expected, scale, max(scale, float(np.quantile(off, 0.99)) / _NORMAL))

    def far(self, row: int, value: float) -> tuple[float, float]:
        """How far a value in a row would be from what is expected, in both noise scales."""
        off = float(abs(self.squash(value) - self.expected[row]))
        return off / self.scale, off / self.tails


def numbers_of(frame: pd.DataFrame) -> list[str]:
    """The columns of numbers that slips can be planted in."""
    return [
        str(name)
        for name in frame.columns
        if pd.api.types.is_numeric_dtype(frame[name].dtype) and frame[name].nunique() > _VALUES
    ]


def plant(
    frame: pd.DataFrame, noise: dict[str, Noise], each: int, rng: np.random.Generator, *, comparable: bool = False
) -> tuple[pd.DataFrame, list[Slip]]:
    """A copy of a table with some slips of each kind, each in a row of its own and far enough off.

    Args:
        frame: the table.
        noise: of each column that slips may be in; they may be swapped with any column of numbers.
        each: slips of each kind.
        rng: draws rows and columns.
        comparable: whether only values are swapped that lie in the range of the other column.

    Returns:
        The copy and the slips, fewer where too few values can slip so far.
    """
    numbers = numbers_of(frame)
    changed, slips = frame.astype(dict.fromkeys(numbers, np.float64)), list[Slip]()
    ends = {name: (frame[name].min(), frame[name].max()) for name in numbers}
    taken: set[int] = set()
    for kind in KINDS:
        count = 0
        for row in rng.permutation(len(frame))[:_TRIES].tolist():
            if count == each:
                break
            column = str(rng.choice(list(noise)))
            others = [name for name in numbers if name != column]
            slip = Slip(kind, row, column, str(rng.choice(others)) if kind == "swap" and others else "")
            new = _slipped(changed, slip)
            if (
                comparable
                and kind == "swap"
                and not all(low <= new.get(name, low) <= high for name, (low, high) in ends.items())
            ):
                continue
            far = [noise[name].far(row, value) for name, value in new.items() if name in noise]
            if row not in taken and far and max(off for off, _ in far) > FAR:
                for name, value in new.items():
                    changed.loc[row, name] = value
                slips.append(slip._replace(clear=max(off for _, off in far) > FAR))
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


def slips_in_columns(frame: pd.DataFrame, seeds: range) -> Iterator[dict[str, Any]]:
    """Slips in any column of numbers: found among the odd rows, and told with the right hint?"""
    noise = {name: Noise.of(frame, name) for name in numbers_of(frame)}
    for seed in seeds:
        changed, slips = plant(frame, noise, _each(frame), np.random.default_rng([seed, 1]))
        finding = odd_rows(read_columns(changed), set())
        yield from _told(slips, () if finding is None else finding.suspects)


def slips_in_target(frame: pd.DataFrame, target: str, seeds: range) -> Iterator[dict[str, Any]]:
    """Slips in the target: found among wrong targets, and told with the right hint?"""
    noise = {target: Noise.of(frame, target)}
    for seed in seeds:
        changed, slips = plant(frame, noise, _each(frame), np.random.default_rng([seed, 2]), comparable=True)
        found = [own for own in audit(changed, target=target).suspects if own.kind == "targets"]
        yield from _told(slips, found)


def _each(frame: pd.DataFrame) -> int:
    """Slips of each kind: two rows in a hundred slip at most."""
    return max(1, min(4, len(frame) // 250))


def _told(slips: list[Slip], suspects: Iterable[Suspect]) -> Iterator[dict[str, Any]]:
    headlines = {own.row: own.headline for own in suspects}
    for slip in slips:
        said = headlines.get(slip.row, "")
        hint = {"found": float(bool(said)), "right hint": float(slip.told(said))}
        beyond = hint["right hint"] if slip.clear else np.nan
        yield {"planted": slip.kind, **hint, "right hint, beyond the tails": beyond}
