"""Columns of frames as numbers, from whatever a frame keeps them in."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from likely._rows.columns import are_dates, as_codes, as_numbers, level_codes
from pairwise import together

NOON = [datetime.datetime(1970, 1, 2, 12), None, datetime.datetime(9999, 12, 31)]
DAYS = [1.5, np.nan, 2932896.0]


@together(
    "column",
    [
        pd.Series(NOON, dtype="datetime64[us]"),
        pd.Series(NOON, dtype="datetime64[us]").dt.tz_localize("UTC"),
        pd.Series(NOON, dtype="datetime64[us]").dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
        pd.Series(NOON, dtype="timestamp[us][pyarrow]"),
        pd.Series(NOON, dtype="timestamp[us, tz=UTC][pyarrow]"),
        pl.Series(NOON),
        pl.Series(NOON).dt.replace_time_zone("UTC"),
        pd.Series(NOON, dtype=object),
        pd.Series([time and time.replace(tzinfo=datetime.UTC) for time in NOON], dtype=object),
    ],
    ids=[
        "pandas",
        "pandas in UTC",
        "pandas in Tokyo",
        "arrow",
        "arrow in UTC",
        "polars",
        "polars in UTC",
        "objects",
        "objects in UTC",
    ],
)
def test_times_are_days_in_any_zone_and_any_year(column: Any) -> None:
    assert level_codes(column) is None
    np.testing.assert_array_equal(as_numbers(column), DAYS)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([datetime.date(1970, 1, 3), None, datetime.date(1969, 12, 31)], dtype=kind)
        for kind in (object, "date32[pyarrow]")
    ],
    ids=["objects", "arrow"],
)
def test_days_without_a_time_are_days(column: Any) -> None:
    assert are_dates(column)
    assert level_codes(column) is None
    np.testing.assert_array_equal(as_numbers(column), [2.0, np.nan, -1.0])


@pytest.mark.parametrize("cells", [["2020-01-01", None], [None, None], [datetime.date(2020, 1, 1), "later"]])
def test_texts_and_nothing_are_no_dates(cells: list[Any]) -> None:
    assert not are_dates(pd.Series(cells, dtype=object))


def test_lengths_of_time_are_days() -> None:
    lengths = [datetime.timedelta(hours=36), None]
    for column in (pd.Series(lengths), pl.Series(lengths)):
        np.testing.assert_array_equal(as_numbers(column), [1.5, np.nan])


@pytest.mark.parametrize(
    "make", [lambda v: pd.Series(v, dtype="category"), lambda v: pd.Series(v, dtype=object), pl.Series]
)
def test_levels_have_codes_and_new_ones_the_next(make: Any) -> None:
    codes = level_codes(make(["b", "a", None, "b"]))
    assert codes == {"a": 0, "b": 1}
    np.testing.assert_array_equal(as_codes(make(["c", "a", None]), codes), [2, 0, np.nan])


def test_booleans_are_levels_and_decimals_are_numbers() -> None:
    assert level_codes(pd.Series([True, False])) == {False: 0, True: 1}
    decimal = pytest.importorskip("decimal").Decimal
    np.testing.assert_array_equal(as_numbers(pd.Series([decimal("1.5"), None], dtype=object)), [1.5, np.nan])


def test_words_in_a_column_of_numbers_are_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="column 'height' held numbers in the fit and does not"):
        as_numbers(pd.Series(["tall"], name="height"))
