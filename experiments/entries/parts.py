"""The parts of a page of experiments: tables whose best values are bold, and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from xml.dom.minidom import parseString

from pandas.io.formats.style import Styler

from likely import _page
from likely._page import html
from likely._page.html import PALETTE

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


def to_html(part: Table | Picture, name: str) -> str:
    """Return a table or a picture as HTML, whose ids begin with the name."""
    return html.table_html(part, name, part.highlight) if isinstance(part, Table) else inline(part.svg, name)


IN_A_PAGE = {light: f"var(--{name}, {light})" for name, (light, _) in PALETTE.items()} | {
    "'DejaVu Sans Mono', monospace": "var(--mono, monospace)",
    "'DejaVu Sans', sans-serif": "var(--sans, sans-serif)",
    "'DejaVu Sans'": "var(--sans, sans-serif)",  # of formulas
}


def inline(svg: str, prefix: str) -> str:
    """Return the `<svg>` element with unique ids, in the colours and fonts of its page."""
    root: Any = parseString(svg).documentElement
    for name in ("width", "height"):
        root.removeAttribute(name)
    for style in root.getElementsByTagName("style"):
        style.parentNode.removeChild(style)
    for element in [root, *root.getElementsByTagName("*")]:
        for name, value in list(element.attributes.items()):
            element.setAttribute(name, _named_for(name, value, prefix))
        # Matplotlib names images by their content: equal images would have the same id, which nothing refers to.
        if element.tagName == "image":
            element.removeAttribute("id")
    return str(root.toxml())


def _named_for(name: str, value: str, prefix: str) -> str:
    """Return the value of an attribute with the ids and variables of the page."""
    if name == "id":
        return f"{prefix}-{value}"
    if name == "xlink:href" and value.startswith("#"):
        return f"#{prefix}-{value[1:]}"
    for old, new in IN_A_PAGE.items():
        value = value.replace(old, new)
    return value.replace("url(#", f"url(#{prefix}-")
