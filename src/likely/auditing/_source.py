"""A table as it came, before anybody looked at what its columns hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

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


def repeated_names(names: list[str]) -> frozenset[str]:
    """The names that occur more than once."""
    counts = Counter(name.strip() for name in names)
    return frozenset(name for name, count in counts.items() if count > 1 and name)


def own_names(names: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Each name once: a second "a" becomes "a (2)", and a column without a name its number."""
    taken: set[str] = set()
    found, changed = [], []
    for place, given in enumerate(names, start=1):
        stem = given.strip() or f"column {place}"
        own = next(name for name in _numbered(stem) if name not in taken)
        taken.add(own)
        found.append(own)
        if own != given.strip() and given.strip():
            changed.append(given.strip())
    if not changed:
        return found, ()
    return found, (
        f"More than one column is named {', '.join(sorted(set(changed))[:5])}; the later ones are numbered.",
    )


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem} ({number})"
        number += 1


def listed(names: list[str], most: int = 5) -> str:
    """Names with commas between, the first few of many.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
