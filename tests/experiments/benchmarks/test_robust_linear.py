"""The benchmark of the robust models: its sets are what they say, and its bars are judged by the numbers."""

import numpy as np
import pandas as pd
import pytest

from experiments.benchmarks import _robust_linear as bench, _robust_wide as wide


@pytest.mark.parametrize("d", [1, 10])
@pytest.mark.parametrize("cell", bench.CELLS)
def test_cells_hold_the_outliers_they_say(cell: str, d: int) -> None:
    X, y, truth = bench.problem(cell, d, 0)
    far = np.abs(y - X @ truth[:-1] - truth[-1]) > 6 * bench.NOISE
    share = int(cell.split()[-1].rstrip("%")) / 100 if "%" in cell else 0.0
    assert far.mean() == pytest.approx(share, abs=0.07 if share else 0.12)


def test_the_reference_is_least_squares_on_clean_rows_and_robust_on_others() -> None:
    for cell in ("clean", "bad leverage 30%"):
        X, y, truth = bench.problem(cell, 2, 1)
        found = bench.Tukey(4.685, 0).fit(X, y)
        np.testing.assert_allclose(np.append(found.coef_, found.intercept_), truth, atol=0.05)


def test_bars_are_judged_by_the_numbers() -> None:
    fine = {bench.OURS: 0.01, "OLS": 0.01, "× best peer": 1.0, "best peer": "Tukey", "likely ms": 1.0, "RANSAC ms": 2.0}
    index = pd.MultiIndex.from_tuples([(1, "clean"), (10, "Y 40%")], names=["d", "cell"])
    regression = pd.DataFrame([fine, fine], index=index)
    others = pd.DataFrame(
        {"likely": [0.99, 2.0], "likely ms": [1.0, 1.0], "MinCovDet ms": [np.nan, 9.0]},
        index=["classification", "components"],
    )
    assert all(bar.met for bar in bench.judge(regression, others, judge_speed=True))
    regression.loc[(1, "clean"), [bench.OURS, "likely ms"]] = [0.02, 3.0]
    regression.loc[(10, "Y 40%"), "× best peer"] = 1.6
    others.loc["classification", "likely"], others.loc["components", "likely"] = 0.9, 4.0
    others.loc["components", "likely ms"] = 3.0
    assert [bar.met for bar in bench.judge(regression, others, judge_speed=True)] == [False] * 6
    assert [bar.met for bar in bench.judge(regression, others, judge_speed=False)].count(None) == 2


@pytest.mark.parametrize("kind", wide.KINDS)
def test_wide_tables_have_the_wrong_rows_they_say(kind: str) -> None:
    share = 0.0 if kind == "clean" else 0.4
    X, y, truth, bad = wide.problem(kind, share, 3)
    assert bad.sum() == share * wide.ROWS
    np.testing.assert_allclose(y[~bad], X[~bad] @ truth[:-1] + truth[-1], atol=5 * bench.NOISE)
    assert (np.abs(y - X @ truth[:-1] - truth[-1])[bad] > 5 * bench.NOISE).mean() > 0.9 if share else True


def test_wide_tables_are_judged_by_the_best_peer() -> None:
    index = pd.MultiIndex.from_tuples([("clean", 0.0), ("mixed units", 0.4)], names=["wrong", "share"])
    errors = pd.DataFrame({bench.OURS: [0.01, 0.02], "MM": [0.01, 0.01], "RLM": [0.5, 0.5]}, index)
    [bar] = wide.judge(errors)
    assert (bar.value, bar.met, bar.case) == (2.0, False, "mixed units, share 0.4; 1 of 2 cases miss")
