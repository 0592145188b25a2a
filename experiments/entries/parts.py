"""The parts of a page of experiments: tables whose best values are bold, and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from likely import _page

if TYPE_CHECKING:  # a list of the experiments takes a fraction of a second without it
    from pandas.io.formats.style import Styler

Direction = Literal["lower", "higher"]
BEST = "font-weight: 700;"


@dataclass(frozen=True)
class Table(_page.Table):
    """A frame whose index labels its rows, with the columns in which a value can be best.

    A key of ``best`` that is one column name compares down that column; a tuple of names compares those columns
    within each row. Values that are equal when printed with ``digits`` decimals are tied, and all of them are best.
    """

    best: Mapping[str | tuple[str, ...], Direction] = field(default_factory=dict)

    def highlight(self, style: Styler) -> None:
        """Set the best values in bold."""
        for columns, better in self.best.items():
            highlight = style.highlight_min if better == "lower" else style.highlight_max
            if isinstance(columns, str):
                highlight(subset=[columns], axis="index", props=BEST)
            else:
                highlight(subset=list(columns), axis="columns", props=BEST)


@dataclass(frozen=True)
class Picture:
    """An SVG with alternative text and a caption; a wide one has the full width of the page.

    It is a plain file, drawn in the light colours of the pages' palette.
    """

    svg: str
    alt: str
    caption: str
    wide: bool = False
