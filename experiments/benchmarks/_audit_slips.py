"""Slips planted in real tables: values × 10, ÷ 10 or × 1000, of the other sign, or swapped with another column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import cross_val_predict

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
    frame: pd.DataFrame, noise: dict[str, Noise], each: int, rng: np.random.Generator, target: str = ""
) -> tuple[pd.DataFrame, list[Slip]]:
    """A copy of a table with some slips of each kind, each in a row of its own and far enough off.

    Args:
        frame: the table.
        noise: of each column that slips may be in.
        each: slips of each kind.
        rng: draws rows and columns.
        target: the only column that slips are in, swapped with the others; any if empty.

    Returns:
        The copy and the slips, fewer where too few values can slip so far.
    """
    changed, slips = frame.copy(), list[Slip]()
    changed[list(noise)] = changed[list(noise)].astype(np.float64)
    taken: set[int] = set()
    for kind in KINDS:
        count = 0
        for row in rng.permutation(len(frame))[:_TRIES].tolist():
            if count == each:
                break
            column = target or str(rng.choice(list(noise)))
            others = [name for name in noise if name != column]
            slip = Slip(kind, row, column, str(rng.choice(others)) if kind == "swap" and others else "")
            new = _slipped(changed, slip)
            far = [noise[name].far(row, value) for name, value in new.items()]
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


def told(slips: list[Slip], headlines: dict[int, list[str]]) -> Iterator[dict[str, Any]]:
    """For each slip whether its row is found, and whether with the right hint."""
    for slip in slips:
        said = headlines.get(slip.row, [])
        hint = any(slip.told(own) for own in said)
        yield {"planted": slip.kind, "found": bool(said), "hint": hint, "clear": slip.clear}
