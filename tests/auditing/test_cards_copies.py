"""Copies: how far off each kind is, and whether copies that disagree are wrong or only noisy."""

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


def measured(noise: float, seed: int = 0) -> pd.DataFrame:
    """Real patients, a tenth of them twice, with a target that is measured with some noise."""
    rng = np.random.default_rng(seed)
    table = load_diabetes(as_frame=True).frame.drop(columns="target")
    table["y"] = 100 * table["bmi"] + 50 * table["s5"]
    table = pd.concat([table, table[:44]], ignore_index=True)
    table["y"] += noise * rng.normal(size=len(table))
    return table


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


def test_copies_that_differ_as_neighbours_do_are_said_to_be_noise() -> None:
    noisy = copies(measured(noise=5.0), "y")
    assert noisy.numbers["other_target"] == 44
    assert noisy.numbers["by_noise"]
    assert "that is the usual spread of y" in noisy.summary


def test_copies_that_differ_by_more_than_neighbours_are_not() -> None:
    table = measured(noise=0.0)
    table.loc[442:445, "y"] *= -4
    wrong = copies(table, "y")
    assert wrong.numbers["other_target"] == 4
    assert not wrong.numbers["by_noise"]


def test_labels_that_columns_do_not_determine() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 4, (2000, 6)).astype(float), columns=list("abcdef"))
    table["won"] = rng.choice(["yes", "no"], 2000)
    found = copies(table, "won")
    assert "do not determine won" in found.summary
    table["won"] = np.where(table["a"] > 1, "yes", "no")
    twins = find_twins(read_columns(table), "won")
    for row in np.flatnonzero(twins.of >= 0)[:4]:
        table.loc[row, "won"] = "no" if table.loc[row, "won"] == "yes" else "yes"
    assert "determine" not in copies(table, "won").summary


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


def test_rows_in_both_tables_are_one_entry() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(2000, 3)), columns=list("abc"))
    (entry,) = [entry for entry in likely.audit(table, test=table[:700]).entries if entry.kind == "overlap"]
    assert len(entry.suspects) == 700


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
