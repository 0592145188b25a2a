"""Pictures of calibration as Display objects, in scikit-learn's manner.

Make one with ``from_predictions`` (``from_estimator``, ``from_function``), which draws it, or draw again with
``plot(ax=…)``; the axes and the figure are then ``ax_`` and ``figure_``. Needs matplotlib: ``pip install
'likely[plots]'``; importing this module does not load it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from likely.metrics import pit_values
from likely.metrics._bins import make_bins
from likely.metrics._input import Array, Input, as_array, as_weight, classified, judged

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch.distributions import Distribution

__all__ = ["PITDisplay", "ReliabilityDisplay", "TemperatureMapDisplay"]

_QUIET = "0.55"  # the grey of whatever only supports the eye


class _Display:
    ax_: Axes
    figure_: Figure

    def _axes(self, ax: Axes | None, width: float, height: float) -> Axes:
        """The axes to draw onto, which are kept: those that are given, or those of a new figure."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError:
                raise ImportError("likely.plots needs matplotlib: pip install 'likely[plots]'") from None
            ax = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return ax


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(_Display):
    """A reliability diagram: accuracy over confidence, bin by bin, with the share of rows in each bin below.

    On the diagonal confidence is what it says; below it the model is overconfident. Each dot stands at the mean
    confidence of its bin, with a 90% interval for the accuracy there (Wilson's), so that a gap can be told from
    chance. The bins, ``pos_label`` and the ECE in the legend are those of
    :func:`likely.metrics.expected_calibration_error`.

    >>> from likely.plots import ReliabilityDisplay
    >>> display = ReliabilityDisplay.from_predictions([1, 1, 0, 1], [0.9, 0.9, 0.6, 0.6], name="toy")
    >>> display.ax_.get_legend_handles_labels()[1][0]
    'toy (ECE 0.100)'
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    confidence: Array
    accuracy: Array
    mass: Array
    size: Array
    edges: Array
    _: KW_ONLY
    name: str | None = None
    pos_label: int | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: Input,
        y_prob: Input,
        *,
        n_bins: int = 15,
        strategy: str = "uniform",
        pos_label: int | None = None,
        sample_weight: Input | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Bin the predictions and draw them; ``options`` go to :meth:`plot`."""
        bins = make_bins(judged(classified(y_true, y_prob, sample_weight), pos_label), n_bins, strategy)
        edges = np.stack([bins.lower, bins.upper], 1)
        display = cls(bins.confidence, bins.accuracy, bins.mass, bins.size, edges, name=name, pos_label=pos_label)
        return display.plot(ax, **options)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, **options: Any) -> Self:
        """Draw a fitted classifier's ``predict_proba`` on X; its ``classes_`` number the labels in y."""
        classes, given = np.asarray(estimator.classes_), np.asarray(y)
        labels = np.searchsorted(classes, given).clip(max=len(classes) - 1)
        unknown = given[classes[labels] != given]
        if len(unknown):
            raise ValueError(f"y holds labels the estimator was not fitted with: {', '.join(map(str, set(unknown)))}")
        return cls.from_predictions(
            labels, estimator.predict_proba(X), name=name or type(estimator).__name__, **options
        )

    @property
    def ece(self) -> float:
        """The expected calibration error that the legend shows."""
        return float(np.dot(self.mass, np.abs(self.accuracy - self.confidence)))

    def plot(self, ax: Axes | None = None, *, name: str | None = None, histogram: bool = True, **line: Any) -> Self:
        """Draw onto ``ax`` or a new figure; ``line`` goes to :meth:`matplotlib.axes.Axes.plot`."""
        ax = self._axes(ax, 4.2, 4.8 if histogram else 4.2)
        if not ax.has_data():
            ax.plot([0, 1], [0, 1], color=_QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        name = name or self.name
        label = f"{name} (ECE {self.ece:.3f})" if name else f"ECE {self.ece:.3f}"
        style = {"marker": "o", "markersize": 4.5, "linewidth": 1.4, "zorder": 3, "label": label, **line}
        (drawn,) = ax.plot(self.confidence, self.accuracy, **style)
        colour = drawn.get_color()
        low, high = _wilson(self.accuracy, self.size)
        ax.vlines(self.confidence, low, high, color=colour, linewidth=5, alpha=0.2, zorder=2)
        what = "Confidence" if self.pos_label is None else f"Probability of class {self.pos_label}"
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        ax.set_ylabel("Accuracy" if self.pos_label is None else f"Share of class {self.pos_label}")
        ax.legend(loc="upper left", frameon=False, handlelength=1.6)
        if histogram:
            self._histogram(ax, what, colour)
        else:
            ax.set_xlabel(what)
        return self

    def _histogram(self, ax: Axes, what: str, colour: Any) -> None:
        below: Any = next((child for child in ax.child_axes if child.get_label() == "share of rows"), None)
        if below is None:
            below = ax.inset_axes((0, -0.27, 1, 0.2), label="share of rows", sharex=ax)
            ax.tick_params(labelbottom=False)
            below.set_xlabel(what)
            below.set_ylabel("Rows")
            for each in (ax, below):
                each.yaxis.set_label_coords(-0.13, 0.5)
            below.spines[["top", "right"]].set_visible(False)
            below.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        left, right = self.edges.T
        below.bar(
            left, self.mass, right - left, align="edge", color=colour, alpha=0.45, edgecolor="white", linewidth=0.5
        )


def _wilson(share: Array, size: Array, z: float = 1.645) -> tuple[Array, Array]:
    centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    reach = z / (1 + z**2 / size) * np.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    return centre - reach, centre + reach


class PITDisplay(_Display):
    """A PIT histogram: at which level of its own forecast each target fell, with the band that chance allows.

    Flat is calibrated: a hump means forecasts too wide, a U too narrow, a slope a bias. The band holds 95% of
    each bar's heights when the levels are uniform, so one bar in twenty may leave it.

    >>> import torch
    >>> from likely.plots import PITDisplay
    >>> display = PITDisplay.from_predictions(torch.randn(500), mean=torch.zeros(500), scale=torch.ones(500))
    >>> display.heights.shape, round(float(display.heights.mean()), 6)
    ((10,), 1.0)
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    def __init__(
        self, levels: Array, *, n_bins: int = 10, weight: Array | None = None, name: str | None = None
    ) -> None:
        if not isinstance(n_bins, int) or n_bins < 1:
            raise ValueError(f"n_bins must be an integer ≥ 1, got {n_bins!r}")
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
        **options: Any,
    ) -> Self:
        """Draw the :func:`likely.metrics.pit_values` of the targets; ``options`` go to :meth:`plot`."""
        levels = pit_values(y_true, distribution, mean=mean, scale=scale)
        weight = np.repeat(as_weight(sample_weight, len(levels)), levels.size // len(levels))
        return cls(levels.ravel(), n_bins=n_bins, weight=weight, name=name).plot(ax, **options)

    @property
    def heights(self) -> Array:
        """The height of each bar: 1 on average, and everywhere when calibrated."""
        counts, _ = np.histogram(self.levels, self.n_bins, (0, 1), weights=self.weight)
        return np.asarray(counts / self.weight.sum() * self.n_bins)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, band: float = 0.95, **bars: Any) -> Self:
        """Draw onto ``ax`` or a new figure; ``bars`` goes to :meth:`matplotlib.axes.Axes.bar`."""
        from scipy import stats

        ax = self._axes(ax, 4.8, 3.0)
        if not 0 < band < 1:
            raise ValueError(f"band must lie strictly between 0 and 1, got {band}")
        rows = self.weight.sum() ** 2 / np.square(self.weight).sum()
        ends = stats.binom.ppf([(1 - band) / 2, (1 + band) / 2], round(rows), 1 / self.n_bins) / rows * self.n_bins
        heights = self.heights
        style = {"alpha": 0.75, "edgecolor": "white", "linewidth": 0.8, "label": name or self.name, **bars}
        drawn = ax.bar(np.arange(self.n_bins) / self.n_bins, heights, 1 / self.n_bins, align="edge", zorder=2, **style)
        allowed = ax.axhspan(*ends, facecolor="black", alpha=0.12, zorder=3, label=f"{band:.0%} band if calibrated")
        ax.axhline(1, color="black", linewidth=1, linestyle=(0, (4, 3)), zorder=4)
        ax.set(xlim=(0, 1), ylim=(0, max(1.45 * ends[1], 1.25 * heights.max())))
        ax.set(xlabel="Level of the target in its forecast (PIT)", ylabel="Density")
        handles = [drawn, allowed] if style["label"] else [allowed]
        ax.legend(handles=handles, loc="upper center", frameon=False, ncols=2)
        return self


@dataclass(eq=False, repr=False)
class TemperatureMapDisplay(_Display):
    """A parameter over a plane of inputs: the temperature or scale that a function gives each point, points on top.

    ``function`` takes an array (m, 2) and returns m positive values, as an array or a tensor. Colours are
    logarithmic, for a temperature multiplies.

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
        **options: Any,
    ) -> Self:
        """Evaluate ``function`` on a grid around the points ``X`` (n, 2) and draw; ``y`` numbers their classes."""
        points = as_array("X", X)
        if points.ndim != 2 or points.shape[1] != 2:
            raise ValueError(f"X has shape {points.shape}, expected (n, 2): a map needs two inputs")
        labels = None if y is None else as_array("y", y)
        if labels is not None and labels.shape != points.shape[:1]:
            raise ValueError(f"y has shape {labels.shape}, expected ({len(points)},): one class a point")
        low, high = points.min(0), points.max(0)
        pad = margin * np.where(high > low, high - low, 1)
        x_line, y_line = np.linspace(low - pad, high + pad, resolution).T
        grid = np.stack(np.meshgrid(x_line, y_line), -1).reshape(-1, 2)
        with torch.no_grad():
            values = as_array("the function's result", function(grid)).astype(np.float64)
        if values.size != len(grid) or not (values > 0).all():
            raise ValueError(f"function must return one positive value a point, got {values.shape} from {grid.shape}")
        return cls(x_line, y_line, values.reshape(resolution, resolution), points=points, labels=labels).plot(
            ax, **options
        )

    def plot(self, ax: Axes | None = None, *, label: str = "Temperature", cmap: str = "viridis", **points: Any) -> Self:
        """Draw onto ``ax`` or a new figure; ``points`` goes to :meth:`matplotlib.axes.Axes.scatter`."""
        ax = self._axes(ax, 5.2, 4.0)
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

        low, high = float(self.values.min()), float(self.values.max())
        norm = LogNorm(low, high) if high > 1.001 * low else LogNorm(0.99 * low, 1.01 * high)
        mesh = ax.pcolormesh(self.x, self.y, self.values, norm=norm, cmap=cmap, shading="auto", rasterized=True)
        bar = ax.figure.colorbar(mesh, ax=ax, label=label)
        # Decades alone would leave the bar of a narrow range bare.
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
