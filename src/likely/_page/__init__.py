"""What pages that people read are made of: a table and a picture, as those who compute them hand them over."""

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
    within each row. Values that print alike at ``digits`` decimals are tied, and all of them are best.
    """

    frame: pd.DataFrame
    caption: str
    best: Mapping[str | tuple[str, ...], Direction] = field(default_factory=dict)
    digits: int = 3


@dataclass(frozen=True)
class Picture:
    """An SVG with the words for those who cannot see it; a wide one gets the full width of the page."""

    svg: str
    alt: str
    caption: str
    wide: bool = False
