"""A table as it came, before anybody looked at what its columns hold."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
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


def read_header(header: Iterable[Any]) -> Header:
    """Each name once: a second "a" becomes "a (2)", and a column without a name its number."""
    stems = [readable(str(name)).strip() for name in header]
    names: dict[str, None] = {}  # a set that keeps its order
    for place, stem in enumerate(stems, start=1):
        name = base = stem or f"column {place}"
        number = 1
        while name in names:
            number += 1
            name = f"{base} ({number})"
        names[name] = None
    repeated = frozenset(stem for stem, times in Counter(stems).items() if stem and times > 1)
    note = f"More than one column is named {', '.join(sorted(repeated)[:5])}; the later ones are numbered."
    return Header(list(names), (note,) if repeated else (), repeated)


def readable(text: str) -> str:
    r"""The text with its code in place of each lone surrogate: half a sign, which no file and no page can hold.

    >>> readable("größe 😀"), readable("half \ud83d")
    ('größe 😀', 'half \\ud83d')
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def mend_text(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with text that can be written."""
    # Arrow's text is Unicode; Python's, in objects and categories, need not be.
    loose = [name for name, kind in frame.dtypes.items() if getattr(kind, "storage", kind.kind) in ("O", "python")]
    for name in loose:
        frame[name] = frame[name].map(lambda own: readable(own) if isinstance(own, str) else own)
    return frame


def counted(count: int, what: str, many: str = "") -> str:
    """How many there are of something.

    >>> counted(1, "row"), counted(1200, "row"), counted(2, "text is", "texts are")
    ('1 row', '1,200 rows', '2 texts are')
    """
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def listed(names: list[str], most: int = 5, last: str = ", ") -> str:
    """Names with commas between, the first few of many, and something else before the last of them.

    >>> listed(["a", "b", "c"], most=2), listed(["a", "b", "c"], last=" and ")
    ('a, b and 1 more', 'a, b and c')
    """
    if len(names) > most:
        names, last = [*names[:most], f"{len(names) - most} more"], " and "
    return last.join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
