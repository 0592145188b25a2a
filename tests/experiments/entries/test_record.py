"""A run as files: what is written can be read again, and the same seed writes the same bytes."""

import json
import math
from pathlib import Path

import pandas as pd
import pytest
import torch

from experiments.entries import Context, Entry, Result, load, run_entry, save
from experiments.entries.cores import one_thread
from experiments.entries.parts import Picture, Table
from experiments.paper import conditioning
from experiments.paper.offset_stability import MAPS, calibrate, overtrained
from experiments.paper.registry import find


def draws(context: Context) -> Result:
    frame = pd.DataFrame(
        {"drawn": torch.rand(2).double().numpy(), "seen": [1, 2]}, index=pd.Index(["a", "b"], name="row")
    )
    return Result(
        "holds", "notes", (Table(frame, "drawn", {"drawn": "lower"}),), (Picture("<svg></svg>", "alt", "words"),)
    )


def breaks(context: Context) -> Result:
    raise ValueError("a <b> & c")


DRAWS = Entry("draws", "Figure", 1, "Draws", "It draws.", draws)
BREAKS = Entry("breaks", "Table", 1, "Breaks", "It breaks.", breaks)


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"nll": [0.5, math.inf, math.nan], "count": [1, 2, 3], "words": ["x", "<y>", "z"]},
        index=pd.MultiIndex.from_tuples([("m", "a"), ("m", "b"), ("n", "a")], names=["model", "set"]),
    )
    table = Table(frame, "a `caption`", {"nll": "lower", ("nll", "count"): "higher"}, digits=4)
    pictures = (Picture("<svg>1</svg>", "one", "first"), Picture("<svg>2</svg>", "two", "second", wide=True))
    entry = Entry(
        "kept", "Table", 1, "Kept", "It is kept.", lambda context: Result("holds in part", "n", (table,), pictures)
    )
    record = run_entry(entry, Context(quick=True, seed=3), "python -m experiments.paper kept")
    save(record, tmp_path)
    again = load("kept", tmp_path)
    assert again is not None
    assert again.result is not None
    assert (again.name, again.quick, again.seed, again.error) == ("kept", True, 3, None)
    assert (again.versions, again.machine, again.command) == (record.versions, record.machine, record.command)
    assert (again.result.verdict, again.result.notes, again.result.pictures) == ("holds in part", "n", pictures)
    loaded = again.result.tables[0]
    pd.testing.assert_frame_equal(loaded.frame, frame)
    assert (loaded.caption, dict(loaded.best), loaded.digits) == (table.caption, dict(table.best), 4)


def test_json_is_strict_and_small(tmp_path: Path) -> None:
    save(run_entry(find("loss-likelihood"), Context(quick=True), "c"), tmp_path)
    text = (tmp_path / "loss-likelihood.json").read_text()
    assert len(text) < 10_000
    stored = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert stored["versions"]["torch"] == torch.__version__
    assert stored["machine"]["cores"] >= 1


def test_a_later_run_leaves_nothing_of_the_earlier(tmp_path: Path) -> None:
    save(run_entry(DRAWS, Context(), "c"), tmp_path)
    failing = Entry("draws", "Figure", 1, "Draws", "It draws.", breaks)
    save(run_entry(failing, Context(), "c"), tmp_path)
    assert list(written(tmp_path)) == ["draws.json"]


def test_files_of_another_format_count_as_not_run(tmp_path: Path) -> None:
    assert load("draws", tmp_path) is None
    (tmp_path / "draws.json").write_text(json.dumps({"format": 0}))
    assert load("draws", tmp_path) is None


def test_an_exception_becomes_the_record() -> None:
    record = run_entry(BREAKS, Context(), "c")
    assert record.error == "ValueError: a <b> & c"
    assert "in breaks" in (record.traceback or "")
    assert record.result is None


def test_a_run_neither_depends_on_nor_disturbs_the_generator(tmp_path: Path) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    save(run_entry(DRAWS, Context(seed=7), "c"), tmp_path / "a")
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    save(run_entry(DRAWS, Context(seed=7), "c"), tmp_path / "b")
    save(run_entry(DRAWS, Context(seed=8), "c"), tmp_path / "c")
    assert written(tmp_path / "a") == written(tmp_path / "b") != written(tmp_path / "c")


@pytest.mark.parametrize("name", ["loss-likelihood", "conditioning"])
def test_same_seed_same_bytes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = conditioning.study
    monkeypatch.setattr(conditioning, "study", lambda seed, epochs: study(seed, 3))
    for folder in ("a", "b"):
        save(run_entry(find(name), Context(quick=True, seed=5), "c"), tmp_path / folder)
    assert len(written(tmp_path / "a")) > 2
    assert written(tmp_path / "a") == written(tmp_path / "b")


@one_thread()
def test_same_seed_same_learning_curve() -> None:
    task = overtrained(0)
    curves = [calibrate(task, MAPS["exp"], 0.1, steps=10, seed=seed) for seed in (0, 0, 1)]
    assert (curves[0] == curves[1]).all()
    assert (curves[0] != curves[2]).any()
