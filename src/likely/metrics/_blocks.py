"""Decorators by which metrics accept Dask arrays and frames: functions run on the blocks and return sums."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np
from torch import Tensor
from torch.distributions import Distribution

from likely._rows.sources import Answer, Source, source_of
from likely.metrics._input import as_weight
from likely.metrics._sums import ROWS, Recipe, Sums, added, row_count

P = ParamSpec("P")
R = TypeVar("R")

RECIPES: dict[Any, Recipe] = {}
INDIVISIBLE: dict[Any, str] = {}  # metrics that need all rows at once, and what to use instead
_IN_MEMORY = (str, list, tuple, np.ndarray, Tensor, Distribution, float, int)


def by_sums(recipe: Recipe) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a metric that is computed from sums over rows."""

    def decorate(metric: Callable[P, R]) -> Callable[P, R]:
        whole = _taking_blocks(metric)
        RECIPES[whole] = recipe
        return whole

    return decorate


def by_mean(
    values: Callable[..., Any] | None = None, result: Callable[..., Any] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a metric that is a mean over rows, or a function of one.

    Args:
        values: function of the metric's arguments that returns the mean; None where it is the metric itself.
        result: function of the mean and the options that returns the metric; None where it is the mean.

    Returns:
        The decorator.
    """

    def decorate(metric: Callable[P, R]) -> Callable[P, R]:
        mean: Callable[..., Any] = values or metric

        def sums(**arguments: Any) -> Sums:
            weight = as_weight(arguments.get("sample_weight"), row_count(arguments))
            return Sums.of_mean(mean(**arguments), weight)

        def read(total: Sums, **options: Any) -> Any:
            return total.mean if result is None else result(total.mean, **options)

        return by_sums(Recipe(sums, read))(metric)

    return decorate


def by_rows(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that returns a value per row, computed from that row alone."""
    return _taking_blocks(function)


def all_rows(instead: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a metric that needs all rows at once: blocks raise an error that names an alternative."""

    def decorate(metric: Callable[P, R]) -> Callable[P, R]:
        whole = _taking_blocks(metric)
        INDIVISIBLE[whole] = f"{whole.__name__} needs all rows at once: {instead}"
        return whole

    return decorate


def sums_of(metric: Any, rows: Mapping[str, Any], options: Mapping[str, Any]) -> Sums | None:
    """Return the sums that a metric needs, of rows in memory or in blocks; None where no row has a positive weight."""
    if not _any_source(rows.values()):
        return RECIPES[metric].of_block(rows, options)
    source, names, scalars = _side_by_side(rows, options)
    return source.total(_SumsOfBlock(metric, names, {**options, **scalars}), added)


def split(metric: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of a metric that hold one entry per row, and its options."""
    arguments = inspect.signature(metric).bind_partial(*args, **kwargs).arguments
    rows = {name: arguments[name] for name in ROWS if arguments.get(name) is not None}
    return rows, {name: value for name, value in arguments.items() if name not in ROWS}


def _taking_blocks(metric: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(metric)
    def whole(*args: P.args, **kwargs: P.kwargs) -> R:
        if not _any_source((*args, *kwargs.values())):
            return metric(*args, **kwargs)
        return _of_blocks(whole, *split(metric, args, kwargs))

    return whole


def _of_blocks(metric: Any, rows: dict[str, Any], options: dict[str, Any]) -> Any:
    if metric in INDIVISIBLE:
        raise TypeError(INDIVISIBLE[metric])
    if metric in RECIPES and options.get("reduction", "mean") != "none":
        total = sums_of(metric, rows, options)
        if total is None:
            raise ValueError("there is no row of positive weight: give at least one")
        return RECIPES[metric].result(total, **options)
    source, names, scalars = _side_by_side(rows, options)
    widths = getattr(rows.get("y_true"), "shape", ())[1:]
    answer = Answer(int(widths[0]) if widths else None)
    return source.answers(_RowsOfBlock(metric, names, {**options, **scalars}), answer)


@dataclass(frozen=True)
class _RowsOfBlock:
    """A metric that is pickled by its name, to run where the blocks are."""

    metric: Any
    names: tuple[str, ...]
    options: dict[str, Any]

    def arguments(self, parts: tuple[Any, ...]) -> dict[str, Any]:
        """Return the arguments of the metric for one block."""
        arguments = dict(zip(self.names, parts, strict=True))
        if "lower" in arguments:
            arguments["interval"] = (arguments.pop("lower"), arguments.pop("upper"))
        return arguments

    def __call__(self, *parts: Any) -> Any:
        return self.metric(**self.arguments(parts), **self.options)


@dataclass(frozen=True)
class _SumsOfBlock(_RowsOfBlock):
    def __call__(self, *parts: Any) -> Sums | None:
        return RECIPES[self.metric].of_block(self.arguments(parts), self.options)


def _any_source(values: Any) -> bool:
    return any(
        _any_source(value) if isinstance(value, tuple) else _source(value) is not None
        for value in values
        if value is not None
    )


def _source(value: Any) -> Source | None:
    return None if isinstance(value, _IN_MEMORY) else source_of(value)


def _side_by_side(
    rows: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Source, tuple[str, ...], dict[str, Any]]:
    """Return one table of all arguments with rows, the names of its parts, and the arguments that are scalars."""
    parts = dict(rows)
    if "interval" in parts:
        parts["lower"], parts["upper"] = parts.pop("interval")
    if any(isinstance(value, Distribution) for value in parts.values()):
        raise TypeError(
            "a torch distribution is in memory, but y_true is in blocks: give mean= and scale=, or use Running"
        )
    if options.get("axis", -1) == 0:
        raise ValueError("axis=0 is the axis along which blocks are split: give samples and quantiles with rows first")
    scalars = {name: parts.pop(name) for name, value in rows.items() if np.ndim(value) == 0 and _source(value) is None}
    first = next(name for name, value in parts.items() if _source(value) is not None)
    source = _source(parts.pop(first))
    assert source is not None
    for value in parts.values():
        source = source.beside(value.numpy(force=True) if isinstance(value, Tensor) else value)
    return source, (first, *parts), scalars
