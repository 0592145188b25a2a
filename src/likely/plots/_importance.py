"""Bars of column importances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from likely.metrics._input import Array, as_array, check_count
from likely.plots._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class ImportanceDisplay(Display):
    """Horizontal bars of how much each column matters to the mean and to the scale, two per column.

    A column with a long second bar makes rows noisy or certain, whatever its effect on the mean. The values are those
    of ``model.importances()``: the change of a prediction when the column is shuffled among rows, for the mean in
    standard deviations of the predictions and for the scale in log units.

    Args:
        columns: names of the d columns.
        mean: importance for the mean (of a classifier, for the probabilities), shape (d,).
        scale: importance for the scale (of a classifier, for its certainty), shape (d,).
        labels: names of the two kinds of bars in the legend.

    Attributes:
        ax_: the axes that were drawn on.
        figure_: their figure.

    Raises:
        ValueError: the number of values differs from that of columns.

    Example:
        >>> from likely.plots import ImportanceDisplay
        >>> display = ImportanceDisplay(["age", "dose"], [0.9, 0.1], [0.0, 0.6]).plot()
        >>> [label.get_text() for label in display.ax_.get_yticklabels()]
        ['age', 'dose']
        >>> import matplotlib.pyplot as plt; plt.close(display.figure_)

    See Also:
        :class:`~likely.tabular.LikelihoodRegressor`, :class:`~likely.tabular.LikelihoodClassifier`.
    """

    columns: Sequence[str]
    mean: Array
    scale: Array
    _: KW_ONLY
    labels: tuple[str, str] = ("mean", "scale")

    def __post_init__(self) -> None:
        self.mean, self.scale = as_array("mean", self.mean), as_array("scale", self.scale)
        for label, value in (("mean", self.mean), ("scale", self.scale)):
            if value.shape != (len(self.columns),):
                raise ValueError(
                    f"{label} has shape {value.shape}, expected ({len(self.columns)},): one value per column"
                )

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any = None, *, ax: Axes | None = None, most: int = 15, **kwargs: Any
    ) -> Self:
        """Draw the importances of a fitted model.

        Args:
            model: fitted :class:`~likely.tabular.LikelihoodRegressor` or :class:`~likely.tabular.LikelihoodClassifier`.
            X: rows whose columns are shuffled, shape (n, d); None for some of the training rows.
            ax: axes to draw on; None for a new figure.
            most: maximum number of columns, those with the longest bars.
            **kwargs: passed to :meth:`plot`.

        Returns:
            The display, drawn.
        """
        importances = model.importances(X)
        named = {"labels": ("probabilities", "certainty")}
        display = cls(
            importances.columns, importances.mean, importances.scale, **(named if hasattr(model, "classes_") else {})
        )
        return display.plot(ax, most=most, **kwargs)

    def plot(self, ax: Axes | None = None, *, most: int = 15, **bars: Any) -> Self:
        """Draw the bars, with the column of greatest importance for the mean on top.

        Args:
            ax: axes to draw on; None for a new figure.
            most: maximum number of columns, those with the longest bars.
            **bars: passed to :meth:`matplotlib.axes.Axes.barh`.

        Returns:
            The display itself.
        """
        check_count("most", most)
        shown = np.argsort(-np.maximum(self.mean, self.scale), kind="stable")[:most]
        shown = shown[np.argsort(-self.mean[shown], kind="stable")]
        ax = self._axes(ax, 5.6, 1.5 + 0.32 * len(shown))
        places, height = np.arange(len(shown)), 0.38
        for values, label, colour, side in zip(
            (self.mean, self.scale), self.labels, ("C0", "C1"), (-1, 1), strict=True
        ):
            style = {"color": colour, "label": label, **bars}
            ax.barh(places + side * height / 2, values[shown], height, **style)
        ax.set_yticks(places, [_shortened(str(self.columns[place])) for place in shown])
        ax.set(ylim=(len(shown) - 0.4, -0.6), xlim=(0, None), xlabel="Change where the column is shuffled")
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        if len(shown) < len(self.columns):
            ax.set_ylabel(f"{len(shown)} of {len(self.columns)} columns")
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, ncols=2, borderaxespad=0.2, handlelength=1.2)
        return self


def _shortened(name: str, most: int = 24) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
