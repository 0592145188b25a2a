"""Tables in blocks, opened for a fit or a prediction: the roles of columns, and further arguments per row."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._rows.blocks import Rows
from likely._rows.checks import RowCounts
from likely._rows.source_rows import SourceRows, Table
from likely._rows.sources import Source, source_of

_WIDE = ("logits", "features", "samples", "quantiles")  # arguments with several numbers per row; all others have one
Arrays = dict[str, NDArray[Any]]
Check = Callable[[Arrays], "BadRow | None"]


class BadRow(NamedTuple):
    """The first row of a block that cannot be used, and a message with ``{row}`` where its number goes."""

    row: int
    message: str


class Split:
    """Converts a block and its further arguments to arrays by name. It can be pickled."""

    def __init__(
        self, main: str, beside: list[str], named: dict[str, list[str]], columns: list[str] | None = None
    ) -> None:
        self.main, self.beside, self.named, self.columns = main, beside, named, columns

    def __call__(self, block: Any, *beside: Any) -> Arrays:
        arrays = {name: np.asarray(part) for name, part in zip(self.beside, beside, strict=True)}
        arrays |= {name: block[columns].to_numpy() for name, columns in self.named.items()}
        whole = self.columns is None or block.ndim == 1
        arrays[self.main] = np.asarray(block if whole else block[self.columns])
        for name, array in arrays.items():
            arrays[name] = array[:, 0] if name not in _WIDE and array.ndim == 2 and array.shape[1] == 1 else array
        for name, array in arrays.items():
            if array.shape[:1] != (len(block),):
                sizes = f"a block of {len(block)} rows has {name} of shape {array.shape}"
                raise ValueError(f"{name} must have as many rows as the table: {sizes}")
        return arrays


def split_source(
    main: str, source: Source, others: dict[str, Any], columns: Sequence[str] | None = None
) -> tuple[Source, Split]:
    """Attach further arguments to the blocks of a table."""
    beside, named = [], {}
    for name, value in others.items():
        if names := _names(value):
            missing = [column for column in names if column not in (source.names or [])]
            if missing:
                content = (
                    "is an array, without names" if source.names is None else f"has {', '.join(source.names[:10])}"
                )
                raise ValueError(f"{name}={value!r} names a column {missing[0]!r}, but the table {content}")
            named[name] = names
        elif value is not None:
            source = source.with_columns(value)
            beside.append(name)
    if source.names is None:
        return source, Split(main, beside, named)
    named_columns = [column for names in named.values() for column in names]
    remaining = [column for column in source.names if column not in named_columns]
    if columns is not None and set(columns) <= set(remaining):
        remaining = list(columns)
    return source, Split(main, beside, named, remaining)


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    are_names = isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(name, str) for name in value)
    return list(value) if are_names else []


def opened(
    main: str, X: Any, check: Check, *, labels: bool = False, sample_weight: Any = None, **others: Any
) -> dict[str, Any] | None:
    """Check a table in blocks, and return its columns by name.

    There is always a column ``weight``, the number of rows that each row counts for; rows of weight zero are left out.
    """
    source = source_of(X)
    if source is None:
        return None
    constant = float(sample_weight) if isinstance(sample_weight, Real) else 1.0
    weight = None if isinstance(sample_weight, Real) else sample_weight
    source, split = split_source(main, source, {**others, "weight": weight})
    looks = _checked(list(source.each(_Look(split, check, constant))))
    sizes = [look.counts.positive for look in looks]
    shapes = next((look.shapes for look in looks if look.counts.positive), None)
    if shapes is None:
        raise ValueError("the table has no rows" + (" of positive weight" if any(look.rows for look in looks) else ""))
    names = [*shapes, "weight"]
    counts = functools.reduce(operator.add, (look.counts for look in looks if look.rows)).checked()
    table = Table(source, _Prepared(split, list(shapes), counts, constant, labels), sizes, split.columns)
    return {name: SourceRows(table, k, (sum(sizes), *shapes.get(name, ()))) for k, name in enumerate(names)}


class _Look:
    """Reads sizes, shapes, weights and the first invalid row of a block."""

    def __init__(self, split: Split, check: Check, constant: float) -> None:
        self.split, self.check, self.constant = split, check, constant

    def __call__(self, *block: Any) -> _BlockSummary:
        arrays = self.split(*block)
        rows = len(arrays[self.split.main])
        counts = RowCounts.of(_weight(arrays.pop("weight", None), rows, self.constant))
        shapes = {name: array.shape[1:] for name, array in arrays.items()}
        return _BlockSummary(rows, shapes, self.check(arrays) if rows else None, counts)


class _BlockSummary(NamedTuple):
    rows: int
    shapes: dict[str, tuple[int, ...]]
    bad: BadRow | None
    counts: RowCounts


class _Prepared:
    """Converts a block to columns: rows of numbers, labels, and last the weights."""

    def __init__(self, split: Split, names: list[str], counts: RowCounts, constant: float, labels: bool) -> None:
        self.split, self.names, self.counts, self.constant, self.labels = split, names, counts, constant, labels

    def __call__(self, *block: Any) -> tuple[Rows | Tensor, ...]:
        arrays = self.split(*block)
        weight = _weight(arrays.get("weight"), len(arrays[self.split.main]), self.constant)
        weighted = slice(None) if weight.all() else np.flatnonzero(weight)
        columns = (self._column(name, arrays[name][weighted]) for name in self.names)
        return *columns, torch.from_numpy(self.counts(weight[weighted]))

    def _column(self, name: str, array: NDArray[Any]) -> Rows | Tensor:
        if array.ndim > 1:
            return Rows(numbers(array))
        return torch.from_numpy(array.astype(np.int64 if self.labels and name == "y" else np.float64))


def numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Return floats unchanged, and other numbers in double precision."""
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _weight(weight: NDArray[Any] | None, rows: int, constant: float) -> NDArray[np.float64]:
    values = np.full(rows, constant) if weight is None else weight.astype(np.float64)
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError("sample_weight must be finite and ≥ 0 in every row")
    return values


def _checked(looks: list[_BlockSummary]) -> list[_BlockSummary]:
    start, first_shapes = 0, None
    for look in looks:
        if look.bad is not None:
            raise ValueError(look.bad.message.format(row=f"row {start + look.bad.row} (counted from 0)"))
        start += look.rows
        if look.rows:
            first_shapes = first_shapes or look.shapes
            if look.shapes != first_shapes:
                raise ValueError(f"blocks have rows of different shapes, {first_shapes} and {look.shapes}")
    return looks
