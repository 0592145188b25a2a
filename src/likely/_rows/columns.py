"""Columns as numbers: categories as codes, times as days, gaps as NaN; and their centres and spreads."""

from collections.abc import Iterator
from datetime import UTC, date
from typing import Any

import numpy as np

from likely._typing import Array, Values


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns of their own types, as pandas' and Polars' are."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def each_column(X: Any) -> Iterator[Any]:
    """Yield the columns of a frame or an array."""
    return (X[name] for name in X.columns) if is_frame(X) else iter(X.T)


def level_codes(column: Any) -> dict[Any, int] | None:
    """Return a code per level, whatever the order of rows; None for a column of numbers."""
    are_levels = str(column.dtype).lower().startswith(("categor", "enum", "bool"))
    if not are_levels and _floats(column) is not None:
        return None
    try:
        levels = {value for value in set(np.asarray(column, dtype=object).tolist()) if not _missing(value)}
    except (TypeError, ValueError):
        raise ValueError(f"column {column.name!r} holds lists or similar: make columns of numbers or names") from None
    return {
        level: code for code, level in enumerate(sorted(levels, key=lambda value: (type(value).__name__, str(value))))
    }


def as_numbers(column: Any, held: str = "numbers") -> Array:
    """Return the numbers of a column, NaN where one is missing; times in days. An error says what it ``held``."""
    numbers = _floats(column)
    if numbers is None:
        raise ValueError(f"column {column.name!r} held {held} in the fit and does not hold {held} now")
    return numbers


def as_codes(column: Any, codes: dict[Any, int]) -> Array:
    """Return the code of each row's level, NaN where it is missing; the number of codes for an unknown level."""
    values, unknown = np.asarray(column, dtype=object).tolist(), len(codes)
    coded = np.array(
        [codes[value] if value in codes else np.nan if _missing(value) else unknown for value in values],
        dtype=np.float64,
    )
    # An unknown level is nothing new, but numbers for texts are, and then no level is known.
    texts = {isinstance(level, str) for level in codes}
    for row in np.flatnonzero(coded == unknown) if len(texts) == 1 else ():
        if isinstance(values[row], str) not in texts:
            raise ValueError(
                f"column {column.name!r} held {next(iter(codes))!r} in the fit, now {values[row]!r}: keep its type"
            )
    return coded


def are_dates(column: Any) -> bool:
    """Whether a column holds times, also as Python's own dates, which pandas has no type for."""
    dtype = str(column.dtype).lower()
    if dtype.startswith(("date", "timestamp")):
        return True
    return dtype == "object" and _from_dates(np.asarray(column)) is not None


def days(column: Any) -> Array | None:
    """Return times as days since 1970, or durations in days, NaN where one is missing; None for other columns."""
    if hasattr(column, "to_numpy") and str(column.dtype).startswith(("datetime", "timestamp")):
        # Without a type, pandas converts times with a zone, or of Arrow, to objects.
        values = column.to_numpy("datetime64[us]")
    else:
        values = np.asarray(column)
    if values.dtype.kind == "O":
        values = _from_dates(values)
    if values is None or values.dtype.kind not in "mM":
        return None
    # Microseconds reach far beyond the year 9999; nanoseconds, which pandas may have, only to 2262.
    ticks = values.astype(f"{values.dtype.kind}8[us]")
    return np.where(np.isnat(ticks), np.nan, ticks.astype(np.int64) / 86_400e6)


def _from_dates(values: Values) -> Values | None:
    """Return Python's dates and times as NumPy's, those with a zone in UTC; None where there is anything else."""
    cells = values.tolist()
    if not all(isinstance(value, date) or _missing(value) for value in cells) or all(map(_missing, cells)):
        return None
    zoned = (value.astimezone(UTC).replace(tzinfo=None) if getattr(value, "tzinfo", None) else value for value in cells)
    return np.array(["NaT" if _missing(value) else value for value in zoned], "datetime64[us]")


def _floats(column: Any) -> Array | None:
    """Return a column of numbers or times as floats, times in days; None for any other."""
    times = days(column)
    if times is not None:
        return times
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    cells = values.tolist() if values.dtype.kind == "O" else [""]
    if any(isinstance(value, str | bytes) for value in cells):
        return None
    try:
        return np.array([np.nan if _missing(value) else float(value) for value in cells])
    except (TypeError, ValueError):
        return None


def _missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or pandas' NA or NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def mean_and_deviation(table: Array, weight: Array) -> tuple[Array, Array]:
    """Return the weighted mean and deviation of every column; the deviation of a constant is ∞.

    Divided by ∞ a constant column is zero, so that it has no effect.
    """
    mean = np.average(table, axis=0, weights=weight)
    deviation = np.sqrt(np.average(np.square(table - mean), axis=0, weights=weight))
    return mean, np.where(deviation > 1e-12 * (1 + np.abs(mean)), deviation, np.inf)


def middle_and_spread(table: Array, weight: Array, about_zero: bool = False) -> tuple[Array, Array]:
    """Return the weighted median of every column and, in normal deviations, the median distance to it.

    Where more than half of a column is one value, that distance is zero and the deviation is used; for a constant, 1.
    """
    middle = np.zeros(table.shape[1]) if about_zero else median(table, weight)
    distance = np.abs(table - middle)
    spread = 1.4826 * median(distance, weight)
    rms = np.sqrt(np.average(np.square(distance), axis=0, weights=weight))
    rounding = 1e-12 * np.abs(middle)
    return middle, np.where(spread > rounding, spread, np.where(rms > rounding, rms, 1.0))


def median(table: Array, weight: Array) -> Array:
    """Return the lower weighted median of every column, or of a single one."""
    return np.asarray(np.quantile(table, 0.5, axis=0, weights=weight, method="inverted_cdf"))
