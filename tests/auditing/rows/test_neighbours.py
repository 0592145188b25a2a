"""What rows like a row have: neighbours by the other columns."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd

from likely.auditing.columns.kinds import read_columns
from likely.auditing.expected_values.similar_rows import Level, Neighbours, Usual


def table(rows: int = 600, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kind = rng.choice(["cat", "horse"], rows)
    weight = np.where(kind == "cat", 4.0, 500.0) * np.exp(0.1 * rng.normal(size=rows))
    return pd.DataFrame(
        {"kind": kind, "weight": weight, "height": 30 * np.cbrt(weight), "noise": rng.normal(size=rows)}
    )


def test_a_wrong_value_does_not_choose_its_own_neighbours() -> None:
    frame = table()
    frame.loc[0] = ["cat", 480.0, 47.0, 0.0]
    frame.loc[1] = ["horse", 4.0, 47.0, 0.0]
    neighbours = Neighbours.of(read_columns(frame))
    usual = neighbours.usual(0, "weight")
    assert isinstance(usual, Usual)
    assert 3 < usual.low < usual.high < 6
    kind = neighbours.usual(1, "kind")
    assert isinstance(kind, Level)
    assert kind == ("cat", 1.0)


def test_columns_that_say_nothing_do_not_choose() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 2000)
    frame = pd.DataFrame({"x": x, "y": x**2} | {f"n{j}": rng.normal(size=2000) for j in range(20)})
    usual = Neighbours.of(read_columns(frame)).usual(0, "y")
    assert isinstance(usual, Usual)
    assert usual.low <= x[0] ** 2 * 1.2 + 1
    assert usual.high >= x[0] ** 2 * 0.8 - 1
    assert usual.high - usual.low < 20  # of 100


def test_missing_values_and_dates_are_told() -> None:
    frame = table()
    frame["born"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(600) % 10, unit="D")
    frame.loc[3, ["weight", "kind"]] = None
    cells = {cell.column: cell for cell in Neighbours.of(read_columns(frame), {"noise"}).compare([3])[0]}
    assert set(cells) == {"kind", "weight", "height", "born"}
    assert (cells["weight"].value, cells["weight"].unusual) == ("missing", False)
    assert cells["kind"].value == "missing"
    assert cells["kind"].usual.endswith("(100%)")
    assert cells["born"].value.startswith("2020-01-0")
    assert cells["born"].usual.startswith("2020-01-0")


def test_few_rows_and_few_columns_are_no_trouble() -> None:
    assert Neighbours.of(read_columns(pd.DataFrame({"x": [1.0, 2.0]}))).usual(0, "x")[:3] == (2.0, 2.0, False)
    assert Neighbours.of(read_columns(pd.DataFrame({"x": [1.0, 2.0]}))).compare([0], ["y"]) == [[]]
    one = Neighbours.of(read_columns(pd.DataFrame({"x": [1.0, 2.0], "y": [None, 3.0]})))
    assert one.usual(1, "x")[:3] == (1.0, 1.0, False)


def test_long_tables_take_milliseconds_per_row() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(100_000, 8)) @ rng.normal(size=(8, 30))).rename(columns=str)
    columns = read_columns(frame)
    start = time.process_time()
    found = Neighbours.of(columns).compare(range(50))
    assert len(found) == 50
    assert len(found[0]) == 30
    assert time.process_time() - start < 5  # 0.4 s on one slow core
