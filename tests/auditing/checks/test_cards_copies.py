"""Copies: how far off each kind is, and which rows are copies."""

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, load_wine

import likely
from likely.auditing import Finding
from likely.auditing.checks.copies import find_twins, repeated_rows
from likely.auditing.columns.kinds import read_columns


def copies(table: pd.DataFrame, target: str) -> Finding:
    columns = read_columns(table)
    finding = repeated_rows(columns, find_twins(columns, target), target)
    assert finding is not None
    return finding


def test_each_kind_of_copy_has_its_group_and_its_distance() -> None:
    table = load_wine(as_frame=True).frame
    table.loc[150] = table.loc[10]
    table.loc[151] = table.loc[20]
    table.loc[151, "target"] = 2
    table.loc[152] = table.loc[30]
    table.loc[152, "alcohol"] += 1e-7
    told = {own.row: (own.group, own.far, own.wrong) for own in copies(table, "target").suspects}
    assert told == {
        150: ("equal to another row", 0.05, False),
        151: ("equal to another row but for the target", 0.3, False),
        152: ("almost equal to another row", 0.1, False),
    }


def test_groups_are_part_of_an_audit() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(1500, 3)), columns=list("abc"))
    table["town"] = rng.choice(list("ABC"), 1500)
    table["price"] = 3 * table["a"] + rng.normal(size=1500) * np.where(table["town"] == "B", 4, 0.5)
    found = next(finding for finding in likely.audit(table, target="price").findings if finding.name == "groups")
    assert found.numbers["groups"][0]["where"].startswith("town = B")
    assert "the error of price is" in found.summary


def test_every_copy_belongs_to_its_group() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(4000, 3)), columns=list("abc"))
    table["name"] = [f"H{row}" for row in range(4000)]
    table = pd.concat([table, table[:900].assign(name="copy")], ignore_index=True)
    report = likely.audit(table, id_column="name")
    (entry,) = [entry for entry in report.entries if entry.kind == "duplicates"]
    assert entry.headline == "900 rows: equal to another row"
    assert len(entry.suspects) == 900
    assert entry.suspects[3].headline == "equals name H3"
    # One mark is enough for all of them.
    fine = {"version": 1, "fine": [{"kind": "duplicates", "group": entry.group}]}
    assert not [
        entry for entry in likely.audit(table, id_column="name", accepted=fine).entries if entry.kind == "duplicates"
    ]


def test_rows_that_share_categories_and_differ_in_one_amount_are_no_copies_but_close_patients_are() -> None:
    alarms = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        net = np.exp(rng.normal(5, 1, 1_000)).round(2)
        orders = pd.DataFrame({"customer": rng.choice(list("abcdef"), 1_000), "items": rng.poisson(3, 1_000)})
        orders["shipping"], orders["net"] = rng.choice([0, 4.9, 9.9], 1_000), net
        orders["tax"] = (net * rng.choice([0.07, 0.19], 1_000)).round(2)
        orders["total"] = orders["net"] + orders["tax"] + orders["shipping"]
        alarms += int((find_twins(read_columns(orders), None).of >= 0).sum())
    assert alarms <= 3  # of 4,000 rows
    patients = load_diabetes(as_frame=True).frame.drop(columns="target").assign(ward=rng.choice(list("abc"), 442))
    close = patients[:5].copy()
    close["bmi"] += 1e-4
    twins = find_twins(read_columns(pd.concat([patients, close], ignore_index=True)), None)
    assert twins.of[442:].tolist() == [0, 1, 2, 3, 4]


def test_near_copies_are_named_in_tables_of_two_columns() -> None:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(400, 2))
    table = pd.DataFrame(np.vstack([points, points[:5] + 1e-9 * rng.normal(size=(5, 2))]), columns=["a", "b"])
    assert find_twins(read_columns(table), None).of[400:].tolist() == list(range(5))
    for clean in (rng.normal(size=(2000, 2)), rng.lognormal(size=(2000, 2))):
        assert not (find_twins(read_columns(pd.DataFrame(clean, columns=["a", "b"])), None).of >= 0).any()


def test_rows_that_differ_in_a_text_are_no_copies() -> None:
    """Such as players of whom only zeros are known: with their names left out, they were "almost equal"."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc")).assign(y=rng.normal(size=300))
    table.loc[100] = table.loc[10] + 1e-7
    table.loc[200] = table.loc[20] + 1e-7
    table["name"] = [f"name {row % 290}" for row in range(300)]
    table.loc[200, "name"] = table.loc[20, "name"]
    assert copies(table, "y").rows.tolist() == [200]
