"""The two commands of the experiments: what they print and write, how they end, and how little they load."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from commands import benchmarks_command, in_a_process, paper_command
from experiments import benchmarks, paper
from experiments.entries import Bar, Context, Entry, Result
from experiments.entries.parts import Table
from experiments.entries.run import command
from experiments.paper import ENTRIES

CHECK_IMPORTS = """
import runpy, sys, time
start = time.process_time()
sys.argv = ["", *{words}]
try:
    runpy.run_module("experiments.{package}", run_name="__main__")
except SystemExit as stop:
    assert not stop.code, stop.code
seconds = time.process_time() - start
print("loaded:", *sorted({{"torch", "pandas", "matplotlib", "sklearn", "scipy"}} & set(sys.modules)))
print("seconds:", seconds)
"""


def good(context: Context) -> Result:
    return Result("holds", "It does.")


def bad(context: Context) -> Result:
    raise ZeroDivisionError("nothing left")


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> None:
    made = (
        Entry("good", "Figure", 1, "Good", "It works.", good),
        Entry("bad", "Figure", 2, "Bad", "It fails.", bad),
        Entry("fine", "Table", 1, "Fine", "It works too.", good),
    )
    monkeypatch.setattr(paper, "ENTRIES", made)


@pytest.mark.parametrize(
    ("package", "words"), [("paper", ["--help"]), ("paper", ["--list"]), ("benchmarks", ["--list"])]
)
def test_asking_for_words_loads_no_library(package: str, words: list[str]) -> None:
    code = CHECK_IMPORTS.format(package=package, words=words)
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=in_a_process())
    *_, loaded, seconds = done.stdout.splitlines()
    assert loaded.strip() == "loaded:"
    assert float(seconds.split()[1]) < 2.0  # of the processor, whatever else runs; a third of a second here


@pytest.mark.parametrize("package", ["paper", "benchmarks"])
def test_a_command_that_is_not_understood_is_no_traceback(package: str) -> None:
    command = [sys.executable, "-m", f"experiments.{package}", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, env=in_a_process())
    assert (done.returncode, done.stdout) == (2, "")
    assert "no entry is named 'nothing'" in done.stderr


def test_output_that_nobody_takes_is_one_line() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "experiments.paper", "--list"]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, env=in_a_process())
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (2, "likely: standard output: Broken pipe\n")


def test_list_shows_every_entry() -> None:
    lines = paper_command("--list").stdout.splitlines()[1:]
    assert len(lines) == len(ENTRIES) == 20
    for line, entry in zip(lines, ENTRIES, strict=True):
        assert line.split()[0] == entry.name
        assert entry.what in line
        assert entry.title in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ofset-stability"], "no entry is named 'ofset-stability'; did you mean 'offset-stability'?"),
        (["xyz"], "no entry is named 'xyz'; did you mean"),
        (["loss-likelihood", "--all"], "give names or --all, not both"),
    ],
)
def test_a_wrong_name_is_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    done = paper_command(*words, "--out", str(tmp_path / "runs"))
    assert done.exit_code == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_missing_data_folder_is_named(tmp_path: Path) -> None:
    done = paper_command("--data", str(tmp_path / "nowhere"))
    assert done.exit_code == 2
    assert "--data" in done.stderr


def test_one_failure_does_not_lose_the_others(entries: None, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    done = paper_command("--quick", "--seed", "3", "--out", str(out))
    assert done.exit_code == 1
    assert done.stdout.strip() == str(out / "report.html")
    lines = done.stderr.splitlines()
    assert [line.split()[0] for line in lines] == ["good", "bad", "fine"]
    assert "failed: ZeroDivisionError: nothing left" in lines[1]
    stored = {path.stem: json.loads(path.read_text()) for path in (out / "results").glob("*.json")}
    assert stored["good"]["result"]["verdict"] == stored["fine"]["result"]["verdict"] == "holds"
    assert stored["bad"]["error"] == "ZeroDivisionError: nothing left"
    assert stored["good"]["command"] == "python -m experiments.paper good --quick --seed 3"
    assert (stored["good"]["seed"], stored["good"]["quick"]) == (3, True)
    page = (out / "report.html").read_text()
    assert "ZeroDivisionError: nothing left" in page
    assert "python -m experiments.paper --quick --seed 3" in page


def test_running_one_again_keeps_the_others(entries: None, tmp_path: Path) -> None:
    for name in ("good", "fine"):
        assert paper_command(name, "--out", str(tmp_path)).exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "python -m experiments.paper good --seed 0" in page
    assert "python -m experiments.paper fine --seed 0" in page
    assert "What was run here are 2 of 3 entries, beside the stored run; 1 not run." in page


def test_an_interrupted_run_still_writes_its_report(
    entries: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(context: Context) -> Result:
        raise KeyboardInterrupt

    made = (paper.ENTRIES[0], Entry("slow", "Figure", 2, "Slow", "It is slow.", interrupt))
    monkeypatch.setattr(paper, "ENTRIES", made)
    assert paper_command("--out", str(tmp_path)).exit_code != 0
    page = (tmp_path / "report.html").read_text()
    assert "What was run here are 1 of 2 entries, beside the stored run; 1 not run." in page


def test_the_command_to_redo_names_a_data_folder_unless_the_environment_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(data=tmp_path / "my data")
    monkeypatch.delenv("LIKELY_DATA", raising=False)
    assert (
        command("experiments.paper", ["vae"], context)
        == f"python -m experiments.paper vae --seed 0 --data '{tmp_path}/my data'"
    )
    monkeypatch.setenv("LIKELY_DATA", str(context.data))
    assert command("experiments.paper", ["vae"], context) == "python -m experiments.paper vae --seed 0"


@pytest.mark.parametrize(("verdict", "code"), [("holds", 0), ("does not hold", 1)])
def test_bench_prints_one_table_and_fails_when_a_bar_is_missed(
    verdict: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(pd.DataFrame({"error": [0.25]}, index=["ours"]), "A caption.")
    values = iter([4.0, 2.0])

    def measure(context: Context) -> Result:
        bars = (Bar("speed [of it]", next(values), "≥", 3, "×", 0.1), Bar("unmeasured", math.nan, "≤", 1))
        return Result(verdict, "Some notes.", (table,), bars=bars)

    monkeypatch.setattr(benchmarks, "BENCHES", (Entry("fake", "Benchmark", 1, "Fake", "A claim.", measure),))
    words = ("--quick", "--out", str(tmp_path), "--against", str(tmp_path / "nothing"))
    first, second = benchmarks_command(*words), benchmarks_command(*words)
    assert first.exit_code == second.exit_code == code
    rows = [[line.split("  ") for line in done.stdout.splitlines()] for done in (first, second)]
    cells = [[[cell.strip() for cell in line if cell.strip()] for line in lines] for lines in rows]
    assert cells[0][0] == ["benchmark", "measure", "measured", "bar", "met", "change"]
    assert cells[0][1] == ["fake", "speed [of it]", "4.00 ± 0.10×", "≥ 3×", "yes", "–"]
    assert cells[0][2] == ["fake", "unmeasured", "not measured", "≤ 1", "–", "–"]
    assert cells[1][1] == ["fake", "speed [of it]", "2.00 ± 0.10×", "≥ 3×", "no", "× 0.5 worse"]
    assert f"fake: {verdict}. No earlier run" in first.stdout
    assert "2 measures: 1 missed, 1 not judged, 1 worse than in the last run." in second.stdout
    assert second.stdout.splitlines()[-1] == str(tmp_path / "bench.html")
    assert "A caption." in (tmp_path / "bench.html").read_text()
    assert (
        json.loads((tmp_path / "fake.json").read_text())["command"]
        == "python -m experiments.benchmarks fake --quick --seed 0"
    )
    assert benchmarks_command("--list").stdout.splitlines()[1].split()[0] == "fake"
    assert benchmarks_command("fakes").exit_code == 2
