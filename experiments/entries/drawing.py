"""The style of all pictures: matplotlib figures as reproducible SVG, in the light colours of the pages' palette."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import matplotlib
from cycler import cycler
from matplotlib.figure import Figure

from likely._page.html import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["HEAT", "INK", "LINE", "MUTED", "PALETTE", "SERIES", "panel", "styled", "to_svg"]

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
