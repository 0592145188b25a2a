"""A metric over rows that come in blocks."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from likely.metrics._blocks import INDIVISIBLE, RECIPES, split, sums_of
from likely.metrics._sums import ROWS, Sums, added

__all__ = ["Running"]


class Running:
    """A metric of rows that come in blocks: batches of a loader, files, the shards of several processes.

    What is kept are sums over rows, so that memory does not grow, and the result is that of the metric on all rows at
    once, to rounding, whatever the blocks are and in whichever order they come. Objects of several processes merge.
    The sums of :func:`smooth_calibration_error` are on its grid of 65,537 points, half a megabyte; those of all other
    metrics are a few numbers.

    Args:
        metric: a function of :mod:`likely.metrics`. Those that need all rows at once are refused:
            :func:`miscalibration_area`, :func:`calibration_refinement`, and bins of equal weight
            (``strategy="quantile"``).
        **options: the arguments of that function that are the same for all rows, such as ``n_bins=15``.

    >>> from likely.metrics import Running, expected_calibration_error
    >>> running = Running(expected_calibration_error, n_bins=10)
    >>> for y, p in [([1, 1], [0.9, 0.9]), ([0, 1], [0.6, 0.6])]:
    ...     running = running.update(y, p)
    >>> round(running.result(), 6)
    0.1
    """

    def __init__(self, metric: Callable[..., Any], **options: Any) -> None:
        name = getattr(metric, "__name__", repr(metric))
        if metric in INDIVISIBLE:
            raise TypeError(INDIVISIBLE[metric])
        if metric not in RECIPES:
            raise TypeError(f"{name} is not a metric of likely.metrics that can be added up over blocks")
        allowed = [own for own in inspect.signature(metric).parameters if own not in ROWS]
        for own in options:
            if own not in allowed:
                raise TypeError(f"{own!r} is not an option of {name}: give one of {', '.join(allowed)}; rows to update")
        if options.get("reduction", "mean") != "mean":
            raise ValueError("Running returns a mean over rows: call the metric itself for reduction='none'")
        self.metric, self.options = metric, options
        self._sums: Sums | None = None

    def update(self, *rows: Any, **more_rows: Any) -> Self:
        """Take in a block of rows.

        Args:
            *rows: what the metric takes for each row, in its order: ``y_true``, then the prediction. Arrays, tensors or
                lists, or Dask's.
            **more_rows: the same by their names: ``logits``, ``mean``, ``scale``, ``sample_weight`` and so on.

        Returns:
            The object itself.

        Raises:
            TypeError: an option is among the arguments.
            ValueError: the rows are not what the metric takes, or differ from earlier ones in the number of classes or
                in precision. Nothing is taken in then.
        """
        arguments, options = split(self.metric, rows, more_rows)
        if options:
            raise TypeError(f"{next(iter(options))!r} is the same for all rows: give it to Running itself")
        self._sums = added(self._sums, sums_of(self.metric, arguments, self.options))
        return self

    def merge(self, other: Running) -> Self:
        """Take in all rows of another object of the same metric and options.

        Args:
            other: that object; it stays as it is.

        Returns:
            The object itself.

        Raises:
            ValueError: the other has another metric or other options.
        """
        if other.metric is not self.metric or not _same(self.options, other.options):
            raise ValueError(f"{self} and {other} are not the same metric: make both with the same options")
        self._sums = added(self._sums, other._sums)
        return self

    def __add__(self, other: Running) -> Running:
        return copy.copy(self).merge(other)

    def result(self) -> Any:
        """Return the metric of all rows so far.

        Raises:
            ValueError: there was no row yet, or none with a weight above zero.
        """
        if self._sums is None:
            raise ValueError("there is no row yet, or none with a weight above zero: call update first")
        return RECIPES[self.metric].result(self._sums, **self.options)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Running({self.metric.__name__}{options})"


def _same(own: dict[str, Any], other: dict[str, Any]) -> bool:
    return own.keys() == other.keys() and all(np.array_equal(own[name], other[name]) for name in own)
