"""Tables beyond memory: estimators are fitted to a sample of their rows, and answer all of them block by block."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from likely._rows.sources import Answer, Asked, Source, source_of

MOST = 1 << 25  # numbers of a table that is not in memory that a fit reads: 1.6 million rows of 20 columns


class Read(NamedTuple):
    """What a fit is given, in memory.

    Args:
        X: the table.
        y: its targets.
        beside: what else there is for each row.
        of: the number of rows of the whole table; None where it was in memory anyway.
    """

    X: Any
    y: Any
    beside: tuple[Any, ...]
    of: int | None


def read_sample(X: Any, y: Any, *beside: Any) -> Read:
    """Return what is in memory as it is, and of a table that is not every so many-th row.

    Args:
        X: a table.
        y: its targets: something in memory, a Dask series or array, or the name of a column.
        beside: further things with one entry per row, or names of columns; None where there is none.

    Returns:
        The rows to fit to, spread evenly over the table, and so many that they hold at most ``MOST`` numbers.
    """
    source = source_of(X)
    if source is None:
        return Read(X, y, beside, None)
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    given = [own for own in (y, *beside) if own is not None]
    for own in given:
        source = source.beside(own)
    stride = max(1, -(-_numbers(source) // MOST))
    table, target, *others = source.every(stride)
    rest = iter(others)
    return Read(table, target, tuple(None if own is None else next(rest) for own in beside), len(source))


def _numbers(source: Source) -> int:
    return source.total(_count) if source.names is None else len(source) * len(source.names)


def _count(block: Any, *_: Any) -> int:
    return int(np.prod(np.shape(block)))


def by_blocks(
    parts: Callable[..., int] = lambda **_: 1,
    dtype: Callable[[Any], Any] = lambda _: np.float64,
    beside: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a method that answers each row by itself, with one array or several, so that it takes blocks of rows.

    Columns of a table in files that the fit did not see, such as the target's, are left out.

    Args:
        parts: of the options of a call, how many arrays are returned; each has ``_width()`` columns.
        dtype: of the fitted estimator, the type of an answer.
        beside: names of arguments that hold something for each row.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def whole(self: Any, X: Any, *args: Any, **options: Any) -> Any:
            source = source_of(X)
            if source is None:
                return method(self, X, *args, **options)
            bound = signature.bind(self, X, *args, **options)
            bound.apply_defaults()
            options = dict(list(bound.arguments.items())[2:])
            for name in beside:
                source = source.beside(options.pop(name))
            count, width = parts(**options), self._width(method.__name__, **options)
            columns = None if count == 1 and width is None else count * (width or 1)
            answer = Answer(columns, np.dtype(dtype(self)), method.__name__)
            return _split(source.answers(_OfBlock(Asked(method, self, answer), beside, options), answer), count, width)

        return whole

    return decorate


@dataclass(frozen=True)
class _OfBlock:
    asked: Asked
    names: tuple[str, ...]
    options: dict[str, Any]

    def __call__(self, block: Any, *beside: Any) -> Any:
        names = getattr(self.asked.fitted, "feature_names_in_", None)
        if names is not None and hasattr(block, "columns") and set(names) < set(block.columns):
            block = block[list(names)]
        given = dict(zip(self.names, beside, strict=True))
        said = self.asked(block, **given, **self.options)
        return np.column_stack(said) if isinstance(said, tuple) else said


def _split(answers: Any, count: int, width: int | None) -> Any:
    """The arrays of an answer, which stand side by side."""
    if count == 1:
        return answers
    columns = [own if width is None else slice(own * width, (own + 1) * width) for own in range(count)]
    if hasattr(answers, "columns"):
        return tuple(answers[own] if width is None else answers[list(answers.columns[own])] for own in columns)
    return tuple(answers[:, own] for own in columns)


def refuse_blocks(X: Any, method: str, instead: str) -> None:
    """Raise an error where a table is not in memory and the answer of a method always is.

    Args:
        X: a table.
        method: the name of the method.
        instead: the methods to call.
    """
    if source_of(X) is not None:
        raise ValueError(f"{method} keeps what it returns in memory; of tables in blocks ask {instead}")
