"""Tables and pictures of experiments as HTML."""

from __future__ import annotations

from typing import Any
from xml.dom.minidom import parseString

from experiments.entries.parts import Picture, Table
from likely._page import html
from likely._page.html import PALETTE


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
