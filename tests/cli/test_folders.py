"""Folders, globs and several files on the command line: read together if they are small, else by blocks."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from likely import auditing, cli
from likely.auditing import pipeline
from likely.cli import fit
from quick_audits import small_models_of
from quick_stacks import cut_short

pq = pytest.importorskip("pyarrow.parquet")
ROWS = 1_600


def likely_command(*words: object) -> Result:
    return CliRunner().invoke(cli.build(), [str(word) for word in words])


def refused(message: str, *words: object) -> None:
    """The command ends in one line of words, with exit code 2."""
    done = likely_command(*words)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.startswith("likely: ")
    assert done.stderr.count("\n") == 1


def table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    hidden = rng.normal(size=(ROWS, 2))
    frame = pd.DataFrame(hidden @ rng.normal(size=(2, 4)) + 0.2 * rng.normal(size=(ROWS, 4)), columns=list("abcd"))
    frame["word"] = np.where(frame["a"] + 0.3 * rng.normal(size=ROWS) > 0, "up", "down")
    frame["price"] = 20 + 2 * frame["a"] - frame["c"] + 0.1 * rng.normal(size=ROWS)
    frame.loc[7, "price"] = 300.0
    frame.loc[1101, "price"] = -90.0
    frame.loc[903, "b"] = 60.0
    frame.loc[::50, "d"] = np.nan
    frame.iloc[1500] = frame.iloc[20]
    return frame


def in_files(frame: pd.DataFrame, folder: Path, blocks: int) -> Path:
    folder.mkdir(parents=True)
    for number, part in enumerate(np.array_split(np.arange(len(frame)), blocks)):
        frame.iloc[part].to_parquet(folder / f"{number:03}.parquet", index=False)
    return folder


@pytest.fixture(autouse=True)
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few folds, trees, centres and steps: these tests compare ways to read the same table."""
    small_models_of(monkeypatch)
    cut_short(monkeypatch)


@pytest.fixture
def beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have any table be too large to be read at once."""
    monkeypatch.setattr(pipeline, "AT_ONCE", 100)


def scores_of(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "scores.parquet").set_index("row")


def test_a_small_folder_is_audited_as_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = table()
    frame.to_parquet("all.parquet", index=False)
    in_files(frame, Path("parts"), 3)
    whole = auditing.audit("all.parquet", "price")
    names = sorted(str(path) for path in Path("parts").iterdir())
    for data in (["parts"], ["parts/*.parquet"], names, [(tmp_path / "parts").as_uri()]):
        done = likely_command("audit", *data, "--target", "price", "--out", "out")
        assert done.exit_code == 0, done.output
        summary = json.loads(Path("out/summary.json").read_text())
        assert summary["rows"] == ROWS
        assert summary["entries"] == json.loads(json.dumps(whole.summary()["entries"]))
    assert sorted(path.name for path in Path("out").iterdir()) == ["report.html", "scores.csv", "summary.json"]


@pytest.mark.parametrize("blocks", [1, 3, 17])
@pytest.mark.usefixtures("beyond")
def test_where_the_sample_is_all_rows_odd_rows_are_those_of_one_file(tmp_path: Path, blocks: int) -> None:
    frame = table().drop(columns="price")
    known = pipeline.audit_table(frame, None, "auto", 0, lambda *_: None)
    found = auditing.audit(str(in_files(frame, tmp_path / "parts", blocks)))
    found.save(tmp_path / "out")
    scores, own = scores_of(tmp_path / "out"), known.scores
    np.testing.assert_allclose(scores["row_scale"], own["row_scale"], rtol=1e-5)
    np.testing.assert_allclose(scores["row_odd"], own["row_odd"], rtol=1e-4, atol=1e-6)
    assert (scores["repeats_row"] == np.where(np.arange(ROWS) == 1500, 20, -1)).all()
    rows = next(finding for finding in found.findings if finding.name == "rows")
    same = next(finding for finding in known.findings if finding.name == "rows")
    assert [(own.row, own.headline) for own in rows.suspects] == [(own.row, own.headline) for own in same.suspects]


@pytest.mark.usefixtures("beyond")
def test_of_a_long_table_all_rows_are_scored_and_the_worst_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "SAMPLE", 400)
    monkeypatch.setattr(pipeline, "LEAST_SAMPLE", 400)
    parts = in_files(table(), tmp_path / "parts", 3)
    out = tmp_path / "out"
    done = likely_command("audit", parts, "--target", "price", "--out", out)
    assert done.exit_code == 0, done.output
    assert "The models were fitted to 400 of 1,600 rows" in done.output
    summary = json.loads((out / "summary.json").read_text())
    assert {"rows": 1600, "rows_read": 400}.items() <= summary.items()
    page = (out / "report.html").read_text()
    assert "The models were fitted to 400 of 1,600 rows" in page
    assert len(page) < 5_000_000
    scores = scores_of(out)
    assert len(scores) == ROWS
    assert scores["target_wrong"].nlargest(2).index.isin([7, 1101]).all()
    assert scores["suspicious"].loc[[7, 1101, 903, 1500]].all()
    assert scores["suspicious"].sum() == summary["suspicious"] < 40
    assert scores["why"].loc[1500].startswith("equals row 20")
    assert scores["why"].loc[7].startswith("price = 300, expected ")
    assert summary["findings"]["overview"]["gaps"] == {"d": round(float(table()["d"].isna().mean()), 4)}


@pytest.mark.usefixtures("beyond")
def test_labels_names_and_known_findings_of_a_long_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "SAMPLE", 800)
    monkeypatch.setattr(pipeline, "LEAST_SAMPLE", 800)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, ROWS)
    frame = pd.DataFrame({"x": 3 * truth + 0.3 * rng.normal(size=ROWS), "z": rng.normal(size=ROWS)})
    frame["label"], frame["name"] = np.where(truth, "a", "b"), [f"n{row}" for row in range(ROWS)]
    frame.loc[[3, 501], "label"] = np.where(truth[[3, 501]], "b", "a")
    parts, out = in_files(frame, tmp_path / "parts", 2), tmp_path / "out"
    done = likely_command("audit", parts, "--target", "label", "--id-column", "name", "--out", out)
    assert done.exit_code == 0, done.output
    scores = scores_of(out)
    assert set(scores.index[scores["suggested"] != ""]) == {3, 501}
    assert (scores["name"] == frame["name"]).all()
    assert "name n501" in done.output
    again = likely_command(
        "audit",
        parts,
        "--target",
        "label",
        "--id-column",
        "name",
        "--out",
        tmp_path / "new",
        "--previous",
        out / "summary.json",
    )
    assert again.exit_code == 0, again.output
    assert "known before" in again.output


def test_what_is_wrong_with_files_is_said_in_one_line_that_names_them(tmp_path: Path) -> None:
    parts, out = in_files(table(), tmp_path / "parts", 3), tmp_path / "out"
    refused("nothing.parquet does not exist", "audit", parts / "000.parquet", parts / "nothing.parquet", "--out", out)
    refused("does not exist", "audit", tmp_path / "no*.parquet", "--out", out)
    (tmp_path / "empty").mkdir()
    refused("empty holds no file that ends in", "audit", tmp_path / "empty", "--out", out)
    table().rename(columns={"a": "A"}).to_parquet(parts / "003.parquet", index=False)
    refused("003.parquet has other columns: 'A' is not there in", "audit", parts, "--out", out)
    table().assign(a="word").to_parquet(parts / "003.parquet", index=False)
    refused("003.parquet has other columns: Unable to merge: Field a has", "audit", parts, "--out", out)
    (parts / "003.parquet").write_bytes(b"PAR1 no table")
    refused("003.parquet", "audit", parts, "--out", out)
    assert not out.exists()


@pytest.mark.usefixtures("beyond")
def test_a_file_that_breaks_half_way_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, out = in_files(table(), tmp_path / "parts", 3), tmp_path / "out"
    broken = parts / "002.parquet"
    content = bytearray(broken.read_bytes())
    content[4:60] = bytes(56)
    broken.write_bytes(content)
    refused("002.parquet cannot be read", "audit", parts, "--out", out)
    assert not out.exists()


def test_an_audit_writes_over_none_of_several_inputs(tmp_path: Path) -> None:
    parts = in_files(table(), tmp_path / "parts", 2)
    (parts / "000.parquet").rename(parts / "scores.parquet")
    refused("given as DATA, which would be lost", "audit", parts, "--out", parts)


def outputs(classes: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, classes, 600)
    logits = 2 * np.eye(classes)[labels] + rng.normal(size=(600, classes))
    frame = pd.DataFrame(3 * logits, columns=[f"logit_{k}" for k in range(classes)])
    return frame.assign(labels=labels)


@pytest.mark.parametrize("blocks", [1, 3, 17])
def test_calibrate_and_predict_answer_folders_as_they_do_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    monkeypatch.chdir(tmp_path)
    outputs().to_parquet("all.parquet", index=False)
    in_files(outputs(), Path("parts"), blocks)
    for data, model in (("all.parquet", "one.json"), ("parts", "several.json")):
        done = likely_command("calibrate", data, "--method", "vector", "--cv", 2, "--out", model)
        assert done.exit_code == 0, done.output
    told = [json.loads(Path(name).read_text()) for name in ("one.json", "several.json")]
    assert told[0] | {"about": 0} == told[1] | {"about": 0}
    assert likely_command("predict", "one.json", "all.parquet", "--out", "one.parquet").exit_code == 0
    assert likely_command("predict", "one.json", "all.parquet", "--out", "one.csv").exit_code == 0
    several = likely_command("predict", "one.json", "parts/*.parquet", "--out", "p.parquet")
    assert several.exit_code == 0, several.output
    assert several.output.startswith("*.parquet: 600 rows, 3 classes")
    answers = pd.read_parquet("p.parquet")
    pd.testing.assert_frame_equal(answers, pd.read_parquet("one.parquet"))
    pd.testing.assert_frame_equal(answers, pd.read_csv("one.csv"))
    assert sorted(path.name for path in Path().iterdir() if "partial" in path.name) == []


def test_of_very_many_outputs_some_are_fitted_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "MAX_FITTED_VALUES", 4 * 200)
    parts = in_files(outputs(), tmp_path / "parts", 3)
    done = likely_command("calibrate", parts, "--method", "global", "--cv", 0, "--out", tmp_path / "m.json")
    assert "note: Fitted on 200 of 600 rows, one in 3." in done.output


def test_what_folders_cannot_be_predicted_is_said_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    in_files(outputs(), Path("parts"), 3)
    in_files(outputs(4), Path("four"), 2)
    assert likely_command("calibrate", "parts", "--method", "global", "--cv", 0, "--out", "m.json").exit_code == 0
    refused("--out must end in .parquet, got p.csv", "predict", "m.json", "parts", "--out", "p.csv")
    refused("given as DATA, which would be lost", "predict", "m.json", "parts", "--out", "parts/001.parquet")
    refused("does not exist", "predict", "m.json", "nowhere/*.parquet", "--out", "p.parquet")
    likely_command("calibrate", "parts", "--method", "vector", "--cv", 0, "--out", "v.json")
    refused("logits have 4 classes, the calibrator was fitted on 3", "predict", "v.json", "four", "--out", "p.parquet")
    broken = outputs()
    broken.loc[500, "logit_1"] = np.nan
    for path in Path("parts").iterdir():
        path.unlink()
    Path("parts").rmdir()
    in_files(broken, Path("parts"), 3)
    assert likely_command("predict", "v.json", "parts", "--out", "p.parquet").exit_code == 2
    assert not Path("p.parquet").exists()
    assert not [path for path in Path().iterdir() if "partial" in path.name]
