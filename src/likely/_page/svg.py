"""The style of all pictures: matplotlib figures as reproducible SVG, legible in light and dark mode.

A picture is drawn in the light colours of PALETTE and is a plain SVG file. `inline` prepares it for a page: ids become
unique, and colours and fonts become CSS variables, which the page sets for light and dark mode.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from xml.dom.minidom import parseString

import matplotlib
from cycler import cycler
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
INK, MUTED, LINE, GROUND = (PALETTE[name][0] for name in ("ink", "muted", "line", "ground"))
SERIES = tuple(PALETTE[name][0] for name in ("violet", "blue", "green", "gold", "red"))
HEAT = "viridis"  # visible on light and dark backgrounds

# Text stays text (small, sharp, searchable); it is laid out with the font that matplotlib contains, which is wider than
# the fonts of most systems, so that nothing overflows there and the layout is the same on every machine.
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "likely",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.monospace": ["DejaVu Sans Mono"],
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=SERIES),
    "axes.unicode_minus": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.8,
}
IN_A_PAGE = {light: f"var(--{name}, {light})" for name, (light, _) in PALETTE.items()} | {
    "'DejaVu Sans Mono', monospace": "var(--mono, monospace)",
    "'DejaVu Sans', sans-serif": "var(--sans, sans-serif)",
    "'DejaVu Sans'": "var(--sans, sans-serif)",  # of formulas
}
styled = matplotlib.rc_context(STYLE)  # type: ignore[arg-type]  # a decorator for the functions that draw


@styled
def to_svg(figure: Figure) -> str:
    """Return the figure as an SVG document without the date and the name of the software."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    return buffer.getvalue()


@styled
def panel(width: float = 4.6, height: float = 3.0) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes, of a size that is legible on a phone."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


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
