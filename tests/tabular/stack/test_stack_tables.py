"""Stacks of members: tables as people have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from quick_stacks import classifier, mixed_table, regressor, usable

pytestmark = pytest.mark.usefixtures("quick_stacks")


def as_arrow(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


@pytest.mark.parametrize(
    "convert", [lambda frame: frame, pl.from_pandas, lambda frame: pl.from_pandas(frame).lazy(), as_arrow],
    ids=["pandas", "polars", "lazy", "arrow"],
)  # fmt: skip
def test_tables_with_columns_of_every_kind(convert: Any) -> None:
    frame, y = mixed_table()
    table = convert(frame)
    model = regressor().fit(table, y)
    usable(model, table)
    assert model.importances(n_repeats=1).columns == tuple(frame.columns)
    labels = np.where(y > 0, "yes", "no")
    usable(classifier().fit(table, labels), table)


def test_pandas_polars_and_arrow_give_the_same() -> None:
    frame, y = mixed_table()
    frame = frame[["number", "gaps", "name", "many", "flag", "day"]]
    answer = regressor().fit(frame, y).predict(frame)
    for convert in (pl.from_pandas, as_arrow):
        table = convert(frame)
        np.testing.assert_allclose(regressor().fit(table, y).predict(table), answer, rtol=1e-6)


def test_the_kinds_of_polars() -> None:
    frame, y = mixed_table()
    names = pl.from_pandas(frame["name"])
    table = pl.DataFrame({"number": frame["number"].to_numpy()}).with_columns(
        names.cast(pl.Categorical).alias("category"),
        names.cast(pl.Enum(["a", "b", "c"])).alias("enum"),
        pl.col("number").cast(pl.Decimal(10, 3)).alias("decimal"),
        pl.lit(None).alias("nothing"),
        pl.date(2020, 1, 1).alias("date"),
        pl.duration(days=3).alias("duration"),
    )
    usable(regressor().fit(table, y), table)


def test_every_level_of_a_key_counts_however_many_there_are() -> None:
    rng = np.random.default_rng(0)
    level, noise = rng.normal(size=300), 0.3 * rng.normal(size=3000)
    key = np.arange(3000) % 300
    frame, y = pd.DataFrame({"key": [f"k{code}" for code in key], "x": rng.normal(size=3000)}), level[key] + noise
    for member in ("boosting", "linear"):
        model = regressor(member, cv=5).fit(frame[:1500], y[:1500])
        assert np.std(model.predict(frame[1500:]) - y[1500:]) < 0.55, member


def test_levels_that_mean_nothing_are_shrunk_to_the_mean_of_all() -> None:
    rng = np.random.default_rng(0)
    frame, y = pd.DataFrame({"key": [f"k{code}" for code in np.arange(3000) % 300]}), rng.normal(size=3000)
    assert np.std(regressor("linear", cv=5).fit(frame, y).predict(frame)) < 0.15


def test_days_are_learned_from_in_whatever_they_are_kept() -> None:
    rng = np.random.default_rng(0)
    times = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=200), "x": rng.normal(size=200)})
    days = times.assign(day=times["day"].dt.date)
    y = np.arange(200) + rng.normal(size=200)
    by_times, by_days = (regressor(["linear"]).fit(table, y) for table in (times, days))
    np.testing.assert_array_equal(by_days.predict(days), by_times.predict(times))
    np.testing.assert_array_equal(by_times.predict(days), by_times.predict(times))


def test_levels_that_were_never_met_are_taken() -> None:
    frame, y = mixed_table()
    model, labels = regressor().fit(frame, y), classifier().fit(frame, y > 0)
    fresh = frame[:10].copy()
    fresh["name"], fresh["id"], fresh["many"] = "new", "another", None
    fresh["category"] = pd.Categorical(["z"] * 10)
    fresh["ordered"] = pd.Categorical(["low", "other"] * 5, ["low", "other"], ordered=True)
    usable(model, fresh)
    usable(labels, fresh)


def test_gaps_where_the_fit_had_none_and_infinities() -> None:
    frame, y = mixed_table()
    frame = frame[["number", "copy"]]
    model = regressor().fit(frame, y)
    fresh = frame[:4].copy()
    fresh.iloc[:3, 0] = [np.nan, np.inf, -np.inf]
    usable(model, fresh)
    with pytest.raises(ValueError, match="infinity"):  # of an array, as everywhere in scikit-learn
        regressor().fit(np.array([[np.inf], [1.0], [2.0]]), [1.0, 2.0, 3.0])


@pytest.mark.parametrize("column", ["name", "many", "id", "missing", "constant", "one name", "flag", "day"])
def test_one_column_of_any_kind(column: str) -> None:
    frame, y = mixed_table(60)
    usable(regressor().fit(frame[[column]], y), frame[[column]])
    usable(classifier().fit(frame[[column]], y > 0), frame[[column]])


def test_names_of_rows_tell_nothing() -> None:
    frame, y = mixed_table()
    model = regressor().fit(frame[["id"]], y)
    assert np.std(model.out_of_fold_) < 0.2 * np.std(y)
    unknown = pd.DataFrame({"id": ["who", "else"]})
    assert np.ptp(model.predict(unknown)) == 0


def test_levels_and_gaps_are_learned_from() -> None:
    rng = np.random.default_rng(1)
    levels = rng.integers(0, 20, 300)
    effects = rng.normal(size=20)
    gap = rng.random(300) < 0.3
    frame = pd.DataFrame({"level": [f"n{i}" for i in levels], "x": np.where(gap, np.nan, 0.0)})
    y = effects[levels] + 2 * gap + 0.1 * rng.normal(size=300)
    error = np.mean((regressor("linear", cv=5).fit(frame, y).out_of_fold_ - y) ** 2)
    assert error < 0.3 * y.var()


def test_sparse_tables() -> None:
    X = sparse.random(100, 12, 0.2, format="csr", random_state=0)
    y = np.asarray(X.sum(1)).ravel()
    model = regressor().fit(X, y)
    np.testing.assert_array_equal(model.predict(X), model.predict(X.toarray()))
    np.testing.assert_array_equal(model.predict(X), regressor().fit(X.toarray(), y).predict(X))
    with pytest.raises(ValueError, match="sparse with 1000000 columns, too many: reduce them"):
        regressor().fit(sparse.csr_matrix((1000, 1_000_000)), np.arange(1000.0))


def test_extreme_numbers() -> None:
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(80, 4))
    X = np.column_stack([normal * [1e300, 1e-300, 1, 1e-310], np.full(80, 1e308)])
    for table in (X, pd.DataFrame(X)):
        model = regressor().fit(table, normal[:, 2])
        usable(model, table)
        usable(model, -table)
        usable(classifier().fit(table, normal[:, 2] > 0), -table)


def test_a_table_that_does_not_fit_is_refused_by_its_columns() -> None:
    frame, y = mixed_table(60)
    with pytest.raises(ValueError, match="'l' holds lists"):
        regressor().fit(pd.DataFrame({"l": [[1, 2]] * 60}), y)
    model = regressor("linear").fit(frame[["number", "gaps"]], y)
    for fresh, message in (
        (frame[["gaps", "number"]], "same order"),
        (frame[["number"]], "now missing"),
        (frame[["number", "gaps"]].assign(number="a"), "'number' held numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(fresh)


@pytest.mark.parametrize(
    ("column", "now", "message"),
    [
        ("zone", [1, 2, 3, 1], "column 'zone' held '1' in the fit, now 1: keep its type"),
        ("open", ["True", "False", "True", "True"], "column 'open' held .* in the fit, now 'True'"),
        ("day", [1, 2, 3, 4], "column 'day' held dates in the fit and holds whole numbers now"),
        ("day", ["Mo", "Tu", "We", "Th"], "column 'day' held dates in the fit and does not hold dates now"),
    ],
)
def test_categories_read_as_another_type_are_refused(column: str, now: list[Any], message: str) -> None:
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(80), "D")
    frame = pd.DataFrame({"zone": ["1", "2", "3", "4"] * 20, "open": [True, False] * 40, "day": days})
    model = regressor("linear").fit(frame, np.arange(80.0) % 4)
    fresh = frame[:4].assign(**{column: now})
    with pytest.raises(ValueError, match=message):
        model.predict(fresh)
    usable(model, frame.assign(zone="a new one"))
