"""The few numbers an entry comes down to, each read from the tables of its stored run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from experiments.entries.entry import Result
from experiments.entries.parts import Picture

SAME = "the same"  # ours is what the paper has
NOTHING = "–"


@dataclass(frozen=True)
class Row:
    """One measure: what the paper prints, its method as it has it, ours, the best rival, and the spread of ours."""

    measure: str
    paper: str
    letter: str
    ours: str = SAME
    rival: str = NOTHING
    spread: str = NOTHING


@dataclass(frozen=True)
class Headline:
    """An entry in a few rows.

    Args:
        data: What the stored run was made on.
        rows: The small table.
        picture: Which of the entry's pictures leads, counted from one; -1 is the last.
    """

    data: str
    rows: tuple[Row, ...]
    picture: int = 1

    def lead(self, pictures: Sequence[Picture]) -> tuple[Picture, ...]:
        """The leading one of an entry's pictures, or none where there is none."""
        start = self.picture - 1 if self.picture > 0 else len(pictures) + self.picture
        return tuple(pictures[start : start + 1])


class Numbers:
    """The tables of a result, by the labels of their rows and columns."""

    def __init__(self, result: Result) -> None:
        self.notes = result.notes
        self.frames = [table.frame for table in result.tables]
        self.captions = [table.caption for table in result.tables]

    def at(self, row: str | tuple[str, ...], column: str, table: int = 0) -> Any:
        """One cell, as it is stored."""
        return self.frames[table].loc[row, column]

    def shown(self, row: str | tuple[str, ...], column: str, table: int = 0, digits: int = 3) -> str:
        """One cell, for people."""
        return shown(self.at(row, column, table), digits)

    def spread(self, table: int = 0) -> str:
        """The standard deviation or the distance of quartiles that the caption of a table ends with."""
        caption = self.captions[table]
        if found := re.search(r"standard deviation [^.]*?([\d.]*\d) at the median", caption):
            return f"± {found[1]}"
        found = re.search(r"quartiles are at most ([\d.]*\d) apart", caption)
        return f"≤ {found[1]} (quartiles)" if found else NOTHING

    def count(self, what: str, table: int = 0) -> str:
        """How many of them, as in "5 seeds", the caption of a table names."""
        found = re.search(rf"(\d+) {what}", self.captions[table])
        return found[1] if found else NOTHING

    def rows(self, kind: str, table: int) -> pd.DataFrame:
        """The rows ``kind`` ("here" or "paper") of the sets that the paper has too, by set."""
        frame = self.frames[table]
        with_paper = frame.xs("paper", level=1).index
        return frame.xs(kind, level=1).loc[with_paper]


def shown(value: Any, digits: int = 3) -> str:
    """A number with so many decimals, or the words that are stored.

    >>> shown(-0.78666), shown(4437.7, 0), shown(float("nan")), shown("0.970 ± 0.048")
    ('−0.787', '4,438', '–', '0.970 ± 0.048')
    """
    if isinstance(value, str):
        return value
    return NOTHING if np.isnan(value) else f"{value:z,.{digits}f}".replace("-", "−")


def halves(text: str) -> tuple[str, str]:
    """A value and its spread, which are stored as one text.

    >>> halves("0.970 ± 0.048")
    ('0.970', '± 0.048')
    """
    value, _, spread = text.partition(" ± ")
    return value, f"± {spread}" if spread else NOTHING


def best(candidates: pd.Series[float], *, highest: bool = False, digits: int = 3) -> str:
    """The best of several by value, with its name."""
    name = candidates.idxmax() if highest else candidates.idxmin()
    return f"{shown(candidates[name], digits)} ({name})"


def record(signs: Iterable[int]) -> str:
    """How many are better, neither, worse, from signs of differences of which lower is better."""
    counted = list(signs)
    return f"{counted.count(-1)} – {counted.count(0)} – {counted.count(1)}"
