"""A metric of rows that arrive in blocks."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from likely.metrics._blocks import PER_ROW, RECIPES, Sums, added, check_divisible, split, sums_of

__all__ = ["Running"]


class Running:
    """A metric of rows that arrive in blocks: batches of a loader, files, or the shards of several processes.

    Only sums over rows are stored, so that memory does not grow, and the result equals that of the metric on all rows
    at once, to rounding, whatever the blocks and their order. Objects of several processes can be merged, with
    :meth:`merge` or ``+``. The sums of :func:`smooth_calibration_error` take half a megabyte, those of all other
    metrics a few numbers.

    Args:
        metric: a function of :mod:`likely.metrics`, except those that need all rows at once:
            :func:`miscalibration_area`, :func:`calibration_refinement`, and bins of equal weight
            (``strategy="quantile"``).
        **kwargs: arguments of that function that are the same for all rows, such as ``n_bins=15``.

    Raises:
        TypeError: the metric needs all rows at once, or has no option of that name.
        ValueError: ``reduction="none"``; the metric itself returns one value per row.

    Example:
        >>> from likely.metrics import Running, expected_calibration_error
        >>> running = Running(expected_calibration_error, n_bins=10)
        >>> for y, p in [([1, 1], [0.9, 0.9]), ([0, 1], [0.6, 0.6])]:
        ...     running = running.update(y, p)
        >>> round(running.result(), 6)
        0.1
    """

    def __init__(self, metric: Callable[..., Any], **kwargs: Any) -> None:
        name = getattr(metric, "__name__", repr(metric))
        check_divisible(metric, kwargs)
        if metric not in RECIPES:
            raise TypeError(f"{name} is not a metric of likely.metrics that takes rows in blocks")
        allowed = [option for option in inspect.signature(metric).parameters if option not in PER_ROW]
        for option in set(kwargs) - set(allowed):
            raise TypeError(
                f"{option!r} is not an option of {name}: give one of {', '.join(allowed)}, and rows to update"
            )
        if kwargs.get("reduction", "mean") != "mean":
            raise ValueError("Running returns a mean over rows: call the metric itself for reduction='none'")
        self.metric, self.options = metric, kwargs
        self._sums: Sums | None = None

    def update(self, *rows: Any, **more_rows: Any) -> Self:
        """Add a block of rows.

        Args:
            *rows: the arguments of the metric that hold one entry per row, in its order: ``y_true``, then the
                prediction. Arrays, tensors, lists, Dask's, or a table in files and names of its columns.
            **more_rows: such arguments by name: ``logits``, ``mean``, ``scale``, ``sample_weight`` and so on.

        Returns:
            The object itself.

        Raises:
            TypeError: an option is among the arguments.
            ValueError: the rows are not valid for the metric, or differ from earlier ones in the number of classes or
                in precision. Nothing is added then.
        """
        arguments, options = split(self.metric, rows, more_rows)
        if options:
            raise TypeError(f"{next(iter(options))!r} is the same for all rows: pass it to Running(...) instead")
        self._sums = added(self._sums, sums_of(self.metric, arguments, self.options))
        return self

    def merge(self, other: Running) -> Self:
        """Add all rows of another object of the same metric and options.

        Args:
            other: that object, which is not changed.

        Returns:
            The object itself.

        Raises:
            ValueError: the other object has another metric or other options.
        """
        if other.metric is not self.metric or not _same(self.options, other.options):
            raise ValueError(f"{self} and {other} are not the same metric: give both the same metric and options")
        self._sums = added(self._sums, other._sums)
        return self

    def __add__(self, other: Running) -> Running:
        return copy.copy(self).merge(other)

    def result(self) -> Any:
        """Return the metric of all rows so far.

        Returns:
            The result of the metric, for most metrics a float.

        Raises:
            ValueError: no row was added yet, or none with a positive weight.
        """
        if self._sums is None:
            raise ValueError("there is no row of positive weight yet: call update first")
        return RECIPES[self.metric].result(self._sums, **self.options)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Running({self.metric.__name__}{options})"


def _same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)
