"""PIT histograms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from likely.metrics import pit_values
from likely.metrics._input import Array, Input, as_weight, check_count
from likely.plots._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch.distributions import Distribution


class PITDisplay(Display):
    """Histogram of the probability integral transform (PIT), with the band expected by chance.

    A flat histogram means calibrated forecasts; a hump means forecasts that are too wide, a U too narrow, a slope a
    bias. If the PIT values are uniform the band holds 95% of each bar's heights, so that one bar in twenty may lie
    outside it.

    Args:
        levels: PIT values in [0, 1], shape (n,).
        n_bins: number of bars.
        weight: weight per value, shape (n,); None for equal weights.
        name: name of the model, for the legend; None for none.

    Attributes:
        ax_: the axes that were drawn on.
        figure_: their figure.

    Example:
        >>> import torch
        >>> from likely.plots import PITDisplay
        >>> display = PITDisplay.from_predictions(torch.randn(500), mean=torch.zeros(500), scale=torch.ones(500))
        >>> display.heights.shape, round(float(display.heights.mean()), 6)
        ((10,), 1.0)
        >>> import matplotlib.pyplot as plt; plt.close(display.figure_)

    See Also:
        :func:`likely.metrics.pit_values`, :func:`likely.metrics.pit_histogram`; :class:`ReliabilityDisplay`, for
        classifiers.
    """

    def __init__(
        self, levels: Array, *, n_bins: int = 10, weight: Array | None = None, name: str | None = None
    ) -> None:
        check_count("n_bins", n_bins)
        self.levels, self.n_bins, self.name = levels, n_bins, name
        self.weight = np.ones(levels.shape) if weight is None else weight

    @classmethod
    def from_predictions(
        cls,
        y_true: Input,
        distribution: Distribution | None = None,
        *,
        mean: Input | None = None,
        scale: Input | None = None,
        n_bins: int = 10,
        sample_weight: Input | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the :func:`likely.metrics.pit_values` of targets and their forecasts.

        Args:
            y_true: targets, shape (n,) or (n, k).
            distribution: torch distribution of that batch shape; None where ``mean`` and ``scale`` are given.
            mean: means of normal forecasts, of the shape of ``y_true``.
            scale: standard deviations of normal forecasts, of the shape of ``mean`` or one number.
            n_bins: number of bars.
            sample_weight: weight per row, shape (n,); None for equal weights.
            name: name of the model, for the legend; None for none.
            ax: axes to draw on; None for a new figure.
            **kwargs: passed to :meth:`plot`.

        Returns:
            The display, drawn.
        """
        levels = pit_values(y_true, distribution, mean=mean, scale=scale)
        weight = np.repeat(as_weight(sample_weight, len(levels)), levels.size // len(levels))
        return cls(levels.ravel(), n_bins=n_bins, weight=weight, name=name).plot(ax, **kwargs)

    @property
    def heights(self) -> Array:
        """The height of each bar, of shape (n_bins,), which is 1 on average, and everywhere if calibrated."""
        counts, _ = np.histogram(self.levels, self.n_bins, (0, 1), weights=self.weight)
        return np.asarray(counts / self.weight.sum() * self.n_bins)

    def plot(self, ax: Axes | None = None, **bars: Any) -> Self:
        """Draw the histogram.

        Args:
            ax: axes to draw on; None for a new figure.
            **bars: passed to :meth:`matplotlib.axes.Axes.bar`.

        Returns:
            The display itself.
        """
        import matplotlib
        from scipy import stats

        ax = self._axes(ax, 4.8, 3.0)
        rows = self.weight.sum() ** 2 / np.square(self.weight).sum()
        ends = stats.binom.ppf([0.025, 0.975], round(rows), 1 / self.n_bins) / rows * self.n_bins
        heights = self.heights
        style = {"alpha": 0.75, "edgecolor": "white", "linewidth": 0.8, "label": self.name, **bars}
        drawn = ax.bar(np.arange(self.n_bins) / self.n_bins, heights, 1 / self.n_bins, align="edge", zorder=2, **style)
        ink = matplotlib.rcParams["text.color"]  # black would not be seen on a dark background
        allowed = ax.axhspan(*ends, facecolor=ink, alpha=0.12, zorder=3, label="95% band if calibrated")
        ax.axhline(1, color=ink, linewidth=1, linestyle=(0, (4, 3)), zorder=4)
        ax.set(xlim=(0, 1), ylim=(0, max(1.45 * ends[1], 1.25 * heights.max())))
        ax.set(xlabel="Level of the target in its forecast (PIT)", ylabel="Density")
        handles = [drawn, allowed] if style["label"] else [allowed]
        ax.legend(handles=handles, loc="upper center", frameon=False, ncols=2)
        return self
