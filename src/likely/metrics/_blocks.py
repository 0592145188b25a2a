"""Metrics as sums over rows, which add up over blocks: decorators for tables in blocks, and Running."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np
from torch import Tensor
from torch.distributions import Distribution

from likely._rows.blocks import names_files
from likely._rows.sources import Source, Split, is_source, source_of, split_source
from likely.metrics._input import Array, as_weight, relative

__all__ = ["Running"]

Metric = TypeVar("Metric", bound=Callable[..., Any])

# Arguments that hold one entry per row; all others are options.
PER_ROW = (
    "y_true",
    "y_prob",
    "y_pred",
    "logits",
    "distribution",
    "mean",
    "scale",
    "interval",
    "samples",
    "quantiles",
    "sample_weight",
)


@dataclass(frozen=True)
class Sums:
    """Sums over rows, whose weights are divided by a power of two: only ratios count, and sums must not overflow."""

    weight: float
    linear: Array  # sums of something times the weight
    exponent: int  # of that power
    square: Array = field(default_factory=lambda: np.zeros(0))  # sums of squared weights
    alike: tuple[Any, ...] = ()  # what blocks must have in common

    @classmethod
    def of_mean(cls, mean: Any, weight: Array) -> Sums:
        """Return the sums of rows that have this mean and these weights."""
        total = float(relative(weight).sum())
        mean = np.asarray(mean, dtype=np.float64)
        return cls(total, mean * total, exponent_of(weight), alike=(("numbers per row", mean.shape),))

    def __add__(self, other: Sums) -> Sums:
        for left, right in zip(self.alike, other.alike, strict=True):
            if left != right:
                raise ValueError(f"blocks differ in their {left[0]}: {left[1]} and {right[1]}")
        exponent = max(self.exponent, other.exponent)
        first, second = (sums._over(exponent) for sums in (self, other))
        linear, square = first.linear + second.linear, first.square + second.square
        return Sums(first.weight + second.weight, linear, exponent, square, self.alike)

    def _over(self, exponent: int) -> Sums:
        shift = self.exponent - exponent
        weight, linear = float(np.ldexp(self.weight, shift)), np.ldexp(self.linear, shift)
        return Sums(weight, linear, exponent, np.ldexp(self.square, 2 * shift), self.alike)

    @property
    def mean(self) -> Any:
        """The mean over all rows."""
        mean = self.linear / self.weight
        return mean if mean.ndim else float(mean)


def exponent_of(weight: Array) -> int:
    """Return the power of two that :func:`~likely.metrics._input.relative` divides weights by."""
    return int(np.frexp(weight.max())[1])


@dataclass(frozen=True)
class Recipe:
    """How a metric is computed from sums."""

    sums: Callable[..., Sums]
    result: Callable[..., Any]

    def of_block(self, rows: Mapping[str, Any], options: Mapping[str, Any]) -> Sums | None:
        """Return the sums of one block; None where it has no rows, or none of positive weight."""
        count, weight = row_count(rows), rows.get("sample_weight")
        if count == 0:
            return None
        if weight is not None and not isinstance(weight, Tensor):
            weight = np.asarray(weight)
        if weight is not None and tuple(weight.shape) == (count,) and not bool((weight != 0).any()):
            return None
        return self.sums(**rows, **options)


def added(first: Sums | None, second: Sums | None) -> Sums | None:
    """Return the sums of two blocks together."""
    return second if first is None else first if second is None else first + second


def row_count(rows: Mapping[str, Any]) -> int:
    """Return the number of rows in the arguments of a metric."""
    for name in PER_ROW:
        value = rows.get(name)
        if value is not None:
            value = value[0] if name == "interval" else value
            shape = value.batch_shape if isinstance(value, Distribution) else np.shape(value)
            return int(shape[0]) if shape else 1
    raise ValueError("give y_true and a prediction")


RECIPES: dict[Any, Recipe] = {}
INDIVISIBLE: dict[Any, str] = {}  # metrics that need all rows at once, and what to use instead


def by_sums(recipe: Recipe) -> Callable[[Metric], Metric]:
    """Decorate a metric that is computed from sums over rows."""

    def decorate(metric: Metric) -> Metric:
        whole = by_rows(metric)
        RECIPES[whole] = recipe
        return whole

    return decorate


def by_mean(
    values: Callable[..., Any] | None = None, result: Callable[..., Any] | None = None
) -> Callable[[Metric], Metric]:
    """Decorate a metric that is a mean over rows, or a function of one."""

    def decorate(metric: Metric) -> Metric:
        mean: Any = values or metric

        def sums(**arguments: Any) -> Sums:
            weight = as_weight(arguments.get("sample_weight"), row_count(arguments))
            return Sums.of_mean(mean(**arguments), weight)

        def read(total: Sums, **options: Any) -> Any:
            return total.mean if result is None else result(total.mean, **options)

        return by_sums(Recipe(sums, read))(metric)

    return decorate


def all_rows(instead: str) -> Callable[[Metric], Metric]:
    """Decorate a metric that needs all rows at once: blocks raise an error that names an alternative."""

    def decorate(metric: Metric) -> Metric:
        whole = by_rows(metric)
        INDIVISIBLE[whole] = f"{whole.__name__} needs all rows at once: {instead}"
        return whole

    return decorate


def sums_of(metric: Any, rows: Mapping[str, Any], options: Mapping[str, Any]) -> Sums | None:
    """Return the sums that a metric needs, of rows in memory or in blocks; None where no row has a positive weight."""
    if not _any_table(rows.values()):
        return RECIPES[metric].of_block(rows, options)
    source, columns, scalars = _side_by_side(rows)
    return source.total(functools.partial(_sums_of_block, metric, columns, {**options, **scalars}), added)


def split(metric: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of a metric that hold one entry per row, and its options."""
    arguments = inspect.signature(metric).bind_partial(*args, **kwargs).arguments
    rows = {name: arguments[name] for name in PER_ROW if arguments.get(name) is not None}
    return rows, {name: value for name, value in arguments.items() if name not in PER_ROW}


def by_rows(metric: Metric) -> Metric:
    """Decorate a function that returns a value per row, computed from that row alone, so that it takes blocks."""

    @functools.wraps(metric)
    def whole(*args: Any, **kwargs: Any) -> Any:
        if not _any_table((*args, *kwargs.values())):
            return metric(*args, **kwargs)
        return _of_blocks(whole, *split(metric, args, kwargs))

    return cast(Metric, whole)


def check_divisible(metric: Any, options: Mapping[str, Any]) -> None:
    """Raise an error for a metric, or for bins, that need all rows at once."""
    if metric in INDIVISIBLE:
        raise TypeError(INDIVISIBLE[metric])
    if options.get("strategy") == "quantile":
        raise ValueError("bins of equal weight need all rows at once: pass strategy='uniform', or rows in memory")


def _of_blocks(metric: Any, rows: dict[str, Any], options: dict[str, Any]) -> Any:
    check_divisible(metric, options)
    if metric in RECIPES and options.get("reduction", "mean") != "none":
        total = sums_of(metric, rows, options)
        if total is None:
            raise ValueError("there is no row of positive weight: give at least one")
        return RECIPES[metric].result(total, **options)
    source, columns, scalars = _side_by_side(rows)
    targets = _targets(source.names if columns.main == "y_true" else rows["y_true"])
    call = functools.partial(_rows_of_block, metric, columns, {**options, **scalars}, (-1, *targets))
    return source.map_rows(call, np.empty((0, *targets)))


def _targets(y_true: Any) -> tuple[int, ...]:
    """Return the number of targets per row if there are several, and an empty tuple for one that is a vector."""
    if isinstance(y_true, list | tuple):  # names of columns
        return (len(y_true),) if len(y_true) > 1 else ()
    return tuple(map(int, getattr(y_true, "shape", ())[1:]))


def _rows_of_block(metric: Any, columns: Split, options: dict[str, Any], shape: tuple[int, ...], *block: Any) -> Array:
    """Return the values of a metric for the rows of a block."""
    values: Array = metric(**_arguments(columns, *block), **options).reshape(shape)
    return values


def _sums_of_block(metric: Any, columns: Split, options: dict[str, Any], *block: Any) -> Sums | None:
    """Return the sums that a metric needs of a block."""
    return RECIPES[metric].of_block(_arguments(columns, *block), options)


def _arguments(columns: Split, *block: Any) -> dict[str, Any]:
    """Return the arguments of a metric for one block."""
    arguments: dict[str, Any] = dict(columns(*block))
    if "lower" in arguments:
        arguments["interval"] = (arguments.pop("lower"), arguments.pop("upper"))
    return arguments


def _any_table(values: Any) -> bool:
    return any(_any_table(value) if isinstance(value, tuple) else _is_table(value) for value in values)


def _side_by_side(rows: Mapping[str, Any]) -> tuple[Source, Split, dict[str, Any]]:
    """Return one table of all arguments with rows, the rule that splits its blocks, and the scalars among them."""
    parts = dict(rows)
    if "interval" in parts:
        parts["lower"], parts["upper"] = parts.pop("interval")
    if any(isinstance(value, Distribution) for value in parts.values()):
        raise TypeError(
            "a torch distribution is in memory, but y_true is in blocks: give mean= and scale=, or use Running"
        )
    main = _main_table(parts)
    source = source_of(parts.pop(main))
    assert source is not None
    scalars = {
        name: value
        for name, value in parts.items()
        if name in rows and not isinstance(value, str) and not is_source(value) and np.ndim(value) == 0
    }
    others = {name: _beside(value, source.names) for name, value in parts.items() if name not in scalars}
    return *split_source(main, source, others), scalars


def _main_table(parts: Mapping[str, Any]) -> str:
    """Return the first argument that is a table; one by a text only if there is no other, which may have the column."""
    tables = [name for name in parts if _is_table(parts[name])]
    return next((name for name in tables if not _texts(parts[name])), tables[0])


def _is_table(value: Any) -> bool:
    """Whether an argument is a table in blocks. A text is one if it names files; otherwise it names a column."""
    texts = _texts(value)
    return all(map(names_files, texts)) if texts else is_source(value)


def _texts(value: Any) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    return texts if all(isinstance(text, str) for text in texts) else []


def _beside(value: Any, columns: list[str] | None) -> Any:
    if isinstance(value, Tensor):
        return value.numpy(force=True)
    another_file = isinstance(value, str) and value not in (columns or []) and names_files(value)
    return Path(value) if another_file else value


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
        mine, theirs = self.options, other.options
        same = mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)
        if other.metric is not self.metric or not same:
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
