"""A map of a parameter over two inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from likely.metrics._input import Array, Input, as_array
from likely.plots._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class TemperatureMapDisplay(Display):
    """Map of a temperature or scale over two inputs, with the data points on top.

    Colours are logarithmic, since a temperature multiplies.

    Args:
        x: values of the first input, shape (w,).
        y: values of the second input, shape (h,).
        values: parameter at each pair of inputs, shape (h, w), positive.
        points: data points, shape (n, 2); None for none.
        labels: class numbers of the points, shape (n,), which set their markers; None for one kind.

    Attributes:
        ax_: the axes that were drawn on.
        figure_: their figure.

    Example:
        >>> import numpy as np
        >>> from likely.plots import TemperatureMapDisplay
        >>> display = TemperatureMapDisplay.from_function(lambda x: np.exp(x[:, 0]), [[0, 0], [1, 2]], [0, 1])
        >>> display.values.shape
        (200, 200)
        >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    x: Array
    y: Array
    values: Array
    _: KW_ONLY
    points: Array | None = None
    labels: Array | None = None

    @classmethod
    def from_function(
        cls,
        function: Callable[[Array], Any],
        X: Input,
        y: Input | None = None,
        *,
        margin: float = 0.1,
        resolution: int = 200,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Evaluate a function on a grid around data points and draw the map.

        Args:
            function: function of an array (m, 2) that returns m positive values, as an array or a tensor.
            X: data points, shape (n, 2).
            y: class numbers of the points, shape (n,); None for one kind.
            margin: width of the border around the points, as a share of their range.
            resolution: number of grid points per input.
            ax: axes to draw on; None for a new figure.
            **kwargs: passed to :meth:`plot`.

        Returns:
            The display, drawn.

        Raises:
            ValueError: X does not have two columns, or the function does not return one positive value per point.
        """
        points = as_array("X", X)
        if points.ndim != 2 or points.shape[1] != 2:
            raise ValueError(f"X has shape {points.shape}, expected (n, 2): a map needs two inputs")
        labels = None if y is None else as_array("y", y)
        if labels is not None and labels.shape != points.shape[:1]:
            raise ValueError(f"y has shape {labels.shape}, expected ({len(points)},): give one class per point")
        low, high = points.min(0), points.max(0)
        pad = margin * np.where(high > low, high - low, 1)
        x_line, y_line = np.linspace(low - pad, high + pad, resolution).T
        grid = np.stack(np.meshgrid(x_line, y_line), -1).reshape(-1, 2)
        with torch.no_grad():
            values = as_array("the function's result", function(grid)).astype(np.float64)
        if values.size != len(grid) or not (values > 0).all():
            raise ValueError(f"function must return one positive value per point, got {values.shape} from {grid.shape}")
        return cls(x_line, y_line, values.reshape(resolution, resolution), points=points, labels=labels).plot(
            ax, **kwargs
        )

    def plot(self, ax: Axes | None = None, *, label: str = "Temperature", cmap: str = "viridis", **points: Any) -> Self:
        """Draw the map.

        Args:
            ax: axes to draw on; None for a new figure.
            label: label of the colour bar.
            cmap: name of the colour map.
            **points: passed to :meth:`matplotlib.axes.Axes.scatter`.

        Returns:
            The display itself.
        """
        ax = self._axes(ax, 5.2, 4.0)
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

        low, high = float(self.values.min()), float(self.values.max())
        norm = LogNorm(low, high) if high > 1.001 * low else LogNorm(0.99 * low, 1.01 * high)
        mesh = ax.pcolormesh(self.x, self.y, self.values, norm=norm, cmap=cmap, shading="auto", rasterized=True)
        bar = ax.figure.colorbar(mesh, ax=ax, label=label)
        # The colour bar of a narrow range would have no ticks at decades alone.
        decades = LogLocator(subs=(1,) if high > 50 * low else (1, 2, 5))
        bar.ax.yaxis.set_major_locator(decades if high > 4 * low else MaxNLocator(5))
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
        if self.points is not None:
            self._scatter(ax, points)
        ax.set(xlabel="First input", ylabel="Second input")
        return self

    def _scatter(self, ax: Axes, options: dict[str, Any]) -> None:
        assert self.points is not None
        labels = np.zeros(len(self.points)) if self.labels is None else self.labels
        for number, kind in enumerate(np.unique(labels)):
            style = {"s": 22, "marker": "osD^vPX"[number % 7], "edgecolor": "white", "linewidth": 0.7, **options}
            x, y = self.points[labels == kind].T
            ax.scatter(x, y, label=None if self.labels is None else f"class {kind:g}", **style)
        if self.labels is not None:
            ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4, frameon=False, handletextpad=0.1)
