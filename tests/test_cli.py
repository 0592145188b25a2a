"""The command line: what it prints, how it ends, and how little it loads before it must."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import likely
from likely import bench, cli, reproduce
from likely._page import Table
from likely.reproduce import ENTRIES, Bar, Context, Entry
from likely.reproduce._run import command

CHECK_IMPORTS = """
import sys, time
start = time.process_time()
from likely.cli import main
sys.argv = ["likely", *{words}]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
seconds = time.process_time() - start
print("loaded:", *sorted({{"torch", "pandas", "matplotlib", "sklearn", "scipy"}} & set(sys.modules)))
print("seconds:", seconds)
"""


def likely_command(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(cli.build(), words, env={"LIKELY_DATA": None, **environment})


def good(context: Context) -> reproduce.Result:
    return reproduce.Result("holds", "It does.")


def bad(context: Context) -> reproduce.Result:
    raise ZeroDivisionError("nothing left")


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> None:
    made = (
        Entry("good", "Figure", 1, "Good", "It works.", good),
        Entry("bad", "Figure", 2, "Bad", "It fails.", bad),
        Entry("fine", "Table", 1, "Fine", "It works too.", good),
    )
    monkeypatch.setattr(reproduce, "ENTRIES", made)


@pytest.mark.parametrize(
    "words", [["--help"], ["reproduce", "--help"], ["reproduce", "--list"], ["bench", "--list"], ["--version"]]
)
def test_asking_for_words_loads_no_library(words: list[str]) -> None:
    code = CHECK_IMPORTS.format(words=words)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    *_, loaded, seconds = done.stdout.splitlines()
    assert loaded.strip() == "loaded:"
    assert float(seconds.split()[1]) < 2.0  # of the processor, whatever else runs; a third of a second here


def test_version() -> None:
    assert likely_command("--version").stdout.strip() == f"likely {likely.__version__}"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == "typer" else True)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == "The likely command needs typer: pip install 'likely[cli]'"


def test_info_for_people_and_for_programs(tmp_path: Path) -> None:
    shown = likely_command("info", LIKELY_DATA=str(tmp_path))
    assert shown.exit_code == 0
    about = json.loads(likely_command("info", "--json", LIKELY_DATA=str(tmp_path)).stdout)
    assert list(about) == ["versions", "machine", "data", "extras"]
    assert list(about["versions"]) == ["likely", "python", "torch", "numpy", "scipy", "scikit-learn"]
    assert {"cpu", "cores", "memory"} <= set(about["machine"])
    assert about["data"]["LIKELY_DATA"] == str(tmp_path)
    for value in (*about["versions"].values(), str(tmp_path), *about["extras"]):
        assert value in shown.stdout
    assert "not set" in likely_command("info").stdout


def test_an_extra_is_installed_when_all_it_asks_for_is() -> None:
    from likely._machine import _wanted

    requirements = ['a>=1; extra == "one"', "b[x]>=2 ; extra == 'two'", "likely[one,two]; extra == 'all'", "torch>=2.6"]
    assert _wanted("one", requirements) == {"a"}
    assert _wanted("two", requirements) == {"b"}
    assert _wanted("all", requirements) == {"a", "b"}


def test_list_shows_every_entry() -> None:
    lines = likely_command("reproduce", "--list").stdout.splitlines()[1:]
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
    done = likely_command("reproduce", *words, "--out", str(tmp_path / "runs"))
    assert done.exit_code == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_missing_data_folder_is_named(tmp_path: Path) -> None:
    done = likely_command("reproduce", "--data", str(tmp_path / "nowhere"))
    assert done.exit_code == 2
    assert "--data" in done.stderr


def test_one_failure_does_not_lose_the_others(entries: None, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    done = likely_command("reproduce", "--quick", "--seed", "3", "--out", str(out))
    assert done.exit_code == 1
    assert done.stdout.strip() == str(out / "report.html")
    lines = done.stderr.splitlines()
    assert [line.split()[0] for line in lines] == ["good", "bad", "fine"]
    assert "failed: ZeroDivisionError: nothing left" in lines[1]
    stored = {path.stem: json.loads(path.read_text()) for path in (out / "results").glob("*.json")}
    assert stored["good"]["result"]["verdict"] == stored["fine"]["result"]["verdict"] == "holds"
    assert stored["bad"]["error"] == "ZeroDivisionError: nothing left"
    assert stored["good"]["command"] == "likely reproduce good --quick --seed 3"
    assert (stored["good"]["seed"], stored["good"]["quick"]) == (3, True)
    page = (out / "report.html").read_text()
    assert "ZeroDivisionError: nothing left" in page
    assert "likely reproduce --quick --seed 3" in page


def test_running_one_again_keeps_the_others(entries: None, tmp_path: Path) -> None:
    for name in ("good", "fine"):
        assert likely_command("reproduce", name, "--out", str(tmp_path)).exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "likely reproduce good --seed 0" in page
    assert "likely reproduce fine --seed 0" in page
    assert "2 hold, 1 not run" in page


def test_an_interrupted_run_still_writes_its_report(
    entries: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(context: Context) -> reproduce.Result:
        raise KeyboardInterrupt

    made = (reproduce.ENTRIES[0], Entry("slow", "Figure", 2, "Slow", "It is slow.", interrupt))
    monkeypatch.setattr(reproduce, "ENTRIES", made)
    assert likely_command("reproduce", "--out", str(tmp_path)).exit_code != 0
    assert "1 holds, 1 not run" in (tmp_path / "report.html").read_text()


def test_the_command_to_redo_names_a_data_folder_unless_the_environment_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(data=tmp_path / "my data")
    monkeypatch.delenv("LIKELY_DATA", raising=False)
    assert command("reproduce", ["vae"], context) == f"likely reproduce vae --seed 0 --data '{tmp_path}/my data'"
    monkeypatch.setenv("LIKELY_DATA", str(context.data))
    assert command("reproduce", ["vae"], context) == "likely reproduce vae --seed 0"


def test_the_console_script_is_installed() -> None:
    script = Path(sys.executable).with_name("likely.exe" if os.name == "nt" else "likely")
    if not script.exists():
        pytest.skip("the package is not installed with its scripts")
    done = subprocess.run([script, "reproduce", "nothing"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""


@pytest.mark.parametrize(("verdict", "code"), [("holds", 0), ("does not hold", 1)])
def test_bench_prints_one_table_and_fails_when_a_bar_is_missed(
    verdict: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(pd.DataFrame({"error": [0.25]}, index=["ours"]), "A caption.")
    values = iter([4.0, 2.0])

    def measure(context: Context) -> reproduce.Result:
        bars = (Bar("speed [of it]", next(values), "≥", 3, "×", 0.1), Bar("unmeasured", math.nan, "≤", 1))
        return reproduce.Result(verdict, "Some notes.", (table,), bars=bars)

    monkeypatch.setattr(bench, "BENCHES", (Entry("fake", "Benchmark", 1, "Fake", "A claim.", measure),))
    words = ("bench", "--quick", "--out", str(tmp_path), "--against", str(tmp_path / "nothing"))
    first, second = likely_command(*words), likely_command(*words)
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
    assert json.loads((tmp_path / "fake.json").read_text())["command"] == "likely bench fake --quick --seed 0"
    assert likely_command("bench", "--list").stdout.splitlines()[1].split()[0] == "fake"
    assert likely_command("bench", "fakes").exit_code == 2
