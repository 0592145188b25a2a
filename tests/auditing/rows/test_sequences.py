"""Columns in order: a regular step is never odd, a jump is; what follows the pattern is not odd for being far out."""

import numpy as np
import pandas as pd

import likely
from likely.auditing.identities.functions import counts_on


def days(n: int = 344) -> pd.DataFrame:
    """A table of days in order, whose values jump with the seasons: the dates cannot be told from them."""
    rng = np.random.default_rng(2)
    load = np.repeat(rng.normal(size=n // 8 + 1), 8)[:n]
    return pd.DataFrame(
        {
            "day": pd.date_range("2021-01-01", periods=n).strftime("%Y-%m-%d"),
            "load": load + 0.01 * rng.normal(size=n),
            "heat": load + 0.3 * np.sin(np.arange(n) / 20) + 0.05 * rng.normal(size=n),
        }
    )


def test_a_day_after_the_day_before_is_never_odd() -> None:
    table = days()
    for suspect in likely.audit(table).suspects:
        assert not suspect.headline.startswith("day")


def test_a_day_of_another_year_is_named() -> None:
    table = days()
    table.loc[200, "day"] = "2031-07-20"
    assert any(suspect.row == 200 for suspect in likely.audit(table).suspects)


def test_regular_steps_count_in_any_order_and_jumps_and_repeats_do_not() -> None:
    rng = np.random.default_rng(0)
    years = rng.permutation(np.append(np.arange(1950.0, 2000.0), [1960.5, 2500.0]))
    counted = counts_on(years)
    assert counted[(years < 2000) & (years != 1960.5)].all()
    assert not counted[years > 2000].any()
    assert not counts_on(rng.normal(size=500)).any()
    assert not counts_on(rng.integers(0, 100, 500).astype(float)).any()


def test_a_gap_in_a_column_that_counts_takes_nothing_from_the_other_steps() -> None:
    years = np.arange(1950.0, 2000.0)
    years[[7, 30]] = np.nan
    # Beside a gap the step is two years, and the year on either side of it still follows from its other neighbour.
    assert counts_on(years)[~np.isnan(years)].all()
    assert not counts_on(years)[[7, 30]].any()


def test_codes_are_not_amounts() -> None:
    rng = np.random.default_rng(0)
    assert counts_on(60_000.0 + rng.permutation(14_000)[:420]).all()  # none twice, though six pairs would be by chance
    assert not counts_on(rng.integers(60_000, 80_000, 2_000).astype(float)).any()


def test_a_code_from_another_block_is_not_a_wrong_amount() -> None:
    rng = np.random.default_rng(0)
    region = rng.integers(0, 12, 400)
    code = 60_000 + 1_000 * region + rng.permutation(1_000)[:400]
    code[7] = 60_000 + 1_000 * ((region[7] + 6) % 12) + 999
    table = pd.DataFrame({"code": code, "region": [f"r{own}" for own in region], "size": rng.normal(size=400)})
    assert not any(suspect.headline.startswith("code") for suspect in likely.audit(table).suspects)


def test_extremes_that_follow_the_pattern_are_not_odd() -> None:
    rng = np.random.default_rng(1)
    size = rng.normal(size=800)
    size[:12] = rng.uniform(12, 20, 12)
    table = pd.DataFrame({"a": size + 0.5 * rng.normal(size=800), "b": 2 * size + 0.5 * rng.normal(size=800)})
    report = likely.audit(table)
    assert len(report.entries) <= 2
    assert report.scores["row_scale"][:12].min() > 2
