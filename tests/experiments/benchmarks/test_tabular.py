"""The bars of `python -m experiments.benchmarks tabular` follow from the scores; what rivals are given is right."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import poisson
from torch.distributions import Normal, Poisson

from experiments.benchmarks import _tabular_measure, tabular
from experiments.benchmarks._tabular_columns import categories, one_hot, texts, with_medians
from experiments.benchmarks._tabular_measure import CORRUPTIONS, OURS, StoredScores, corrupted, key
from experiments.benchmarks._tabular_problems import Problem, split_of
from experiments.benchmarks._tabular_rivals import LIGHTGBM, REALMLP
from experiments.benchmarks._tabular_scores import scores
from experiments.data import Frame
from experiments.entries import Bar, Context

TRAIN = pd.DataFrame({"a": ["x", "y", None], "b": [1.0, np.nan, 3.0], "c": [True, False, True]})
TEST = pd.DataFrame({"a": ["x", "new", None], "b": [np.nan, 2.0, 4.0], "c": [False, False, True]})
ROW = {"CRPS": 0.1, "NLL": 0.0, "RMSE": 0.2, "coverage": 0.9, "seconds": 3.0}


def missed(bars: Iterable[Bar]) -> list[str]:
    return [bar.name for bar in bars if bar.met is False]


def table(
    group: str, rows: dict[str, dict[str, float]], name: str = "kin8nm*", chosen_on: bool = False
) -> pd.DataFrame:
    about = {"group": group, "set": name, "split": 0, "rows": 5000, "chosen on": chosen_on}
    return pd.DataFrame([{**about, "method": method, **row} for method, row in rows.items()])


@pytest.mark.parametrize(
    ("ours", "names"),
    [
        ({"NLL": -0.1}, []),
        (
            {"NLL": -0.1, "CRPS": 0.11},
            [
                "CRPS over the best rival's, geometric mean",
                "CRPS over the best rival's",
                "CRPS over RealMLP's where trees are behind",
            ],
        ),
        ({"NLL": 0.1}, ["NLL below every rival's, share of sets", "NLL less the best rival's"]),
        ({"NLL": -0.1, "RMSE": 0.21}, ["RMSE over the best rival's, geometric mean"]),
        ({"NLL": -0.1, "coverage": 0.86}, ["90% intervals, lowest coverage"]),
        ({"NLL": -0.1, "coverage": 0.94}, ["90% intervals, highest coverage"]),
        ({"NLL": -0.1, "seconds": 13.0}, ["time over LightGBM's, median"]),
        (
            {"NLL": -0.1, "seconds": 41.0},
            ["time over LightGBM's, median", "seconds where RealMLP takes minutes"],
        ),
    ],
)
def test_numbers(ours: dict[str, float], names: list[str]) -> None:
    rows = {OURS: {**ROW, **ours}, LIGHTGBM: {**ROW, "CRPS": 0.2}, REALMLP: {**ROW, "seconds": 200}}
    assert missed(tabular.judge(table("numbers", rows))) == names


@pytest.mark.parametrize(
    ("ours", "names"),
    [
        ({}, []),
        ({"log-loss": 0.3}, ["classes: log-loss less the best rival's, mean"]),
        ({"log-loss": 0.32}, ["classes: log-loss less the best rival's, mean", "classes: log-loss over LightGBM's"]),
        ({"ECE": 0.03}, ["classes: mean ECE"]),
    ],
)
def test_classes(ours: dict[str, float], names: list[str]) -> None:
    rows = {
        OURS: {"log-loss": 0.29, "ECE": 0.01, "seconds": 3.0, **ours},
        LIGHTGBM: {"log-loss": 0.3, "ECE": 0.02, "seconds": 3.0},
        REALMLP: {"log-loss": 0.29, "ECE": 0.04, "seconds": 3.0},
    }
    assert missed(tabular.judge(table("classes", rows))) == names


def test_frames_that_defaults_may_be_chosen_on_have_no_bar() -> None:
    rows = {OURS: {**ROW, "NLL": 1.0}, LIGHTGBM: ROW}
    names = ["frames: CRPS over LightGBM's, geometric mean", "frames: NLL below LightGBM's, share"]
    assert missed(tabular.judge(table("frames", rows))) == names
    assert missed(tabular.judge(table("frames", rows, chosen_on=True))) == []


def test_counts_are_tables_where_both_are_lower() -> None:
    rival = {"deviance": 1.0, "CRPS": 0.3, "seconds": 3.0}
    better, half = {**rival, "deviance": 0.9, "CRPS": 0.2}, {**rival, "deviance": 0.9}
    parts = [table("counts", {OURS: better, LIGHTGBM: rival}, name) for name in "abc"]
    parts.append(table("counts", {OURS: half, LIGHTGBM: rival}, "d"))
    bar, _ = tabular.judge(pd.concat(parts))
    assert (bar.value, bar.met, bar.case) == (3, True, "of 4")


def test_tables_of_every_group_are_made() -> None:
    parts = [table(group, {OURS: {**ROW, "log-loss": 0.1, "ECE": 0.1, "deviance": 1}}) for group in tabular.GROUPS]
    shown = list(tabular.tables(pd.concat(parts)))
    assert len(shown) == 4 + 2 + 4 + 2 + 2 + 1
    assert all(OURS in one.frame for one in shown)


def test_columns_know_no_level_and_no_median_of_the_test_rows() -> None:
    X, X_test = categories(TRAIN, TEST)
    assert X["x0"].cat.categories.tolist() == X_test["x0"].cat.categories.tolist() == ["x", "y"]
    assert X_test["x0"].isna().tolist() == [False, True, True]
    filled, filled_test = with_medians(X, X_test)
    assert filled["x1"].tolist() == [1.0, 2.0, 3.0]
    assert filled_test["x1"].tolist() == [2.0, 2.0, 4.0]
    assert texts(TRAIN, TEST)[1]["a"].tolist() == ["x", "new", "a gap"]
    for part in one_hot(TRAIN, TEST):
        assert part.shape == (3, 5)  # two numbers, two levels and the gap
        assert np.isfinite(part).all()


def problem(kind: Any = "regression", rows: int = 60) -> Problem:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=rows)})
    y = {"regression": 10 + 4 * X["x"], "counts": rng.poisson(3.0, rows), "classes": X["x"] > 0}[kind]
    return split_of(Frame("a", X, np.asarray(y, dtype=np.float64 if kind != "classes" else np.int64), kind), 0)


def test_scores_are_in_units_of_the_training_targets() -> None:
    one = problem()
    middle, width = one.units
    wide = replace(one, y=100 * one.y, y_test=100 * one.y_test)
    mean = np.zeros(len(one.y_test))
    first, second = scores(one, one.in_units_of_target(mean, 1.0)), scores(wide, wide.in_units_of_target(mean, 1.0))
    assert first == pytest.approx(second)
    z = torch.from_numpy((one.y_test - middle) / width)
    assert first["NLL"] == pytest.approx(float(-Normal(0, 1).log_prob(z).mean()))


def test_the_crps_of_counts_is_a_sum_over_whole_numbers() -> None:
    one = problem("counts")
    rate = np.linspace(0.5, 6, len(one.y_test))
    k = np.arange(60)
    by_hand = np.square(poisson.cdf(k, rate[:, None]) - (one.y_test[:, None] <= k)).sum(1).mean()
    found = scores(one, Poisson(torch.from_numpy(rate)))
    assert found["CRPS"] * one.units[1] == pytest.approx(by_hand)


def test_wrong_targets_are_one_in_twenty() -> None:
    one = problem(rows=1000)
    for kind in CORRUPTIONS:
        wrong = corrupted(one, kind)
        assert np.sum(wrong.y != one.y) == 40, kind
        np.testing.assert_array_equal(wrong.y_test, one.y_test)
    assert sorted(corrupted(one, "swapped").y) == sorted(one.y)


def test_scores_of_rivals_are_kept_for_the_same_rows_only(tmp_path: Path) -> None:
    one = problem()
    StoredScores(tmp_path).add({key("NGBoost", one, 0): {"CRPS": 0.1}})
    assert StoredScores(tmp_path).select(one, 0) == {"NGBoost": {"CRPS": 0.1}}
    assert StoredScores(tmp_path).select(one, 1) == {}
    assert StoredScores(tmp_path).select(replace(one, y=one.y + 1), 0) == {}
    assert len(json.loads((tmp_path / "tabular-rivals.json").read_text())) == 1


def test_what_is_known_is_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tabular_measure, "rivals", lambda *_: {"known": None, "not asked for": None})
    ours = {"CRPS": 0.2, "seconds": 3.0}
    monkeypatch.setattr(_tabular_measure, "score_ours", lambda *_: ours)
    found = _tabular_measure.measure(problem(), 0, ("known",), {"known": {"CRPS": 0.1}})
    assert found == {"known": {"CRPS": 0.1}, OURS: ours}


def test_small_sets_have_more_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"few": 60, "many": 3000}
    monkeypatch.setattr(tabular, "list_problems", lambda kind, **_: list(rows) if kind == "counts" else [])
    monkeypatch.setattr(tabular, "load_problem", lambda name, *_: problem("counts", rows[name]))
    jobs = list(tabular.find_jobs(Context()))
    assert [split for _, _, split, _ in jobs] == [0, 1, 2, 3, 4, 0, 1]
    assert {group for group, *_ in jobs} == {"counts"}


def test_without_a_data_folder_two_sets_are_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular, "list_problems", lambda *_, **__: [])
    assert [one.label.rstrip("*") for _, one, _, _ in tabular.find_jobs(Context())] == ["diabetes", "breast_cancer"]
