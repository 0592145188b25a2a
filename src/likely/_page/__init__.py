"""The parts of a page: tables and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

Direction = Literal["lower", "higher"]


@dataclass(frozen=True)
class Table:
    """A frame whose index labels its rows, with the columns in which a value can be best.

    A key of ``best`` that is one column name compares down that column; a tuple of names compares those columns
    within each row. Values that are equal when printed with ``digits`` decimals are tied, and all of them are best.
    """

    frame: pd.DataFrame
    caption: str
    best: Mapping[str | tuple[str, ...], Direction] = field(default_factory=dict)
    digits: int = 3


@dataclass(frozen=True)
class Picture:
    """An SVG with alternative text and a caption; a wide one has the full width of the page."""

    svg: str
    alt: str
    caption: str
    wide: bool = False
