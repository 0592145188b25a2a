"""A table from end to end: planted errors are found and explained, and odd tables end in a report or a sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import likely
from likely.auditing import Audit
from pairwise import together
from quick_stacks import cut_short


def houses(n: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size, age, town = rng.gamma(20, 5, n), rng.uniform(0, 50, n), rng.choice(["A", "B", "C"], n)
    price = 3 * size - age + 40 * (town == "A") + 5 * rng.normal(size=n) + 50
    return pd.DataFrame({"size": size, "age": age, "town": town, "price": price})


def flowers(n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    names = np.array(["rose", "lily", "daisy"])
    frame = pd.DataFrame(rng.normal(size=(n, 4)) + 4 * np.eye(4)[truth], columns=list("abcd"))
    wrong = rng.choice(n, n // 20, replace=False)
    frame["kind"] = names[truth]
    frame.loc[wrong, "kind"] = names[(truth[wrong] + 1) % 3]
    return frame, wrong


def rows(audit: Audit, kind: str) -> list[int]:
    return next((finding.rows.tolist() for finding in audit.findings if finding.name == kind), [])


def test_wrong_units_are_found_and_named() -> None:
    table = houses()
    table.loc[3, "price"] *= 1000
    table.loc[8, "price"] /= 10
    audit = likely.audit(table, target="price")
    assert audit.task == "regression"
    assert set(rows(audit, "targets")) >= {3, 8}
    assert len(rows(audit, "targets")) <= 6
    suspect = next(s for s in audit.suspects if s.row == 3 and s.kind == "targets")
    assert suspect.headline.endswith("; ÷1,000 would fit")
    assert audit.scores["target_wrong"][3] > 0.9


def test_wrong_labels_are_found_with_what_they_should_be() -> None:
    table, wrong = flowers()
    audit = likely.audit(table, target="kind")
    found = rows(audit, "labels")
    assert audit.task == "classification"
    assert len(set(found) & set(wrong)) >= 0.8 * len(wrong)
    assert len(set(found) - set(wrong)) <= 3
    assert abs(next(f for f in audit.findings if f.name == "labels").numbers["share_wrong"] - 0.05) < 0.02
    right = {0: "rose", 1: "lily", 2: "daisy"}
    suggested = audit.scores["suggested"]
    assert suggested[found[0]] in right.values()
    assert suggested[found[0]] != table["kind"][found[0]]


def test_clean_tables_raise_few_alarms() -> None:
    audit = likely.audit(houses(seed=2), target="price")
    assert audit.share < 0.02


def test_a_row_far_away_is_explained_by_its_column() -> None:
    table = houses()
    table.loc[5, "age"] = 900.0
    audit = likely.audit(table)
    suspect = audit.suspects[0]
    assert (suspect.row, suspect.kind, suspect.reasons[0].what) == (5, "rows", "age")
    assert suspect.reasons[0].share > 0.5
    assert audit.task == "none"


def test_a_flag_that_one_row_in_twenty_carries_is_not_odd() -> None:
    table = houses()
    table["flag"] = (np.arange(len(table)) % 20 == 0).astype(float)
    assert len(rows(likely.audit(table), "rows")) <= 4


@pytest.mark.parametrize("levels", [5, 50, 500])
@pytest.mark.parametrize("slope", [0, 1], ids=["uniform", "Zipf"])
def test_a_category_of_many_levels_hides_no_odd_row_and_makes_none(levels: int, slope: int) -> None:
    rng = np.random.default_rng(9)
    table = pd.DataFrame(rng.normal(size=(2000, 5)), columns=list("abcde"))
    share = 1 / np.arange(1, levels + 1) ** slope
    table["state"] = [f"s{k}" for k in rng.choice(levels, 2000, p=share / share.sum())]
    assert len(rows(likely.audit(table), "rows")) <= 4
    table.loc[7, "a"], table.loc[8, "b"] = 1e6, 50.0
    found = rows(likely.audit(table), "rows")
    assert {7, 8} <= set(found)
    assert len(found) <= 6


def test_copies_near_copies_and_contradictions() -> None:
    table, _ = flowers(200)
    table.loc[50] = table.loc[10]
    table.loc[60] = table.loc[20]
    table.loc[60, list("abcd")] += 1e-6
    table.loc[70] = table.loc[30]
    table.loc[70, "kind"] = "rose" if table.loc[30, "kind"] != "rose" else "lily"
    audit = likely.audit(table, target="kind")
    assert rows(audit, "duplicates") == [70, 50, 60]
    assert "a different kind" in next(s for s in audit.suspects if s.row == 70 and s.kind == "duplicates").headline
    assert audit.scores["repeats_row"][[50, 60, 70]].tolist() == [10, 20, 30]


def test_copies_do_not_vouch_for_each_other() -> None:
    """A wrong label that is there twice is found twice: no fold is judged by a model that has seen the copy."""
    table, wrong = flowers(400)
    twice = pd.concat([table, table.loc[wrong]], ignore_index=True)
    found = rows(likely.audit(twice, target="kind"), "labels")
    assert len(set(found) & set(wrong)) >= 0.7 * len(wrong)
    assert len(set(found) & set(range(400, 420))) >= 0.7 * len(wrong)


def test_a_column_that_gives_the_target_away() -> None:
    table = houses()
    table["tax"] = 0.1 * table["price"] + 3
    leaks = next(f for f in likely.audit(table, target="price").findings if f.name == "leaks")
    assert leaks.numbers["columns"] == ["tax"]
    table, _ = flowers()
    table["code"] = table["kind"].map({"rose": 4, "lily": 9, "daisy": 2})
    leaks = next(f for f in likely.audit(table, target="kind").findings if f.name == "leaks")
    assert leaks.numbers["columns"] == ["code"]
    clean = next(f for f in likely.audit(houses(), target="price").findings if f.name == "leaks")
    assert clean.numbers["columns"] == []


def test_a_noisy_region_is_named() -> None:
    rng = np.random.default_rng(0)
    table = houses(1500)
    noisy = table["age"] > 30
    table.loc[noisy, "price"] += 60 * rng.normal(size=int(noisy.sum()))
    groups = next(f for f in likely.audit(table, target="price").findings if f.name == "groups")
    assert groups.numbers["groups"][0]["where"].startswith(("age > 3", "30"))
    quiet = next(f for f in likely.audit(houses(1500), target="price").findings if f.name == "groups")
    assert not any(group["loss"] > 2 * group["rest"] for group in quiet.numbers["groups"])


def test_the_same_seed_gives_the_same_audit() -> None:
    table, _ = flowers(150)
    first, second = (likely.audit(table, target="kind", random_state=3) for _ in range(2))
    pd.testing.assert_frame_equal(first.scores, second.scores)


def test_the_frame_is_left_alone() -> None:
    table, _ = flowers(100)
    table.columns = pd.Index(["a", "b", "c", "d", "kind"])
    before = table.copy(deep=True)
    likely.audit(table, target="kind")
    pd.testing.assert_frame_equal(table, before)


def test_missing_values_categories_and_dates_together() -> None:
    table = houses(200)
    rng = np.random.default_rng(0)
    table["sold"] = pd.date_range("2020-01-01", periods=200)
    table.loc[rng.choice(200, 40), "size"] = np.nan
    table.loc[rng.choice(200, 40), "town"] = None
    table.loc[:9, "price"] = np.nan
    audit = likely.audit(table, target="price")
    assert any("10 rows have no price" in note for note in audit.notes)
    assert audit.scores["expected"].isna().sum() == 10


@together(
    ("table", "target", "message"),
    [
        (houses(50), "prise", "did you mean 'price'"),
        (houses(10), "price", "20 or more are needed"),
        (houses(50)[["price"]], "price", "no column besides price"),
        (houses(50).assign(price=1.0), "price", "nothing to predict"),
        (houses(50).assign(price=None), "price", "nothing to predict"),
        (houses(80).assign(name=[f"house {i}" for i in range(80)]), "name", "name another column"),
        (houses(50)[:0], "price", "no rows"),
        (pd.DataFrame(index=range(5)), None, "no columns"),
        (np.zeros((2, 2, 2)), None, "shape"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_a_sentence(table: Any, target: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        likely.audit(table, target=target)


def test_words_cannot_be_regressed_nor_tasks_invented() -> None:
    table, _ = flowers(60)
    with pytest.raises(ValueError, match="use task='classification'"):
        likely.audit(table, target="kind", task="regression")
    with pytest.raises(ValueError, match="task must be one of"):
        likely.audit(table, target="kind", task="clustering")
    with pytest.raises(ValueError, match="classes, more than 100"):
        likely.audit(houses(200), target="price", task="classification")


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"x": np.r_[np.zeros(29), 9.0]}),
        pd.DataFrame({"x": [1.0]}),
        pd.DataFrame({"x": [1e308, -1e308, 1.0] * 20, "y": [1e-308, 0.0] * 30}),
        pd.DataFrame({"x": [None] * 30, "y": ["a"] * 30}),
        pd.DataFrame({"x": [[1], {2}, "a", None, 3.5] * 10}),
        pd.DataFrame({"x": pd.array([1, None, 3] * 10, dtype="Int64"), "y": pd.Categorical(["a", "b", None] * 10)}),
        np.arange(40.0),
    ],
)
def test_odd_tables_end_in_a_report(table: Any, tmp_path: Path) -> None:
    audit = likely.audit(table)
    audit.save(tmp_path)
    assert audit.rows == len(table)


def test_numbers_beyond_single_precision() -> None:
    rng = np.random.default_rng(0)
    table = houses(80).assign(huge=rng.choice([1e308, -1e308, 1.0], 80), tiny=1e-308 * rng.normal(size=80))
    assert likely.audit(table, target="price").rows == 80
    assert likely.audit(table, target="huge", task="regression").rows == 80


def test_a_rare_class_and_two_values() -> None:
    table, _ = flowers(100)
    table.loc[0, "kind"] = "orchid"
    assert likely.audit(table, target="kind").task == "classification"
    table["flag"] = np.arange(100) % 2
    flagged = likely.audit(table, target="flag")
    assert flagged.task == "classification"
    assert set(flagged.scores["suggested"]) <= {"", "0", "1"}


@pytest.mark.heavy
def test_ten_thousand_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short(monkeypatch)
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(40, 10_000)), columns=[f"c{i}" for i in range(10_000)])
    wide["y"] = wide["c5"] * 3 + rng.normal(size=40)
    audit = likely.audit(wide, target="y")
    audit.save(tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 5e6
