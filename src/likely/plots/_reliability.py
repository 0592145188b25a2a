"""Reliability diagrams."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from likely.metrics._bins import Bins, sums_in_bins, upper_edges
from likely.metrics._input import Array, Input, classified, judged
from likely.plots._display import QUIET, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(Display):
    """Reliability diagram: accuracy over confidence per bin, with the share of rows in each bin below.

    On the diagonal accuracy equals confidence; below it the model is overconfident. Each dot is at the mean confidence
    of its bin, with a 90% interval of the accuracy there (Wilson's), to tell a gap from chance. The bins, ``pos_label``
    and the ECE in the legend are those of :func:`likely.metrics.expected_calibration_error`.

    Args:
        confidence: mean confidence of each of the b occupied bins, shape (b,).
        accuracy: share of correct rows per bin, shape (b,).
        mass: share of all rows per bin, shape (b,).
        size: effective number of rows per bin, shape (b,), for the intervals.
        edges: lower and upper edge of each bin, shape (b, 2).
        name: name of the model, for the legend; None for none.
        pos_label: class whose probability is shown; None for the top class of each row.

    Attributes:
        ax_: the axes that were drawn on.
        figure_: their figure.

    Example:
        >>> from likely.plots import ReliabilityDisplay
        >>> display = ReliabilityDisplay.from_predictions([1, 1, 0, 1], [0.9, 0.9, 0.6, 0.6], name="toy")
        >>> display.ax_.get_legend_handles_labels()[1][0]
        'toy (ECE 0.100)'
        >>> import matplotlib.pyplot as plt; plt.close(display.figure_)

    See Also:
        :class:`PITDisplay`, for regressors; :class:`sklearn.calibration.CalibrationDisplay`.
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
        **kwargs: Any,
    ) -> Self:
        """Draw the diagram of predicted probabilities.

        Args:
            y_true: class numbers 0 … C - 1, shape (n,).
            y_prob: class probabilities, shape (n, C), or (n,) with the probability of class 1.
            n_bins: number of bins.
            strategy: ``"uniform"`` for bins of equal width, ``"quantile"`` for bins of equal weight.
            pos_label: class whose probability is shown; None for the top class of each row.
            sample_weight: weight per row, shape (n,); None for equal weights.
            name: name of the model, for the legend; None for none.
            ax: axes to draw on, those of another diagram for a comparison; None for a new figure.
            **kwargs: passed to :meth:`plot`.

        Returns:
            The display, drawn.
        """
        data = judged(classified(y_true, y_prob, sample_weight), pos_label)
        upper = upper_edges(data, n_bins, strategy)
        bins = Bins.of(*sums_in_bins(data, upper, len(upper)))
        edges = np.stack([np.concatenate([[0.0], upper[:-1]]), upper], 1)[bins.occupied]
        display = cls(bins.confidence, bins.accuracy, bins.mass, bins.size, edges, name=name, pos_label=pos_label)
        return display.plot(ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the diagram of a fitted classifier's ``predict_proba``.

        Args:
            estimator: fitted classifier with ``classes_`` and ``predict_proba``.
            X: table of shape (n, d), of any kind that the estimator takes.
            y: labels, shape (n,), among ``classes_``.
            name: name of the model, for the legend; None for that of its class.
            **kwargs: passed to :meth:`from_predictions`.

        Returns:
            The display, drawn.

        Raises:
            ValueError: y holds a label that is not in ``classes_``.
        """
        classes, y = np.asarray(estimator.classes_), np.asarray(y)
        labels = np.searchsorted(classes, y).clip(max=len(classes) - 1)
        unknown = y[classes[labels] != y]
        if len(unknown):
            raise ValueError(f"y holds labels the estimator was not fitted with: {', '.join(map(str, set(unknown)))}")
        return cls.from_predictions(labels, estimator.predict_proba(X), name=name or type(estimator).__name__, **kwargs)

    @property
    def ece(self) -> float:
        """The expected calibration error that the legend shows."""
        return float(np.dot(self.mass, np.abs(self.accuracy - self.confidence)))

    def plot(self, ax: Axes | None = None, **line: Any) -> Self:
        """Draw the diagram.

        Args:
            ax: axes to draw on, those of another diagram for a comparison; None for a new figure.
            **line: passed to :meth:`matplotlib.axes.Axes.plot`.

        Returns:
            The display itself.
        """
        ax = self._axes(ax, 4.2, 4.8)
        if not ax.has_data():
            ax.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        label = f"{self.name} (ECE {self.ece:.3f})" if self.name else f"ECE {self.ece:.3f}"
        style = {"marker": "o", "markersize": 4.5, "linewidth": 1.4, "zorder": 3, "label": label, **line}
        (drawn,) = ax.plot(self.confidence, self.accuracy, **style)
        colour = drawn.get_color()
        low, high = _wilson(self.accuracy, self.size)
        ax.vlines(self.confidence, low, high, color=colour, linewidth=5, alpha=0.2, zorder=2)
        what = "Confidence" if self.pos_label is None else f"Probability of class {self.pos_label}"
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        ax.set_ylabel("Accuracy" if self.pos_label is None else f"Share of class {self.pos_label}")
        ax.legend(loc="upper left", frameon=False, handlelength=1.6)
        self._histogram(ax, what, colour)
        return self

    def _histogram(self, ax: Axes, what: str, colour: Any) -> None:
        below: Any = next((child for child in ax.child_axes if child.get_label() == "share of rows"), None)
        if below is None:
            below = ax.inset_axes((0, -0.27, 1, 0.2), label="share of rows", sharex=ax)
            ax.tick_params(labelbottom=False)
            below.set_xlabel(what)
            below.set_ylabel("Rows")
            for axes in (ax, below):
                axes.yaxis.set_label_coords(-0.13, 0.5)
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
