"""Prediction intervals with their targets."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from likely.metrics._input import Array, Input, as_array, check_count
from likely.plots._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INSIDE, OUTSIDE = "C0", "C3"


@dataclass(eq=False, repr=False)
class IntervalDisplay(Display):
    """Prediction intervals with their targets, row by row in the order of prediction.

    The band shows the interval of each row; targets inside and outside it have two colours, and the title gives the
    share inside. Targets outside that concentrate somewhere show for which predictions the intervals are too narrow.

    Args:
        y_true: targets, shape (n,).
        lower: lower ends, shape (n,).
        upper: upper ends, shape (n,).
        prediction: values that rows are ordered by, shape (n,).
        coverage: nominal share of targets inside, for the title; None where it is not known.
        name: name of the model, for the title; None for none.

    Attributes:
        ax_: the axes that were drawn on.
        figure_: their figure.

    Example:
        >>> from likely.plots import IntervalDisplay
        >>> display = IntervalDisplay.from_predictions([0.5, 2.0, 2.5, 9.0], [0, 1, 2, 3], [1, 2, 3, 4], coverage=0.9)
        >>> display.ax_.get_title()
        '90% intervals hold 75.0% of 4 rows'
        >>> import matplotlib.pyplot as plt; plt.close(display.figure_)

    See Also:
        :func:`likely.metrics.interval_coverage`, :func:`likely.metrics.interval_score`; :class:`PITDisplay`, for whole
        distributions.
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
        **kwargs: Any,
    ) -> Self:
        """Draw the predicted intervals of any model.

        Args:
            y_true: targets, shape (n,).
            lower: lower ends, shape (n,).
            upper: upper ends, shape (n,); not below the lower ones.
            prediction: values to order rows by, shape (n,); None for the middle of the interval.
            coverage: nominal share of targets inside, for the title; None where it is not known.
            name: name of the model, for the title; None for none.
            ax: axes to draw on; None for a new figure.
            **kwargs: passed to :meth:`plot`.

        Returns:
            The display, drawn.

        Raises:
            ValueError: shapes differ, or an upper end is below its lower end.
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
            with np.errstate(invalid="ignore"):  # a row with infinite ends has no middle, and comes last
                order = low / 2 + high / 2
        return cls(y, low, high, order, coverage=coverage, name=name).plot(ax, **kwargs)

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
        **kwargs: Any,
    ) -> Self:
        """Draw the central intervals of a fitted regressor.

        Args:
            model: fitted estimator with ``predict`` and ``predict_interval``, such as
                :class:`~likely.tabular.LikelihoodRegressor`.
            X: table of shape (n, d).
            y: targets, shape (n,).
            coverage: probability of the intervals, in (0, 1).
            name: name of the model, for the title; None for that of its class.
            ax: axes to draw on; None for a new figure.
            **kwargs: passed to :meth:`plot`.

        Returns:
            The display, drawn.
        """
        lower, upper = model.predict_interval(X, coverage)
        name = type(model).__name__ if name is None else name
        return cls.from_predictions(
            y, lower, upper, prediction=model.predict(X), coverage=coverage, name=name, ax=ax, **kwargs
        )

    @property
    def inside(self) -> Array:
        """Whether each target lies in its interval, ends included."""
        return np.asarray((self.lower <= self.y_true) & (self.y_true <= self.upper))

    def plot(self, ax: Axes | None = None, *, most: int = 1000, **points: Any) -> Self:
        """Draw the intervals and targets.

        Args:
            ax: axes to draw on; None for a new figure.
            most: maximum number of rows, evenly spaced over all. The title counts all rows.
            **points: passed to :meth:`matplotlib.axes.Axes.scatter`.

        Returns:
            The display itself.
        """
        check_count("most", most)
        ax = self._axes(ax, 5.6, 3.6)
        order = np.argsort(self.prediction, kind="stable")
        order = order[np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(np.intp)]
        y, low, high, inside = (values[order] for values in (self.y_true, self.lower, self.upper, self.inside))
        ends = np.concatenate([y, low[np.isfinite(low)], high[np.isfinite(high)]])
        pad = 0.05 * (np.ptp(ends) or 1.0)
        floor, ceiling = ends.min() - pad, ends.max() + pad
        # The first and the last row have half a step each; an end at infinity is one beyond the axes.
        places, edges = np.arange(len(y)), np.arange(len(y) + 1) - 0.5
        low, high = (np.append(end, end[-1]).clip(2 * floor - ceiling, 2 * ceiling - floor) for end in (low, high))
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
