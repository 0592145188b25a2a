"""`likely audit`: what it writes and prints, how it ends, and what it leaves alone."""

import csv
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from auditing.rows.test_table import houses
from likely import cli
from likely._files import harmless, spreadsheet
from pairwise import together


def likely_audit(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.build(), ["audit", *map(str, words)])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    frame = houses(120)
    frame.loc[7, "price"] *= 1000
    frame["=cmd|' /C calc'!A0"] = np.arange(120) % 3
    frame.loc[9, "town"] = "=HYPERLINK(1)"
    frame.to_csv(tmp_path / "houses.csv", index=False)
    return tmp_path / "houses.csv"


def test_it_writes_a_page_scores_and_a_summary_and_leaves_the_data_alone(table: Path, tmp_path: Path) -> None:
    before = hashlib.sha256(table.read_bytes()).hexdigest()
    done = likely_audit(table, "--target", "price", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "row 7: price = " in done.stdout
    # What is told above is not said again, and all that is well is one line.
    assert "Targets that are probably wrong" not in done.stdout
    (well,) = [line for line in done.stdout.splitlines() if line.startswith("Nothing to report on ")]
    assert "groups on which predictions fail" in well
    assert "Groups on which predictions fail:" not in done.stdout
    assert done.stdout.strip().endswith("report.html")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.html", "scores.csv", "summary.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["houses.csv", "out"]
    assert hashlib.sha256(table.read_bytes()).hexdigest() == before
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["rows"], summary["target"], summary["task"]) == (120, "price", "regression")
    scores = pd.read_csv(tmp_path / "out" / "scores.csv")
    assert len(scores) == 120
    assert scores["row"].tolist() == list(range(120))
    assert bool(scores["suspicious"][7])


def test_the_gate(table: Path, tmp_path: Path) -> None:
    words = (table, "--target", "price", "--out", tmp_path / "out", "--fail-above")
    assert likely_audit(*words, "0.5").exit_code == 0
    stopped = likely_audit(*words, "0")
    assert stopped.exit_code == 1
    assert "more than the 0.00% allowed" in stopped.output
    assert (tmp_path / "out" / "report.html").exists()
    assert likely_audit(*words, "1.5").exit_code == 2


def test_logits_from_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 100)
    np.save(tmp_path / "z.npy", 5 * np.eye(3)[labels] + rng.normal(size=(100, 3)))
    np.save(tmp_path / "y.npy", np.where(np.arange(100) < 4, (labels + 1) % 3, labels))
    done = likely_audit(
        *("--logits", tmp_path / "z.npy", "--labels", tmp_path / "y.npy", "--classes", "cat,dog,<b>fox"),
        *("--out", tmp_path / "out"),
    )
    assert done.exit_code == 0, done.output
    page = (tmp_path / "out" / "report.html").read_text()
    assert "&lt;b&gt;fox" in page
    assert "<b>fox" not in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.csv"], "does not exist"),
        ([], "give a table"),
        (["--logits", "z.npy"], "go together"),
        (["--logits", "z.npy", "--labels", "y.npy"], "does not exist"),
    ],
)
def test_mistakes_end_in_one_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = likely_audit(*words)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []


def test_it_never_writes_over_the_data(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    houses(60).to_csv(path, index=False)
    before = path.read_bytes()
    done = likely_audit(path, "--out", tmp_path)
    assert done.exit_code == 2
    assert "is the file given as DATA, which would be lost" in done.output
    assert path.read_bytes() == before


@together("start", ["=", "+", "-", "@", "\t", "\r", "\n", " ="])
def test_no_cell_of_the_csv_is_a_formula(start: str) -> None:
    text = f"{start}1+1"
    written = spreadsheet(pd.DataFrame({text: [-1.5, 2.0], "why": [text, "fine"]}))
    read = list(csv.reader(io.StringIO(written, newline="")))
    assert not any(
        cell.lstrip().startswith(("=", "+", "@")) or cell.startswith(("\t", "\r")) for row in read for cell in row
    )
    assert read[1][1] == "-1.5"  # a number is no formula
    assert harmless("plain") == "plain"


def test_help_names_every_option() -> None:
    shown = CliRunner().invoke(cli.build(), ["audit", "--help"], env={"COLUMNS": "120"}).stdout
    for word in ("--target", "--task", "--logits", "--labels", "--features", "--fail-above"):
        assert word in shown
