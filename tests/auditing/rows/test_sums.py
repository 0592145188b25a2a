"""Columns that add up, or multiply, to another: found where they do, and the rows that do not keep to it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from likely.auditing import audit
from likely.auditing.columns.kinds import read_columns
from likely.auditing.identities.search import find_identities

ROWS = 400


def invoices(rows: int = 1_000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    net = np.exp(rng.normal(5, 1, rows)).round(2)
    table = pd.DataFrame({"customer": rng.choice(list("abcdef"), rows), "items": 1 + rng.poisson(3, rows), "net": net})
    table["tax"] = (net * rng.choice([0.07, 0.19], rows)).round(2)
    table["shipping"] = rng.choice([0, 4.9, 9.9], rows)
    table["total"] = (table["net"] + table["tax"] + table["shipping"]).round(2)
    return table


def tables() -> dict[str, tuple[str, dict[str, Any]]]:
    rng = np.random.default_rng(0)
    a, b, c = rng.gamma(2, 50, (3, ROWS)).round(2)
    x, y, z = rng.integers(0, 9, (3, ROWS))
    height, weight = rng.normal(175, 9, ROWS).round(), rng.normal(75, 12, ROWS).round(1)
    year, month = rng.integers(1990, 2020, ROWS), rng.integers(1, 13, ROWS)
    shares = (100 * rng.dirichlet([2, 3, 4], ROWS)).round(1)
    return {
        "a sum": ("total = a + b + c", {"a": a, "b": b, "c": c, "total": (a + b + c).round(2)}),
        "whole numbers": ("people = adults + children", {"adults": x, "children": y, "people": x + y}),
        "a constant": ("age = school + work + 6", {"z": z, "school": x, "work": y, "age": x + y + 6}),
        "a difference": ("due = paid + open", {"due": (a + b).round(2), "paid": b, "open": a}),
        "a mean": ("price = (low + high) / 2", {"low": a, "high": b, "price": ((a + b) / 2).round(1)}),
        "a product": ("amount = count × price", {"count": x + 1, "price": a, "amount": (a * (x + 1)).round(2)}),
        "a ratio": (
            "weight = height² × bmi / 10000",
            {"height": height, "weight": weight, "bmi": (1e4 * weight / height**2).round(1)},
        ),
        "shares": (" = a + b + c", dict(zip("abc", shares.T, strict=True))),
        "weights": ("t = 12 × year + month − 23880", {"year": year, "month": month, "t": 12 * year + month - 23_880}),
    }


@pytest.mark.parametrize("kind", tables())
def test_identities_are_found_beside_other_columns_and_so_are_the_rows_that_break_them(kind: str) -> None:
    equation, columns = tables()[kind]
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"noise": rng.normal(size=ROWS), **columns, "count of noise": rng.poisson(5, ROWS)})
    (identity,) = find_identities(read_columns(table))
    assert f"{identity.total} = {identity}" == equation
    assert not identity.broken(table).any()
    name, bad = list(columns)[-1], [7, 100, 311]
    table[name] = table[name].astype(float)
    table.loc[bad, name] = [table.loc[7, name] * 10 + 3, -5 - table.loc[100, name], table.loc[311, name] + 40]
    (identity,) = find_identities(read_columns(table))
    assert np.flatnonzero(identity.broken(table)).tolist() == bad


@pytest.mark.parametrize("load", [load_breast_cancer, load_diabetes, load_iris, load_wine])
def test_real_tables_without_sums_have_none(load: Callable[..., Any]) -> None:
    assert find_identities(read_columns(load(as_frame=True).frame)) == []


@pytest.mark.parametrize("seed", range(5))
def test_chance_makes_no_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({f"few{j}": rng.integers(0, 3, 60) for j in range(6)})
    table = table.assign(**{f"many{j}": rng.normal(size=60).round(1) for j in range(4)})
    table["nearly"] = table["many0"] + table["many1"] + 0.2 * rng.normal(size=60)
    table["rare"] = (rng.uniform(size=60) < 0.05).astype(int)
    assert find_identities(read_columns(table)) == []


def test_columns_that_repeat_others_in_nearly_all_rows_are_no_sums() -> None:
    rng = np.random.default_rng(0)
    school, moved = rng.integers(1, 80, 2_000), rng.uniform(size=2_000) < 0.03
    later = np.where(moved, rng.integers(1, 80, 2_000), school)
    table = pd.DataFrame({"system": school // 3, "school": school, "later system": later // 3, "later school": later})
    assert find_identities(read_columns(table)) == []


def test_rows_that_do_not_add_up_are_named_with_what_would_mend_them_and_no_others() -> None:
    table = invoices()
    table.loc[3, "total"] = round(table.loc[3, "total"] * 10, 2)
    table.loc[70, "tax"] += 12.5
    table.loc[500, "net"] *= -1
    table.loc[600, "total"] = np.nan
    report = audit(table)
    finding = next(finding for finding in report.findings if finding.name == "sums")
    assert finding.summary == "total = net + tax + shipping holds in nearly all rows; 3 rows break it."
    by_row = {suspect.row: suspect for suspect in finding.suspects}
    assert set(by_row) == {3, 70, 500}
    assert by_row[3].headline.endswith("; total ÷10 would fit")
    assert by_row[500].headline.endswith("; net the other sign would fit")
    row = table.loc[70]
    expected = row["net"] + row["tax"] + row["shipping"]
    assert by_row[70].headline == f"total = {row['total']:,.2f}, but net + tax + shipping = {expected:,.2f}"
    assert {suspect.row for suspect in report.suspects if suspect.wrong} == {3, 70, 500}


@pytest.mark.parametrize("seed", range(3))
def test_a_target_that_is_a_sum_is_judged_by_it(seed: int) -> None:
    table = invoices(300, seed)
    bad = np.random.default_rng(seed).choice(300, 3, replace=False)
    table.loc[bad, "total"] += [15, -9, 0.5]
    report = audit(table, target="total")
    assert {suspect.row for suspect in report.suspects if suspect.wrong} == set(bad.tolist())
    leaks = next(finding for finding in report.findings if finding.name == "leaks")
    assert leaks.numbers["together"] == [["net", "tax", "shipping"]]
    assert "net, tax and shipping together give total exactly" in leaks.summary


@pytest.mark.parametrize("share", [0.1, 0.02, 0.002])
def test_a_part_that_is_seldom_there_is_a_part(share: float) -> None:
    table = invoices(5_000)
    late = np.random.default_rng(1).uniform(size=5_000) < share
    table["late fee"] = np.where(late, np.random.default_rng(2).gamma(2, 9, 5_000).round(2), 0.0)
    table["total"] = (table["total"] + table["late fee"]).round(2)
    (identity,) = find_identities(read_columns(table))
    assert set(identity.parts) == {"net", "tax", "shipping", "late fee"}
    assert not identity.broken(table).any()


def test_single_precision_is_enough() -> None:
    table = invoices()
    table.loc[9, "total"] += 3
    numbers = table[["net", "tax", "shipping", "total"]].astype(np.float32)
    (identity,) = find_identities(read_columns(numbers))
    assert f"{identity.total} = {identity}" == "total = net + tax + shipping"
    assert np.flatnonzero(identity.broken(numbers)).tolist() == [9]


def test_a_cent_is_rounding_and_many_exceptions_are_odd_not_wrong() -> None:
    table = invoices()
    some = np.random.default_rng(0).choice(1_000, 30, replace=False)
    table.loc[some, "total"] = (table.loc[some, "total"] + 0.01).round(2)
    assert not find_identities(read_columns(table))[0].broken(table).any()
    table.loc[some, "total"] += 20
    entry = next(entry for entry in audit(table).entries if entry.kind == "sums")
    assert entry.headline == "30 rows: total is not net + tax + shipping"
    assert not entry.wrong


@pytest.mark.parametrize("target", ["total", None])
def test_blocks_hold_all_rows_against_the_sums_of_the_sample(
    target: str | None, in_blocks: Callable[[pd.DataFrame], str]
) -> None:
    table, bad = invoices(3_000), [1, 1_502, 2_999]
    table.loc[bad, "total"] += 30
    report = audit(in_blocks(table), target=target)
    finding = next(finding for finding in report.findings if finding.name == "sums")
    assert sorted(finding.rows.tolist()) == bad
    assert finding.numbers == {"rows": 3, "identities": {"total = net + tax + shipping": 3}}
    assert {suspect.row for suspect in report.suspects if suspect.kind in ("sums", "targets")} == set(bad)
