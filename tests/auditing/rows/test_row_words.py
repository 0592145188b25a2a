"""What is said of odd rows and cells: which of them are one entry, and that no sentence contradicts itself."""

import re

import numpy as np
import pandas as pd

import likely
from likely.auditing import Finding
from likely.auditing.columns.kinds import read_columns
from likely.auditing.expected_values.similar_rows import Level, Neighbours, Usual


def found(report: likely.auditing.Audit, name: str) -> Finding:
    return next(finding for finding in report.findings if finding.name == name)


def stones(n: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    weight = rng.choice(np.round(np.arange(0.3, 3.0, 0.01), 2), n)
    size = 6.5 * np.cbrt(weight)
    return pd.DataFrame({"carat": weight, "x": size + 0.02 * rng.normal(size=n), "y": size + 0.02 * rng.normal(size=n)})


def test_a_value_apart_from_the_others_is_one_entry_and_a_usual_one_is_not() -> None:
    table = stones()
    table.loc[[10, 20, 30, 40], "carat"] = 0.35  # each of them is wrong by itself
    table.loc[table["carat"].nlargest(3).index, "carat"] = 0.35
    table.loc[[50, 60, 70, 80, 90], "x"] = 0.0  # a gap that was written as a number
    entries = likely.audit(table).entries
    (zeros,) = [entry for entry in entries if len(entry.rows) > 1]
    assert zeros.headline == "5 rows: x = 0, unlike similar rows"
    alone = {int(entry.rows[0]) for entry in entries if len(entry.rows) == 1}
    assert {10, 20, 30, 40} & alone
    assert not any("carat = 0.35" in entry.group for entry in entries)


def test_the_ends_of_a_column_of_few_values_are_not_odd() -> None:
    rng = np.random.default_rng(0)
    for values in (np.arange(50) % 7, np.arange(60) ** 2 % 17, rng.integers(1, 6, 300)):
        assert not found(likely.audit({"a": values}), "rows").rows.size
    assert found(likely.audit({"a": np.append(rng.normal(size=300), 40.0)}), "rows").rows[0] == 300


def test_a_value_within_the_usual_range_is_not_said_to_be_outside() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, z = rng.normal(size=(2, 300))
        table = pd.DataFrame({"x": x, "z": z, "sum": x + z + 0.01 * rng.normal(size=300)})
        table.loc[:4, "sum"] /= 10
        for suspect in likely.audit(table).suspects:
            if "where similar rows have" in suspect.headline:
                value, low, high = (float(own) for own in _numbers(suspect.headline))
                assert not low <= value <= high


def test_a_value_is_held_against_one_that_is_there() -> None:
    rng = np.random.default_rng(3)
    a = rng.normal(size=400)
    table = pd.DataFrame({"a": a, "b": a + 0.02 * rng.normal(size=400), "c": a + 0.2 * rng.normal(size=400)})
    table.loc[:2, ["b", "c"]] = np.array([[np.nan, 2.5], [np.nan, -2.5], [2.0, np.nan]]) + a[:3, None]
    words = {suspect.row: suspect.headline for suspect in likely.audit(table).suspects}
    assert words.keys() >= {0, 1, 2}
    assert not any("missing" in headline for headline in words.values())


def test_a_level_is_not_held_against_itself_nor_against_many() -> None:
    similar = Neighbours.of(read_columns(pd.DataFrame({"kind": [*"aaab"] * 50, "x": np.arange(200) % 4 * 1.0})))
    kind = similar.names.index("kind")
    assert similar.agrees(0, kind, Level("a", 0.8))
    assert not similar.agrees(3, kind, Level("a", 0.8))
    assert similar.agrees(3, kind, Level("a", 0.4))
    assert not similar.agrees(3, kind, None)
    x = similar.names.index("x")
    assert [similar.agrees(3, x, Usual(2.0, high)) for high in (2.5, 3.0)] == [False, True]


def _numbers(headline: str) -> tuple[str, str, str]:
    value = headline.split(" = ")[1].split(",")[0]
    low, high = re.split("–| to ", headline.split("similar rows have ")[1].split(";")[0])
    return value, low, high


def test_words_among_numbers_are_one_entry_for_each_frequent_word_and_one_for_the_rest() -> None:
    sizes = [str(own) for own in range(400)]
    sizes[5:15] = ["large"] * 10
    sizes[20:26] = [f"{own} cm" for own in range(6)]
    report = likely.audit({"size": sizes, "x": np.arange(400) % 50})
    entries = [entry for entry in report.entries if entry.kind == "cells"]
    assert {entry.headline for entry in entries} == {
        "10 rows: size is 'large': not a number",
        "6 rows: size is not a number",
    }
    assert {suspect.headline for suspect in report.suspects} >= {"size is '3 cm': not a number"}


def test_one_row_is_not_rows() -> None:
    report = likely.audit({"a": [1.0]})
    assert found(report, "overview").summary.startswith("1 row, 1 column: 1 constant.")
    empty = likely.audit({"a": [None] * 30, "b": [None] * 30})
    assert "All of the values are missing" in found(empty, "overview").summary
    assert "Left out of the models: a, b (no value)." in empty.notes


def test_years_have_no_thousands_and_negative_ranges_have_words() -> None:
    rng = np.random.default_rng(0)
    heat = rng.normal(-20, 0.1, 300)
    heat[5] = 9.0
    table = pd.DataFrame({"year": rng.integers(1999, 2009, 300), "heat": heat, "load": rng.normal(size=300)})
    first = likely.audit(table).suspects[0]
    assert first.row == 5
    assert re.fullmatch(r"heat = 9, where similar rows have -2\d[.\d]* to -(19|20)[.\d]*.*", first.headline)
    report = found(likely.audit(table), "overview").tables[0].frame
    assert report.loc["year", "holds"].startswith("1999 to 2008")


def test_a_rare_level_among_others_is_not_called_wrong() -> None:
    rng = np.random.default_rng(0)
    remark = rng.choice(["fine", "late", "adult not sampled"], 300, p=[0.6, 0.39, 0.01])
    x = rng.normal(size=300)
    report = likely.audit({"remark": remark, "x": x, "z": x + 0.1 * rng.normal(size=300)})
    assert not [suspect for suspect in report.suspects if suspect.wrong and "remark" in suspect.headline]


def test_dates_with_slashes_are_dates() -> None:
    days = pd.date_range("2020-01-01", periods=200).strftime("%Y/%m/%d")
    report = likely.audit(pd.DataFrame({"day": days, "x": np.arange(200) % 7}))
    assert found(report, "overview").numbers["kinds"] == {"date": 1, "number": 1}


def test_copies_that_differ_in_a_name_say_so() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    table = pd.concat([table, table[:5]], ignore_index=True)
    table["code"] = [f"K{row}" for row in range(205)]
    report = likely.audit(table)
    assert report.entries[0].headline == "5 rows: equal to another row but for code"
    assert found(report, "duplicates").summary == "5 rows repeat an earlier one but for code."


def test_a_label_is_as_surely_another_as_it_is_wrong() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    given = np.where(np.arange(400) < 8, 1 - truth, truth)
    logits = np.column_stack([np.zeros(400), (2 * truth - 1) * rng.gamma(4, 1, 400)])
    for suspect in likely.audit(logits=logits, labels=given, classes=["no", "yes"]).suspects:
        if suspect.kind == "labels" and suspect.score < 0.9995:
            assert f"with probability {suspect.score:.1%}" in suspect.headline


def test_a_value_that_was_copied_from_another_column_is_told() -> None:
    rng = np.random.default_rng(0)
    fat = rng.uniform(5, 50, 400).round(1)
    food = pd.DataFrame(
        {"fat": fat, "energy": 9 * fat + rng.normal(size=400), "salt": rng.uniform(60, 99, 400).round(1)}
    )
    food.loc[5, "fat"] = food.loc[5, "salt"]
    told = {suspect.row: suspect.headline for suspect in likely.audit(food).suspects}
    assert f"fat = {food.loc[5, 'salt']:g}, the value of salt" in told[5]


def cities(seed: int = 0) -> pd.DataFrame:
    """Places in fifty towns; how warm and how light it is there follows from the latitude."""
    rng = np.random.default_rng(seed)
    latitude = rng.uniform(46, 54, 800)
    table = pd.DataFrame({"latitude": latitude, "warmth": 30 - 0.5 * latitude + 0.05 * rng.normal(size=800)})
    table["light"] = 70 - latitude + 0.2 * rng.normal(size=800)
    table["town"] = [f"t{own:02}" for own in rng.integers(0, 50, 800)]
    return table


def test_rows_of_one_town_with_one_problem_are_one_entry() -> None:
    table = cities()
    rows = np.flatnonzero(table["town"] == "t20")
    table.loc[rows, "warmth"] += 2.5
    shared = [entry for entry in likely.audit(table).entries if len(entry.rows) > 2]
    assert [entry.headline.partition(": ")[2] for entry in shared] == ["warmth where town = t20, unlike similar rows"]
    assert set(shared[0].rows) <= set(rows)
    assert len(shared[0].rows) >= 0.7 * len(rows)


def test_wrong_signs_of_one_column_are_one_entry() -> None:
    table = cities()
    rows = np.random.default_rng(1).choice(800, 9, replace=False)
    table.loc[rows, "latitude"] *= -1
    entries = [entry for entry in likely.audit(table).entries if set(rows) & set(entry.rows)]
    assert len(entries) == 1
    assert set(entries[0].rows) == set(rows)
    assert entries[0].headline in (
        "9 rows: the other sign would fit latitude",
        "9 rows: latitude < 0, unlike similar rows",
    )


def test_a_row_is_not_named_for_a_value_that_similar_rows_have() -> None:
    rng = np.random.default_rng(2)
    for _ in range(3):
        table = pd.DataFrame(rng.standard_t(3, size=(400, 6)) @ rng.normal(size=(6, 6)), columns=list("abcdef"))
        table["kind"] = pd.cut(table["a"], [-np.inf, -1, 0, 1, np.inf], labels=list("pqrs")).astype(str)
        table.loc[rng.choice(400, 20), "kind"] = "s"
        neighbours = Neighbours.of(read_columns(table))
        for suspect in found(likely.audit(table), "rows").suspects:
            column = suspect.reasons[0].what
            usual = neighbours.usual(suspect.row, column)
            agrees = neighbours.agrees(suspect.row, neighbours.names.index(column), usual)
            assert not agrees or "would fit" in suspect.headline or "swapped" in suspect.headline


def test_columns_are_swapped_only_where_both_values_then_fit() -> None:
    rng = np.random.default_rng(3)
    height = rng.normal(170, 8, 500)
    table = pd.DataFrame(
        {"height": height, "weight": 0.9 * height - 85 + 4 * rng.normal(size=500), "age": rng.uniform(20, 90, 500)}
    )
    table["reach"] = table["height"] + 2 * rng.normal(size=500)
    table.loc[7, ["height", "weight"]] = table.loc[7, ["weight", "height"]].tolist()
    table.loc[9, "height"] = 75.0  # no other column has the height that is missing here
    headlines = {suspect.row: suspect.headline for suspect in likely.audit(table).suspects}
    assert "swapped" in headlines[7]
    assert "swapped" not in headlines[9]
