"""A table as it came, before anybody looked at what its columns hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd


@dataclass(frozen=True)
class Table:
    """A frame whose columns have names of their own, with what reading it had to mend.

    ``ragged`` holds, for a row with more fields than the header, what is wrong with it; ``repeated`` the names that
    more than one column had.
    """

    frame: pd.DataFrame
    name: str
    notes: tuple[str, ...] = ()
    ragged: dict[int, str] = field(default_factory=dict)
    path: Path | None = None
    repeated: frozenset[str] = frozenset()

    def check_single(self, name: str) -> None:
        """Refuse a name that more than one column had: which of them is meant cannot be known."""
        if name in self.repeated:
            raise ValueError(f"{self.name} has more than one column named {name!r}: rename all but one of them")


class Header(NamedTuple):
    """The names of columns, each once, what is to be told of them, and those that more than one column had."""

    names: list[str]
    notes: tuple[str, ...]
    repeated: frozenset[str]


def read_header(given: Iterable[Any]) -> Header:
    """Each name once: a second "a" becomes "a (2)", and a column without a name its number."""
    stems = [str(name).strip() for name in given]
    names: dict[str, None] = {}  # a set that keeps its order
    for place, stem in enumerate(stems, start=1):
        own = stem or f"column {place}"
        numbered = chain([own], (f"{own} ({number})" for number in count(2)))
        names[next(name for name in numbered if name not in names)] = None
    changed = sorted({stem for name, stem in zip(names, stems, strict=True) if stem and name != stem})
    told = f"More than one column is named {', '.join(changed[:5])}; the later ones are numbered."
    repeated = frozenset(stem for stem, times in Counter(stems).items() if stem and times > 1)
    return Header(list(names), (told,) if changed else (), repeated)


def listed(names: list[str], most: int = 5, last: str = ", ") -> str:
    """Names with commas between, the first few of many, and something else before the last of them.

    >>> listed(["a", "b", "c"], most=2), listed(["a", "b", "c"], last=" and ")
    ('a, b and 1 more', 'a, b and c')
    """
    if len(names) > most:
        names, last = [*names[:most], f"{len(names) - most} more"], " and "
    return last.join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
