"""Slips of units, signs and columns: found by what mends them, and each row told once."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import likely
from likely.auditing.columns.kinds import read_columns
from likely.auditing.odd_rows.odd_rows import odd_rows
from likely.auditing.odd_rows.slips import by_chance
from likely.auditing.results.finding import Finding


def incomes(rng: np.random.Generator, rows: int = 1000) -> pd.DataFrame:
    """Heavy tails: a factor of ten is not rare by itself."""
    skill = rng.normal(size=rows)
    income, taxes = (np.exp(level + skill + 0.15 * rng.standard_t(4, rows)) for level in (12, 5))
    children = rng.poisson(20 + 10 * (skill > 0), rows).astype(float)
    return pd.DataFrame({"skill": skill, "income": income, "taxes": taxes, "children": children})


def told(frame: pd.DataFrame) -> dict[int, str]:
    finding = odd_rows(read_columns(frame), set())
    assert isinstance(finding, Finding)
    return {suspect.row: suspect.headline for suspect in finding.suspects}


def test_rows_that_a_slip_mends_are_found_though_others_are_as_rare() -> None:
    hints = {**dict.fromkeys(range(6), "÷10"), **dict.fromkeys(range(6, 18), "×10")}
    right = []
    for seed in (1, 2, 3):
        frame = incomes(np.random.default_rng(seed))
        assert sum("would fit" in own or "swapped" in own for own in told(frame).values()) <= 3
        slipped = frame.copy()
        slipped.loc[:5, "taxes"] *= 10
        slipped.loc[6:11, "taxes"] /= 10
        slipped.loc[12:17, "children"] /= 10
        headlines = told(slipped)
        right += [headlines.get(row, "").endswith(f"; {hint} would fit") for row, hint in hints.items()]
    assert np.mean(right) >= 0.75  # without looking for what mends rows it was 0.28


def test_a_mended_value_is_one_that_its_column_may_hold() -> None:
    rng = np.random.default_rng(0)
    x = rng.gamma(2.0, size=800)
    frame = pd.DataFrame({"x": x, "count": rng.poisson(3 * x), "share": np.clip(x / 10 + 0.05, 0, 1)}).astype(float)
    frame["flag"] = (x > 2).astype(float)
    frame.loc[:4, "count"] = [37.0, 41.0, 29.0, 53.0, 33.0]
    headlines = told(frame)
    assert {0, 1, 2, 3, 4} <= headlines.keys()
    assert not any("would fit" in headlines[row] for row in range(5))
    assert not any("sign would fit" in headline or headline.startswith("flag") for headline in headlines.values())


@pytest.mark.parametrize("rows", [200, 5000])
def test_gains_in_line_with_those_of_other_rows_are_chance(rows: int) -> None:
    rng = np.random.default_rng(rows)
    gains = 3 * rng.exponential(size=rows)
    assert (by_chance(gains) <= 0.2).sum() <= 0.002 * rows
    gains[:10] = 60.0
    copies = np.repeat([True, False], [rows, 10])
    again = by_chance(np.append(gains, gains[:10]), copies)
    assert again[:10].max() < 0.1
    np.testing.assert_array_equal(again[:10], again[-10:])


def diamonds(rng: np.random.Generator) -> pd.DataFrame:
    x = rng.uniform(4, 8, 800)
    y = x * np.exp(0.01 * rng.normal(size=800))
    price = 20 * x**3 * np.exp(0.05 * rng.normal(size=800))
    frame = pd.DataFrame(
        {"x": x, "y": y, "carat": 0.006 * x**2 * y * np.exp(0.02 * rng.normal(size=800)), "price": price}
    )
    frame.loc[:3, "x"] *= 10
    frame.loc[4:7, "price"] *= 10
    return frame


def test_a_row_is_told_once_and_known_by_that() -> None:
    frame = diamonds(np.random.default_rng(0))
    report = likely.audit(frame, target="price")
    kinds = report.frame().groupby("row")["kind"].agg(set)
    assert all(not {"rows", "targets"} <= own for own in kinds)
    assert all("rows" in kinds[row] for row in range(4))
    assert all("targets" in kinds[row] for row in range(4, 8))
    size = next(suspect for suspect in report.suspects if suspect.row == 0)
    assert size.headline.startswith("x = ")
    assert report.scores["target_wrong"].notna().all()
    summary = json.loads(json.dumps(report.summary()))
    assert not likely.audit(frame, target="price", previous=summary).entries


def test_two_wrong_values_that_predict_each_other_are_told_as_swapped() -> None:
    """Or "÷10 would fit" the weight, which leaves a gain of 6.7 among whole numbers."""
    rng = np.random.default_rng(0)
    weeks = rng.normal(39, 2, 1000)
    weight = (0.2 * weeks - 1 + 0.5 * rng.normal(size=1000)).round(2)
    frame = pd.DataFrame({"weeks": weeks, "weight": weight, "gained": rng.gamma(3, 10, 1000).round()})
    rows = np.flatnonzero(frame["gained"].between(58, 72))[:6]
    frame.loc[rows, ["weight", "gained"]] = frame.loc[rows, ["gained", "weight"]].to_numpy()
    headlines = told(frame)
    assert all("swapped" in headlines[row] for row in rows)
