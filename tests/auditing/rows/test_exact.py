"""Columns that follow exactly from one another: clean rows are right wherever they lie, and slips are still found."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from likely.auditing import audit
from likely.auditing.identities.functions import Curve, ExactRelations, Numbers
from likely.auditing.results.audit import LongAudit


def between(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Whether each value lies between those just before and after it in the order of another column."""
    curve = Curve.of(values, by)
    assert curve is not None
    return curve.holds(values, by)


def exact_values(columns: Numbers, rows: int) -> np.ndarray:
    return ExactRelations.of(columns)(columns, rows)


def wages(rows: int = 600) -> pd.DataFrame:
    """Wages with a long tail of few rows, beside their logarithms."""
    rng = np.random.default_rng(0)
    age = rng.uniform(18, 65, rows).round()
    log_wage = (4.5 + 0.004 * age + 0.35 * rng.standard_t(4, rows)).round(3)
    return pd.DataFrame({"age": age, "log wage": log_wage, "wage": np.exp(log_wage)})


@pytest.mark.parametrize("target", ["wage", "log wage", None])
def test_nothing_is_wrong_where_a_column_is_a_function_of_another(target: str | None) -> None:
    report = audit(wages(), target=target)
    assert not [suspect for suspect in report.suspects if suspect.wrong]
    assert not [suspect for suspect in report.suspects if "match" in suspect.headline]


@pytest.mark.parametrize("target", ["wage", None])
def test_a_slip_in_such_a_column_is_found_at_its_ends_too(target: str | None) -> None:
    table = wages()
    rows = table["wage"].argsort().iloc[[0, 300, 599]].tolist()
    table.loc[rows, "wage"] *= 10
    assert set(rows) <= {suspect.row for suspect in audit(table, target=target).suspects}


@pytest.mark.parametrize("target", ["wage", None])
def test_blocks_hold_values_against_the_relations_of_the_sample(
    target: str | None, in_blocks: Callable[[pd.DataFrame], str]
) -> None:
    table = wages(3000)
    report = audit(in_blocks(table), target=target)
    assert isinstance(report, LongAudit)
    assert report.read == 500
    assert not [suspect.headline for suspect in report.suspects if suspect.wrong or "match" in suspect.headline]
    assert not [suspect for suspect in audit(table, target=target).suspects if suspect.wrong]


# Ten times the least wage is still less than most: forecasts by a sample of 500 rows do not find that.
@pytest.mark.parametrize(("target", "places"), [("wage", [1000, 2999]), (None, [0, 1000, 2999])])
def test_slips_are_found_in_blocks_too(
    target: str | None, places: list[int], in_blocks: Callable[[pd.DataFrame], str]
) -> None:
    table = wages(3000)
    slipped = table["wage"].argsort().iloc[places].tolist()
    table.loc[slipped, "wage"] *= 10
    suspects = {suspect.row for suspect in audit(in_blocks(table), target=target).suspects}
    assert set(slipped) <= suspects


def test_a_curve_judges_rows_it_was_not_read_from() -> None:
    x = np.random.default_rng(0).lognormal(sigma=2.0, size=40_000)
    curve = Curve.of(np.log(x[::2]), x[::2])
    assert curve is not None
    new = x[1::2]
    assert curve.holds(np.log(new), new).all()
    assert len(curve.at) == 10_000
    assert curve.holds(np.log(new) + 0.5, new).mean() < 0.001
    beyond = np.array([2 * x.max(), np.nan])
    assert curve.holds(np.log(beyond), beyond).tolist() == [True, False]
    assert not curve.holds(10 * np.log(beyond), beyond).any()


def test_relations_are_kept_with_a_few_columns_each() -> None:
    x = np.random.default_rng(0).normal(size=300)
    relations = ExactRelations.of([x + shift for shift in range(6)])
    assert len(relations.curves) == 6 * 3
    assert not ExactRelations.of([x, None]).curves
    assert not ExactRelations(())([x, x], 300).any()


def test_noise_is_no_exact_relation() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    assert not exact_values([x, x + 0.01 * rng.normal(size=2000)], 2000).any()
    assert not exact_values([x, None, np.full(2000, np.nan)], 2000).any()
    assert exact_values([None, None], 3).shape == (3, 2)


def test_rows_with_a_missing_value_are_not_exact() -> None:
    x = np.arange(100.0)
    y = np.where(x == 50, np.nan, x**2)
    assert between(y, x).sum() == between(x, y).sum() == 99


def test_values_that_share_a_value_of_the_other_column_agree_with_their_median() -> None:
    x = np.repeat(np.arange(50.0), 4)
    y = x**2
    y[101] = 9999.0
    assert np.flatnonzero(~between(y, x)).tolist() == [101]


def test_numbers_of_any_size_are_compared() -> None:
    x = np.linspace(1.0, 700.0, 100)
    y = np.exp(x)
    assert exact_values([x, y], len(x))[1:-1].all()
    y[50], x[20] = np.inf, -np.inf
    exact = exact_values([x, y], len(x))
    assert exact[1:-1, 1].sum() == 96
    assert not exact[[20, 50]].any()
