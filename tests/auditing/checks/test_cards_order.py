"""The order of rows, and groups on which predictions fail."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import cross_val_predict

from likely.auditing.checks.groups import failing_groups
from likely.auditing.checks.order import depends, order
from likely.auditing.columns.kinds import read_columns

Draw = Callable[[np.random.Generator], np.ndarray]


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(size=30),
        lambda rng: rng.standard_cauchy(300),
        lambda rng: rng.poisson(0.3, 300),
        lambda rng: rng.uniform(size=600) < 0.15,
        lambda rng: rng.integers(0, 3, 200),
        lambda rng: np.minimum(rng.zipf(1.5, 500), 300),
    ],
    ids=["few", "heavy tails", "counts", "rare", "levels", "many levels"],
)
def test_p_values_of_shuffled_rows_are_uniform(draw: Draw) -> None:
    rng = np.random.default_rng(7)
    found = [depends(draw(rng).astype(float)) for _ in range(400)]
    p = np.array([own.p_value for own in found if own is not None])
    assert len(p) == 400
    assert kstest(p, "uniform").pvalue > 1e-3
    assert np.mean(p < 0.01) < 0.03


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: 0.3 * np.linspace(-1.7, 1.7, 600) + rng.normal(size=600),
        lambda rng: np.repeat(rng.normal(size=60), 10) + rng.normal(size=600),
        lambda rng: np.tile([-0.8, 0.8], 300) + rng.normal(size=600),
        lambda rng: np.convolve(rng.normal(size=604), np.ones(5) / 5, "valid"),
    ],
    ids=["trend", "blocks", "alternating", "smooth"],
)
def test_order_that_means_something_is_found_in_the_column_that_has_it(draw: Draw) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(600, 20)), columns=[f"x{j}" for j in range(20)])
    assert order(read_columns(table), None).numbers["columns"] == []  # type: ignore[union-attr]
    table["x7"] = draw(rng)
    assert order(read_columns(table), None).numbers["columns"] == ["x7"]  # type: ignore[union-attr]


def test_real_sets_that_are_sorted_by_class_and_one_that_is_shuffled() -> None:
    for load in (load_iris, load_wine):
        found = order(read_columns(load(as_frame=True).frame), "target")
        assert found is not None
        assert found.summary.startswith("Rows are sorted by target")
    found = order(read_columns(load_diabetes(as_frame=True).frame), "target")
    assert found is not None
    assert found.numbers["columns"] == []


def losses(n: int = 3000, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 6)), columns=list("abcdef"))
    table["town"] = rng.choice(list("ABCD"), n)
    return table, rng.exponential(size=n)


def test_groups_on_which_the_model_fails_are_named_and_none_where_there_is_none() -> None:
    for seed in range(10):
        table, loss = losses(seed=seed)
        assert failing_groups(read_columns(table), set(), np.arange(3000), loss, "the error").numbers == {"groups": []}  # type: ignore[union-attr]
    loss[(table["town"] == "B") & (table["c"] > 0)] *= 2.5
    found = failing_groups(read_columns(table), set(), np.arange(3000), loss, "the error")
    assert found is not None
    where = found.numbers["groups"][0]["where"]
    assert "town = B" in where
    assert "c > " in where
    assert found.numbers["groups"][0]["loss"] > 1.8
    assert "Where " + where in found.summary


def test_a_model_that_has_not_seen_a_kind_of_rows_fails_there() -> None:
    table = load_diabetes(as_frame=True).frame
    table["clinic"] = np.where(np.random.default_rng(0).uniform(size=442) < 0.25, "new", "old")
    y = table.pop("target") + 300 * (table["clinic"] == "new") * np.sign(table["s5"])
    mean = cross_val_predict(RandomForestRegressor(30, random_state=0), table.drop(columns=["clinic", "s5"]), y, cv=3)
    found = failing_groups(
        read_columns(table), set(), np.arange(442), np.abs(y - mean).to_numpy(), "the error of target"
    )
    assert found is not None
    assert "clinic = new" in found.numbers["groups"][0]["where"]
