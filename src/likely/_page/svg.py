"""One look for every picture: matplotlib in, SVG out, the same bytes each time, legible in light and in dark.

A picture is drawn in the light colours of PALETTE and is a plain SVG file. `inline` prepares it for a page: ids made
unique, colours and fonts turned into CSS variables, so that the page decides what they are in the dark.
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
HEAT = "viridis"  # its ends stay visible on both grounds

# Text stays text (small, sharp, found by search); it is laid out with the font that matplotlib brings along, which is
# wider than the fonts of most systems, so nothing overflows there and the layout is the same on every machine.
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
    """The figure as an SVG document that holds no date and no name of the software that drew it."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    return buffer.getvalue()


@styled
def panel(width: float = 4.6, height: float = 3.0) -> tuple[Figure, Axes]:
    """A figure with one pair of axes, of a size that still reads on a phone."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def inline(svg: str, prefix: str) -> str:
    """The `<svg>` element alone, for a page that may hold many, in the colours and fonts of that page."""
    root: Any = parseString(svg).documentElement
    for name in ("width", "height"):
        root.removeAttribute(name)
    for style in root.getElementsByTagName("style"):
        style.parentNode.removeChild(style)
    for element in [root, *root.getElementsByTagName("*")]:
        for name, value in list(element.attributes.items()):
            element.setAttribute(name, _named_for(name, value, prefix))
        # Matplotlib names images by their content, so two that look alike share a name, which nothing refers to.
        if element.tagName == "image":
            element.removeAttribute("id")
    return str(root.toxml())


def _named_for(name: str, value: str, prefix: str) -> str:
    """The value of an attribute with ids of the page and its variables in it."""
    if name == "id":
        return f"{prefix}-{value}"
    if name == "xlink:href" and value.startswith("#"):
        return f"#{prefix}-{value[1:]}"
    for old, new in IN_A_PAGE.items():
        value = value.replace(old, new)
    return value.replace("url(#", f"url(#{prefix}-")


def css_variables(dark: bool) -> str:
    """The palette as CSS declarations."""
    return " ".join(f"--{name}: {colours[dark]};" for name, colours in PALETTE.items())
