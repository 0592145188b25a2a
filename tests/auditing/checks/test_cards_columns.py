"""Columns: what is in a table, its gaps, and columns to look at before a model does."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import likely
from likely._rows.reading.read_table import read_table
from likely.auditing import Audit, Finding
from likely.auditing.checks.faulty_columns import faulty_columns
from likely.auditing.checks.gaps import depends, gaps
from likely.auditing.checks.leaks import tells
from likely.auditing.checks.order import order
from likely.auditing.checks.overview import overview
from likely.auditing.columns.kinds import read_columns


def ask(
    frame: pd.DataFrame, target: str | None = None, task: str = "none", id: str | None = None
) -> dict[str, Finding]:
    table = read_table(frame).frame
    columns = read_columns(table, id)
    of_target = [overview(columns, target, task, len(table)), gaps(columns, target, task)]
    found = [*of_target, faulty_columns(table, columns, target), order(columns, target)]
    return {finding.name: finding for finding in found if finding is not None}


def customers(n: int = 600, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "income": rng.lognormal(10, 0.5, n),
            "city": rng.choice(["NY", "LA", "SF"], n),
            "churn": rng.choice(["yes", "no"], n, p=[0.2, 0.8]),
        }
    )


def why(finding: Finding, kind: str) -> dict[str, str]:
    return {own["column"]: own["why"] for own in finding.numbers[kind]}


def test_the_overview_counts_rows_columns_kinds_gaps_and_classes() -> None:
    table = customers()
    table["signed"] = pd.date_range("2020-01-01", periods=600)
    table.loc[:59, "income"] = np.nan
    seen = ask(table, "churn", "classification")["overview"]
    assert seen.summary.startswith(
        "600 rows, 5 columns: 2 numbers, 2 categories and 1 date. 2.0% of the values are missing."
    )
    assert "2 classes of churn: no (78%), yes (22%)." in seen.summary
    assert seen.numbers["gaps"] == {"income": 0.1}
    assert list(seen.tables[0].frame.columns) == ["kind", "gaps", "distinct", "holds"]
    spread = ask(table, "income", "regression")["overview"]
    assert "income: median 2" in spread.summary


def test_a_rare_class_and_a_long_tail_are_named() -> None:
    table = customers()
    table.loc[:3, "churn"] = "never"
    assert "Rare: never (4 rows)." in ask(table, "churn", "classification")["overview"].summary
    table["income"] **= 3
    assert "long tail of high values" in ask(table, "income", "regression")["overview"].summary


def test_gaps_that_depend_on_the_target_are_told_with_their_error() -> None:
    table = customers(2000)
    rng = np.random.default_rng(1)
    table.loc[(table["churn"] == "yes") & (rng.uniform(size=2000) < 0.3), "income"] = np.nan
    table.loc[rng.uniform(size=2000) < 0.1, "age"] = np.nan
    found = ask(table, "churn", "classification")["gaps"]
    assert found.numbers["depend_on_target"] == ["income"]
    assert "where income is missing, the share of churn = " in found.summary
    assert "±" in found.summary
    table["price"] = rng.normal(size=2000)
    table.loc[table["price"] > 1, "age"] = np.nan
    assert ask(table, "price", "regression")["gaps"].numbers["depend_on_target"] == ["age"]


@pytest.mark.parametrize("classes", [False, True])
def test_gaps_at_random_have_uniform_p_values(classes: bool) -> None:
    rng = np.random.default_rng(3)

    def once() -> float:
        y = rng.choice(list("abc"), 300) if classes else rng.normal(size=300)
        told = depends(rng.uniform(size=300) < 0.15, pd.Series(y, name="y"), classes=classes)
        assert told is not None
        return told.p_value

    p = np.array([once() for _ in range(400)])
    assert np.mean(p < 0.05) < 0.08
    assert kstest(p, "uniform").pvalue > 1e-3


def test_a_table_without_gaps_has_no_card_for_them_and_empty_rows_are_counted() -> None:
    assert "gaps" not in ask(customers(), "churn", "classification")
    table = customers()
    table.loc[5, ["age", "income", "city"]] = np.nan
    assert ask(table, "churn", "classification")["gaps"].numbers["empty_rows"] == [5]


def with_stand_ins() -> pd.DataFrame:
    """Every 50th age is a dash, every 40th city unknown in one spelling or another, and of the incomes 20 are -999."""
    table = customers().astype(object)
    table.loc[::50, "age"], table.loc[::40, "city"], table.loc[40::80, "city"] = "-", "Unknown", "n/a"
    table.loc[3::30, "income"] = -999.0
    table["income"] = table["income"].astype(float)
    return table


def test_words_that_mean_missing_are_gaps_and_the_report_says_which() -> None:
    report = likely.audit(with_stand_ins(), "churn")
    found = {finding.name: finding for finding in report.findings}
    assert found["gaps"].numbers["stand_ins"] == {"age": ["-"], "city": ["Unknown", "n/a"]}
    assert found["gaps"].numbers["missing"] == {"age": 0.02, "city": 0.025}
    assert "“-” in age, “Unknown” and “n/a” in city; the option missing says otherwise" in found["gaps"].summary
    assert "cells" not in found  # a dash was "not a number" in each of twelve rows
    assert list(why(found["columns"], "code")) == ["income"]
    assert not why(found["columns"], "written")


def test_the_user_says_what_means_missing() -> None:
    found = {f.name: f for f in likely.audit(with_stand_ins(), missing=["-999", "Unknown"]).findings}
    assert found["gaps"].numbers["missing"] == {"age": 0.02, "income": 0.0333, "city": 0.0133}
    assert found["cells"].numbers["cells"] == 12
    assert not why(found["columns"], "code")
    nothing = {finding.name: finding for finding in likely.audit(with_stand_ins(), missing=[]).findings}
    assert nothing["gaps"].numbers["missing"] == {"age": 0.02}  # a dash is no number
    assert nothing["gaps"].numbers["stand_ins"] == {}


@pytest.mark.parametrize("missing", [[-999, "Unknown"], [" -999", "Unknown "], [-999.0, "Unknown"]])
def test_what_means_missing_is_given_as_words_or_numbers(missing: list[str | float]) -> None:
    found = {f.name: f for f in likely.audit(with_stand_ins(), missing=missing).findings}
    assert found["gaps"].numbers["missing"] == {"age": 0.02, "income": 0.0333, "city": 0.0133}


def test_a_single_word_means_missing_and_not_each_of_its_letters() -> None:
    table = customers().assign(city=["N", "NA", "A"] * 200)
    gaps = next(f for f in likely.audit(table, missing="NA").findings if f.name == "gaps")
    assert gaps.numbers["stand_ins"] == {"city": ["NA"]}


def test_numbers_of_houses_and_families_are_names() -> None:
    table = customers()
    table["family"] = [f"{number}A" if number == 136 else f"{number:03d}" for number in np.arange(600) // 3]
    table["length"] = [f"{number} cm" if number == 136 else str(number) for number in range(600)]
    report = likely.audit(table)
    cells = next(finding for finding in report.findings if finding.name == "cells")
    assert [suspect.headline for suspect in cells.suspects] == ["length is '136 cm': not a number"]


def test_classes_signs_and_levels_called_none_are_no_gaps() -> None:
    table = customers()
    table["churn"] = np.where(table["churn"] == "no", "unknown", "NA")
    table["rhesus"], table["pool"] = ["+", "-"] * 300, ["None", "small", "large"] * 200
    assert "gaps" not in {finding.name for finding in likely.audit(table, "churn").findings}


def test_words_that_mean_missing_in_a_table_in_blocks(in_blocks) -> None:
    table = with_stand_ins().iloc[np.arange(3000) % 600].astype({"age": str})
    short, long = likely.audit(table), likely.audit(in_blocks(table))
    of_short, of_long = ({f.name: f.numbers for f in report.findings}["gaps"] for report in (short, long))
    assert of_long["stand_ins"] == of_short["stand_ins"] == {"age": ["-"], "city": ["Unknown", "n/a"]}
    overviews = [next(f.numbers["gaps"] for f in report.findings if f.name == "overview") for report in (short, long)]
    assert overviews[0] == overviews[1]


def test_columns_that_say_the_same() -> None:
    table = customers()
    table["age in months"] = 12 * table["age"]
    table["copy"] = table["city"]
    table["code"] = table["city"].map({"NY": 7, "LA": 3, "SF": 11})
    table["other"] = -table["income"] + 5
    table["almost"] = table["income"] + np.random.default_rng(0).normal(size=600)
    twins = why(ask(table)["columns"], "twin")
    assert twins == {
        "age in months": "age in months = 12 × age",
        "copy": "copy equals city",
        "code": "code and city determine each other, one to one",
        "other": "other = −income + 5",
    }


def test_constant_empty_and_identifying_columns_and_the_one_the_user_names() -> None:
    table = customers()
    rng = np.random.default_rng(0)
    table["one"], table["none"] = 1, None
    table["customer"] = rng.permutation(600) + 5000
    table["name"] = [f"c{i}x" for i in rng.permutation(600)]
    table["salary"] = rng.permutation(600) * 137.0  # whole and distinct, but an amount
    found = ask(table)["columns"]
    assert [list(why(found, kind)) for kind in ("constant", "empty", "identifier")] == [
        ["one"],
        ["none"],
        ["customer", "name"],
    ]
    assert list(why(ask(table, id="name")["columns"], "identifier")) == ["customer"]


@pytest.mark.parametrize(
    ("column", "code"), [("age", -999), ("age", 0), ("age", 9999), ("income", -1), ("income", 999999999)]
)
def test_numbers_that_stand_for_a_gap(column: str, code: float) -> None:
    table = customers()
    table["income"] = table["income"].round()
    table.loc[[3, 70, 300, 301], column] = code
    told = why(ask(table)["columns"], "code")
    assert list(told) == [column]
    assert "in 4 rows" in told[column]


@pytest.mark.parametrize("values", ["counts", "normal", "percent", "uniform", "ratings", "years"])
def test_amounts_are_no_codes(values: str) -> None:
    rng = np.random.default_rng(0)
    drawn = {
        "counts": rng.poisson(3, 2000),
        "normal": rng.normal(size=2000).round(1),
        "percent": rng.integers(0, 100, 2000),
        "uniform": rng.integers(0, 1000, 2000),
        "ratings": rng.choice([-1, 0, 1, 9], 2000),
        "years": np.where(rng.uniform(size=2000) < 0.5, 0, rng.integers(1950, 2020, 2000)),
    }[values]
    assert not ask(pd.DataFrame({"x": drawn, "y": rng.normal(size=2000)}))["columns"].numbers["code"]


def test_spellings_of_a_level_and_numbers_and_dates_as_text() -> None:
    table = customers()
    table.loc[:4, "city"] = "ny "
    rng = np.random.default_rng(0)
    table["fee"] = [f"${fee:,}" for fee in rng.integers(900, 5000, 600)]
    table["weight"] = [f"{kilos} kg" for kilos in rng.integers(40, 120, 600)]
    table["text number"] = rng.integers(0, 99, 600).astype(str)
    days = pd.Series(pd.date_range("2020-01-01", periods=600))
    table["day"] = np.where(np.arange(600) % 4 == 0, days.dt.strftime("%d/%m/%Y"), days.dt.strftime("%Y-%m-%d"))
    table["room"] = [f"A{number}" for number in rng.integers(1, 40, 600)]
    table["band"] = rng.choice(["<10", "10-20", ">20", "20-30"], 600)
    found = ask(table)["columns"]
    assert "is also written “ny ” (5)" in why(found, "spelling")["city"]
    assert list(why(found, "written")) == ["fee", "weight", "text number", "day"]
    assert "2 formats" in why(found, "written")["day"]


def countries(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    place = np.sort(rng.integers(0, 40, rows))
    names, codes = (np.array([f"{stem}{k}" for k in range(40)]) for stem in ("Land", "L"))
    return pd.DataFrame({"country": names[place], "code": codes[place], "continent": [f"C{k // 4}" for k in place]})


def test_a_code_of_two_countries_is_named_and_a_level_of_many_parts_is_not() -> None:
    table = countries()
    assert why(ask(table)["columns"], "shared") == {}
    table.loc[table["country"] == "Land7", "code"] = "L23"
    assert why(ask(table)["columns"], "shared") == {"code": "“L23” stands for “Land7” and “Land23” in country"}
    assert "One code for several things: code." in ask(table)["columns"].summary


def test_a_country_under_two_names_is_named_for_its_code() -> None:
    table = countries()
    first = table.index[table["country"] == "Land5"][0]
    table.loc[first, "country"] = "The Land5"
    assert why(ask(table)["columns"], "shared") == {"code": "“L5” stands for “The Land5” and “Land5” in country"}


def test_a_clean_table_gets_calm_sentences() -> None:
    found = ask(customers(), "churn", "classification")
    assert found["columns"].summary.startswith("No column is constant")
    assert found["order"].summary.startswith("Rows look shuffled")
    assert not found["columns"].tables


@pytest.mark.parametrize(
    ("load", "column", "most"),
    [(load_diabetes, "bmi", 0.45), (load_wine, "flavanoids", 0.65), (load_breast_cancer, "worst perimeter", 0.75)],
)
def test_leaks_on_small_sets_have_an_error_and_permuted_targets_tell_nothing(
    load: object, column: str, most: float
) -> None:
    table = load(as_frame=True).frame  # type: ignore[operator]
    x, y = table[column].to_numpy(), table["target"].to_numpy(float)
    labels = len(np.unique(y)) < 20
    told = tells(x, y, labels=labels)
    assert 0.2 < told.share < most
    assert 0.01 < told.error < 0.08
    rng = np.random.default_rng(0)
    chance = [tells(x, rng.permutation(y), labels=labels) for _ in range(20)]
    assert np.mean([own.share for own in chance]) < 0.01
    assert sum(own.share > 2 * own.error for own in chance) <= 2


def test_the_audit_has_the_cards_and_an_id_is_read_by_none_of_them() -> None:
    table = customers(200)
    table.insert(0, "customer", [f"c{i}" for i in range(200)])
    audit = likely.audit(table)
    assert isinstance(audit, Audit)
    findings = {finding.name: finding for finding in audit.findings}
    assert {"overview", "columns", "order"} <= set(findings)
    assert list(why(findings["columns"], "identifier")) == ["customer"]
    table["customer"] = np.arange(200)  # sorted, counting, and no news to the user
    named = {finding.name: finding for finding in likely.audit(table, id_column="customer").findings}
    assert named["columns"].summary.startswith("No column is constant")
    assert named["order"].numbers["columns"] == []
    assert named["overview"].numbers["kinds"]["name"] == 1


def test_a_word_of_many_rows_is_a_code_and_a_single_one_an_error() -> None:
    """Such as "T" for a trace of rain, of which 183 rows were "probably wrong"."""
    rain = pd.Series(np.random.default_rng(0).gamma(2, 3, 200).round(2)).astype(str)
    rain[5:15], rain[20] = "T", "12..5"
    report = likely.audit(pd.DataFrame({"rain": rain, "wind": np.arange(200) % 17}))
    told = {entry.headline: entry.wrong for entry in report.entries if entry.kind == "cells"}
    assert told == {"10 rows: rain is 'T': not a number": False, "rain is '12..5': not a number": True}
    assert "10 rows: rain is 'T': not a number (row 5, row 6, row 7, …)" in str(report)
