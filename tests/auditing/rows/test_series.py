"""Long tables, such as one row per country and year: a row is held against those just before and after it."""

import numpy as np
import pandas as pd
import pytest

import likely
from likely.auditing.results.finding import Suspect

YEARS = np.arange(1960, 2020, 5)


def countries(count: int = 60, seed: int = 0) -> pd.DataFrame:
    """People, their income and how long they live: each country has a size, a growth and a course of its own."""
    rng = np.random.default_rng(seed)
    growth = rng.normal(0.09, 0.05, (count, 1)) + 0.02 * rng.normal(size=(count, len(YEARS)))
    people = np.exp(rng.normal(16, 1.5, (count, 1)) + growth.cumsum(1))
    income = np.exp(rng.normal(8, 1, (count, 1)) + rng.normal(0.1, 0.08, (count, len(YEARS))).cumsum(1))
    years = rng.normal(45, 8, (count, 1)) + rng.normal(1.5, 0.8, (count, len(YEARS))).cumsum(1)
    return pd.DataFrame(
        {
            "country": np.repeat([f"Country {k}" for k in range(count)], len(YEARS)),
            "year": np.tile(YEARS, count),
            "people": people.ravel().round(),
            "income": income.ravel().round(),
            "life": years.ravel().round(1),
        }
    )


def listed(table: pd.DataFrame) -> dict[int, Suspect]:
    return {suspect.row: suspect for suspect in likely.audit(table).suspects if suspect.kind == "rows"}


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_value_twice_that_of_the_years_beside_it_is_named(shuffled: bool) -> None:
    table = countries()
    planted = {77: "people", 300: "people", 501: "income", 640: "life"}
    for row, column in planted.items():
        table.loc[row, column] *= 2 if column != "life" else 0.6
    if shuffled:
        table = table.sample(frac=1, random_state=0)
    found = {table.index[row]: suspect for row, suspect in listed(table.reset_index(drop=True)).items()}
    for row, column in planted.items():
        assert found[row].headline.startswith(f"{column} = ")
        assert not {row - 1, row + 1} & set(found)  # a wrong value makes none look wrong beside it
    assert len(found) <= len(planted) + 3


def test_similar_rows_are_the_years_beside_it() -> None:
    table = countries()
    truth = table.loc[75:79, "people"].drop(77)
    table.loc[77, "people"] *= 3
    reason = listed(table)[77].reasons[0]
    assert reason.expected == f"similar rows have {truth.min():,.0f}–{truth.max():,.0f}"


def test_a_clean_long_table_is_calm() -> None:
    assert max(len(listed(countries(seed=seed))) for seed in range(3)) <= 3


def test_a_step_of_a_series_is_judged_by_both_sides() -> None:
    # A series that moves to another level and stays there has a neighbour on one side that agrees.
    table = countries()
    table.loc[103:107, "people"] *= 1.5
    assert not set(range(104, 107)) & set(listed(table))


def test_rows_without_a_time_or_a_name_are_in_no_series() -> None:
    table = countries()
    table.loc[[5, 123], "year"] = np.nan
    table.loc[[9, 200], "country"] = None
    assert not listed(table)


def test_a_table_without_times_has_no_series() -> None:
    rng = np.random.default_rng(0)
    crossed = pd.DataFrame({"shop": np.repeat(list("abcdefghij"), 30), "size": np.tile(np.arange(30.0), 10)})
    crossed["sold"] = rng.normal(100, 10, 300)  # each pair is there once, and neighbours tell nothing
    crossed.loc[7, "sold"] = 500.0
    found = listed(crossed)
    assert 7 in found
    assert len(found) <= 3
