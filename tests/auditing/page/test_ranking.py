"""One list across kinds: what does most harm first, the same problem once, and what is known left out."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import likely
from auditing.rows.test_table import houses
from likely import cli
from likely.auditing import Audit, Finding, Suspect
from likely.auditing.results.accepted import Accepted, RowNames


def likely_audit(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.build(), ["audit", *map(str, words)])


def finding(name: str, *suspects: Suspect, more: int = 0) -> Finding:
    rows = np.array([*(suspect.row for suspect in suspects), *range(1000, 1000 + more)])
    return Finding(name, name, "", rows, np.linspace(0.9, 0.6, len(rows)), suspects)


def made(*findings: Finding) -> Audit:
    return Audit("data", 2000, "regression", "y", findings)


def test_a_surely_wrong_target_comes_before_two_hundred_copies_and_before_what_is_only_odd() -> None:
    copies = [
        Suspect(row, "duplicates", 1.0, "a copy", far=0.3, wrong=False, group="equal to another") for row in range(199)
    ]
    audit = made(
        finding("duplicates", *copies),
        finding("rows", Suspect(500, "rows", 0.999, "odd", far=6.0, wrong=False)),
        finding("targets", Suspect(600, "targets", 0.99, "wrong", far=30.0)),
    )
    assert [entry.kind for entry in audit.entries] == ["targets", "rows", "duplicates"]
    assert len(audit.entries[2].rows) == 199
    assert [suspect.row for suspect in audit.suspects][:3] == [600, 500, 0]
    assert audit.frame()["row"].tolist()[:2] == [600, 500]


def test_rows_beyond_those_that_are_explained_are_one_last_entry() -> None:
    audit = made(finding("rows", Suspect(3, "rows", 0.9, "odd", wrong=False), more=70))
    assert [len(entry.rows) for entry in audit.entries] == [1, 70]
    assert audit.entries[1].headline.startswith("70 more rows")
    assert "70 more rows" in repr(audit)


def test_the_key_of_a_row_follows_from_its_values_alone() -> None:
    first = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    other = pd.DataFrame({"b": pd.Series([np.nan, "x"], dtype=object), "a": [2.0, 1.0]})
    assert RowNames(first).keys([0, 1]) == RowNames(other).keys([1, 0])
    assert len(set(RowNames(first).keys([0, 1]))) == 2


@pytest.fixture
def table(tmp_path: Path) -> Path:
    frame = houses(150)
    frame.loc[7, "price"] *= 1000
    frame.insert(0, "house", [f"H{row:03}" for row in range(150)])
    frame.to_csv(tmp_path / "houses.csv", index=False)
    return tmp_path / "houses.csv"


def test_rows_are_called_by_the_column_that_names_them(table: Path) -> None:
    report = likely.audit(table, target="price", id_column="house")
    assert report.frame()["house"][0] == "H007"
    assert "house H007" in repr(report)
    assert report.scores["house"].tolist()[:2] == ["H000", "H001"]
    with pytest.raises(ValueError, match="did you mean 'house'"):
        likely.audit(table, target="price", id_column="hous")
    with pytest.raises(ValueError, match="cannot both name the rows and be the target"):
        likely.audit(table, target="price", id_column="price")


def test_the_next_audit_shows_only_what_is_new_and_its_exit_code_says_so(table: Path, tmp_path: Path) -> None:
    words = (table, "--target", "price", "--out")
    assert likely_audit(*words, tmp_path / "first").exit_code == 0
    again = likely_audit(*words, tmp_path / "second", "--previous", tmp_path / "first" / "summary.json")
    assert again.exit_code == 0, again.output
    assert "known before is not shown" in again.output
    frame = pd.read_csv(table)
    frame.loc[60, "price"] *= 1000
    frame.iloc[::-1].to_csv(table, index=False)  # in another order: rows are known by what they hold
    new = likely_audit(*words, tmp_path / "third", "--previous", tmp_path / "first" / "summary.json")
    assert new.exit_code == 1
    assert "that were not in" in new.output
    summary = json.loads((tmp_path / "third" / "summary.json").read_text())
    assert summary["entries"][0]["first"] == 149 - 60
    assert summary["known"] >= 1
    allowed = likely_audit(
        *words, tmp_path / "third", "--previous", tmp_path / "first" / "summary.json", "--fail-above", "0.9"
    )
    assert allowed.exit_code == 0


def test_a_named_row_stays_known_when_a_column_is_added(table: Path) -> None:
    before = likely.audit(table, target="price", id_column="house")
    first = before.suspects[0]
    fine = {"version": 1, "fine": [before.names.mark(first, before.names.keys([first.row])[0])]}
    frame = pd.read_csv(table)
    frame["area"] = np.arange(150) % 7
    after = likely.audit(frame, target="price", id_column="house", accepted=fine)
    assert (first.row, first.kind) not in {(suspect.row, suspect.kind) for suspect in after.suspects}
    assert after.hidden >= 1


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"fine": 3}', '{"entries": [{}]}', '{"version": 9, "fine": []}', "no"]
)
def test_a_file_that_is_none_is_refused_in_one_line(content: str, table: Path, tmp_path: Path) -> None:
    path = tmp_path / "accepted.json"
    path.write_text(content)
    done = likely_audit(table, "--accepted", path, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "accepted.json" in done.output
    assert "Traceback" not in done.output
    with pytest.raises(ValueError, match=r"accepted\.json"):
        Accepted.read(path, "known")
