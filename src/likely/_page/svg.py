"""Pictures in a page: ids become unique, and colours and fonts CSS variables, which the page sets for light and dark.

A picture is a plain SVG file, drawn in the light colours of PALETTE.
"""

from typing import Any
from xml.dom.minidom import parseString

PALETTE: dict[str, tuple[str, str]] = {  # name: (light, dark)
    "ink": ("#22252b", "#e4e4e0"),
    "muted": ("#6b7079", "#a3a8b0"),
    "line": ("#d5d6d3", "#3c4048"),
    "ground": ("#fdfcf9", "#17191d"),
    "violet": ("#6a51a3", "#b9a3f5"),
    "blue": ("#2b6cb0", "#74b3f5"),
    "green": ("#1f8a70", "#5fcfae"),
    "gold": ("#b7791f", "#ecc05f"),
    "red": ("#c2423f", "#f58b82"),
}
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


def css_variables(dark: bool) -> str:
    """Return the palette as CSS declarations."""
    return " ".join(f"--{name}: {colours[dark]};" for name, colours in PALETTE.items())
