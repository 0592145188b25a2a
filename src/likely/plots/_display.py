"""What all displays share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

QUIET = "0.55"  # the grey of guides such as the diagonal


class Display:
    """Base class of displays, which stores the axes."""

    ax_: Axes
    figure_: Figure

    def _axes(self, ax: Axes | None, width: float, height: float) -> Axes:
        """Store and return the axes to draw on: the given ones, or those of a new figure."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError:
                raise ImportError("likely.plots needs matplotlib: pip install 'likely[plots]'") from None
            ax = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return ax
