"""Prediction intervals beside their targets."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from likely.metrics._input import Array, Input, as_array
from likely.plots._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INSIDE, OUTSIDE = "C0", "C3"


@dataclass(eq=False, repr=False)
class IntervalDisplay(Display):
    """Prediction intervals and the targets they should hold, one row after the other in the order of prediction.

    The band is the interval of each row; targets inside and outside it have two colours, and the title gives the share
    that is inside. Where the outside targets gather says for which predictions the intervals are too narrow.

    Args:
        y_true: targets of shape (rows,).
        lower: lower ends of shape (rows,).
        upper: upper ends of shape (rows,).
        prediction: what rows are ordered by, of shape (rows,).
        coverage: share of the targets that the intervals are meant to hold; None where it is not known.
        name: name of the model, for the title.

    Attributes:
        ax_: the axes that were drawn on.
        figure_: their figure.

    >>> from likely.plots import IntervalDisplay
    >>> display = IntervalDisplay.from_predictions([0.5, 2.0, 2.5, 9.0], [0, 1, 2, 3], [1, 2, 3, 4], coverage=0.9)
    >>> display.ax_.get_title()
    '90% intervals hold 75.0% of 4 rows'
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    y_true: Array
    lower: Array
    upper: Array
    prediction: Array
    _: KW_ONLY
    coverage: float | None = None
    name: str | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: Input,
        lower: Input,
        upper: Input,
        *,
        prediction: Input | None = None,
        coverage: float | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw intervals that any model has predicted.

        Args:
            y_true: targets of shape (rows,).
            lower: lower ends of shape (rows,).
            upper: upper ends of shape (rows,); not below the lower ones.
            prediction: what to order rows by, of shape (rows,); None for the middle of the interval.
            coverage: share of the targets that the intervals are meant to hold, for the title.
            name: name of the model, for the title.
            ax: axes to draw on; None for a new figure.
            **options: passed to :meth:`plot`.

        Returns:
            The display, drawn.

        Raises:
            ValueError: if shapes differ, or an upper end is below its lower end.
        """
        y, low, high = (
            as_array(label, value).astype(np.float64)
            for label, value in (("y_true", y_true), ("lower", lower), ("upper", upper))
        )
        if y.ndim != 1:
            raise ValueError(f"y_true has shape {y.shape}, expected (n,): draw one target at a time")
        order = low if prediction is None else as_array("prediction", prediction).astype(np.float64)
        for label, value in (("lower", low), ("upper", high), ("prediction", order)):
            if value.shape != y.shape:
                raise ValueError(f"{label} has shape {value.shape}, expected {y.shape}: one value per row")
        if (low > high).any():
            raise ValueError("lower is above upper in some rows: exchange the two")
        if prediction is None:
            with np.errstate(invalid="ignore"):  # a row without ends has no middle, and comes last
                order = low / 2 + high / 2
        return cls(y, low, high, order, coverage=coverage, name=name).plot(ax, **options)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        coverage: float = 0.9,
        name: str | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw the central intervals of a fitted regressor.

        Args:
            model: fitted estimator with ``predict`` and ``predict_interval``, such as
                :class:`~likely.tabular.LikelihoodRegressor`.
            X: table of shape (rows, columns).
            y: targets of shape (rows,).
            coverage: share of the targets that intervals are meant to hold, in (0, 1).
            name: name of the model, for the title; None for that of its class.
            ax: axes to draw on; None for a new figure.
            **options: passed to :meth:`plot`.

        Returns:
            The display, drawn.
        """
        lower, upper = model.predict_interval(X, coverage)
        name = type(model).__name__ if name is None else name
        return cls.from_predictions(
            y, lower, upper, prediction=model.predict(X), coverage=coverage, name=name, ax=ax, **options
        )

    @property
    def inside(self) -> Array:
        """Whether each target lies in its interval, ends included."""
        return np.asarray((self.lower <= self.y_true) & (self.y_true <= self.upper))

    def plot(self, ax: Axes | None = None, *, most: int = 1000, **points: Any) -> Self:
        """Draw onto ``ax`` or a new figure.

        Args:
            ax: axes to draw on; None for a new figure.
            most: number of rows that are drawn at most; from more, evenly spaced ones are taken. The title counts all.
            **points: passed to :meth:`matplotlib.axes.Axes.scatter`.

        Returns:
            The display itself.
        """
        if not isinstance(most, int) or most < 1:
            raise ValueError(f"most must be an integer ≥ 1, got {most!r}")
        ax = self._axes(ax, 5.6, 3.6)
        order = np.argsort(self.prediction, kind="stable")
        order = order[np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(np.intp)]
        y, low, high, inside = (own[order] for own in (self.y_true, self.lower, self.upper, self.inside))
        ends = np.concatenate([y, low[np.isfinite(low)], high[np.isfinite(high)]])
        pad = 0.05 * (np.ptp(ends) or 1.0)
        floor, ceiling = ends.min() - pad, ends.max() + pad
        # The first and the last row have half a step each; an end at infinity is one beyond the axes.
        places, edges = np.arange(len(y)), np.arange(len(y) + 1) - 0.5
        low, high = (np.append(own, own[-1]).clip(2 * floor - ceiling, 2 * ceiling - floor) for own in (low, high))
        label = "interval" if self.coverage is None else f"{100 * self.coverage:.4g}% interval"
        ax.fill_between(edges, low, high, step="post", color=INSIDE, alpha=0.25, linewidth=0, zorder=1, label=label)
        for held, colour, label in ((inside, INSIDE, "inside"), (~inside, OUTSIDE, "outside")):
            style = {"s": 9, "color": colour, "linewidth": 0, "zorder": 2 if colour == INSIDE else 3, **points}
            ax.scatter(places[held], y[held], label=label, **style)
        ax.set(xlim=(-0.5, len(y) - 0.5), ylim=(floor, ceiling))
        ax.set(xlabel="Rows in the order of prediction", ylabel="Target", title=self._title())
        ax.legend(loc="upper left", frameon=False, ncols=3, handletextpad=0.4, columnspacing=1.2)
        return self

    def _title(self) -> str:
        meant = "Intervals" if self.coverage is None else f"{100 * self.coverage:.4g}% intervals"
        held = f"{meant} hold {self.inside.mean():.1%} of {len(self.y_true):,} rows"
        return f"{self.name}: {held}" if self.name else held
